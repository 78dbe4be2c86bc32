package summary_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// TestConditions has the table of Conditions, a row for each severity.
func TestConditions(t *testing.T) {
	const healthy = "Degraded=False Healthy: nothing is wrong"
	for name, test := range map[string]struct {
		severity summary.Severity
		want     []string
	}{
		"working":   {summary.Working, []string{"Ready=True Why: how it is", healthy}},
		"unknown":   {summary.Unknown, []string{"Ready=Unknown Why: how it is", healthy}},
		"under way": {summary.UnderWay, []string{"Ready=False Why: how it is", healthy}},
		"waiting":   {summary.Waiting, []string{"Ready=False Why: how it is", healthy}},
		"troubled":  {summary.Degraded, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is"}},
		"failed":    {summary.Failed, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is"}},
		"stalled":   {summary.Stalled, []string{"Ready=False Why: how it is", "Degraded=True Why: how it is", "Stalled=True Why: how it is"}},
	} {
		t.Run(name, func(t *testing.T) {
			given := summary.Of(test.severity, "Why", "how %s is", "it")
			progressing := conditions.True("Progressing", "Moving", "it moves")
			want := append([]string{test.want[0], "Progressing=True Moving: it moves"}, test.want[1:]...)
			var got []string
			for _, one := range given.Conditions(progressing) {
				got = append(got, fmt.Sprintf("%s=%s %s: %s", one.Type, one.Status, one.Reason, one.Message))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if isDegraded := len(test.want) > 1 && test.want[1] != healthy; given.IsProblem() != isDegraded {
				t.Errorf("it is trouble: %t, and Degraded: %t", given.IsProblem(), isDegraded)
			}
		})
	}
}

// TestPhase has the table of Phase, with the rows below it true as well.
func TestPhase(t *testing.T) {
	for phase, isTrue := range map[api.Phase][]string{
		"Active":      {"Ready", "Degraded", "Progressing"},
		"Failed":      {"Stalled", "Progressing"},
		"Progressing": {"Progressing", "Flapping"},
		"Pending":     {"Flapping"},
	} {
		all := []metav1.Condition{conditions.False("Ready", "Why", ""), conditions.False("Degraded", "Why", "")}
		for _, kind := range isTrue {
			all = append(all, conditions.True(kind, "Why", ""))
		}
		if got := summary.Phase(all); got != phase {
			t.Errorf("%v: got %s, want %s", isTrue, got, phase)
		}
	}
	failed := summary.Of(summary.Failed, "Why", "how it is").Conditions(conditions.True("Progressing", "Moving", "it moves"))
	if got := summary.Phase(failed); got != "Failed" {
		t.Errorf("while it moves, a failure is %s", got)
	}
}

func TestOfFailure(t *testing.T) {
	for name, test := range map[string]struct {
		failure plan.Failure
		want    summary.Severity
	}{
		"tried again at once":                   {plan.Failure{Transient: true}, summary.Unknown},
		"someone must act":                      {plan.Failure{Stalled: true}, summary.Stalled},
		"someone must act, and it is looked at": {plan.Failure{Stalled: true, Retry: true}, summary.Stalled},
		"refused":                               {plan.Failure{Retry: true}, summary.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			test.failure.Reason, test.failure.Message = "Refused", "100% of the quota is used"
			want := summary.Summary{Severity: test.want, Reason: "Refused", Message: "100% of the quota is used"}
			if diff := cmp.Diff(want, summary.OfFailure(test.failure)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
