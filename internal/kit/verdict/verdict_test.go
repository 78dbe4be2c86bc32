package verdict_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/verdict"
)

// TestConditions has the table of Conditions, a row for each severity.
func TestConditions(t *testing.T) {
	const healthy = "Degraded=False Healthy: nothing is wrong"
	for name, test := range map[string]struct {
		severity verdict.Severity
		want     []string
	}{
		"working":   {verdict.Working, []string{"Ready=True Why: how it is", healthy}},
		"unknown":   {verdict.Unknown, []string{"Ready=Unknown Why: how it is", healthy}},
		"under way": {verdict.UnderWay, []string{"Ready=False Why: how it is", healthy}},
		"waiting":   {verdict.Waiting, []string{"Ready=False Why: how it is", healthy}},
		"troubled":  {verdict.Troubled, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is"}},
		"failed":    {verdict.Failed, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is"}},
		"stalled":   {verdict.Stalled, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is", "Stalled=True Why: how it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := verdict.Of(test.severity, "Why", "how %s is", "it")
			progressing := conditions.True("Progressing", "Moving", "it moves")
			want := append([]string{test.want[0], "Progressing=True Moving: it moves"}, test.want[1:]...)
			var got []string
			for _, one := range given.Conditions(progressing) {
				got = append(got, fmt.Sprintf("%s=%s %s: %s", one.Type, one.Status, one.Reason, one.Message))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if isDegraded := len(test.want) > 1 && test.want[1] != healthy; given.IsTrouble() != isDegraded {
				t.Errorf("it is trouble: %t, and Degraded: %t", given.IsTrouble(), isDegraded)
			}
		})
	}
}

func TestOfFailure(t *testing.T) {
	for name, test := range map[string]struct {
		failure plan.Failure
		want    verdict.Severity
	}{
		"tried again at once":                   {plan.Failure{Transient: true}, verdict.Unknown},
		"someone must act":                      {plan.Failure{Stalled: true}, verdict.Stalled},
		"someone must act, and it is looked at": {plan.Failure{Stalled: true, Retry: true}, verdict.Stalled},
		"refused":                               {plan.Failure{Retry: true}, verdict.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			test.failure.Reason, test.failure.Message = "Refused", "100% of the quota is used"
			want := verdict.Verdict{Severity: test.want, Reason: "Refused", Message: "100% of the quota is used"}
			if diff := cmp.Diff(want, verdict.OfFailure(test.failure)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
