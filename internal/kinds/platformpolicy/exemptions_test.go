package platformpolicy

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestExemptions: the status says which ones count, a condition which ones need attention, and the
// next reconcile is due when that changes.
func TestExemptions(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	stored := newPolicy(atMost(2, "production"))
	stored.Spec.Exemptions = []mspolicyv1.Exemption{
		{Kind: "WebApp", Namespace: "shop-prod", Name: "x", Until: metav1.NewTime(noon)},
		{Kind: "Pod", Namespace: "shop-prod", Name: "y", Until: metav1.NewTime(noon.Add(time.Hour))},
	}
	const day = 24 * time.Hour
	for _, test := range []struct {
		now        time.Time
		states     string
		condition  string
		next       time.Duration
		violations int32
	}{
		{noon.Add(-8 * day), "[Active Active]", "", day, 0},
		{noon.Add(-7 * day), "[Expiring Active]",
			"ExpiringSoon: exemptions that end soon: WebApp shop-prod/x until 2026-01-31T12:00:00Z", time.Hour, 0},
		{noon.Add(-time.Minute), "[Expiring Expiring]",
			"ExpiringSoon: exemptions that end soon: WebApp shop-prod/x until 2026-01-31T12:00:00Z, " +
				"Pod shop-prod/y until 2026-01-31T13:00:00Z", time.Minute, 0},
		{noon, "[Expired Expiring]", "Expired: exemptions that have ended: WebApp shop-prod/x: remove them from spec.exemptions", time.Hour, 1},
		{noon.Add(day), "[Expired Expired]",
			"Expired: exemptions that have ended: WebApp shop-prod/x, Pod shop-prod/y: remove them from spec.exemptions", 0, 1},
	} {
		observed := Observed{Namespaces: map[string]map[string]string{"shop-prod": nil},
			Objects:  []policy.Object{object("shop-prod", "WebApp", "x", 9)},
			Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{*stored}, Now: test.now}}
		status := Status(stored, observed, plan.Result{})
		var states []mspolicyv1.ExemptionState
		for _, exemption := range status.Exemptions {
			states = append(states, exemption.State)
		}
		condition := ""
		for _, found := range status.Conditions[1:] {
			condition += found.Reason + ": " + found.Message
		}
		if fmt.Sprint(states) != test.states || condition != test.condition || status.Violations != test.violations {
			t.Errorf("%s: %s %d %s", test.now, states, status.Violations, condition)
		}
		if next := NextExpiry(stored, test.now); next != test.next {
			t.Errorf("%s: next in %s", test.now, next)
		}
	}
}
