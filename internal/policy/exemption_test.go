package policy

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// exempting returns rules of two policies, of which base has an exemption that ends at noon.
func exempting(now time.Time, rules ...mspolicyv1.RuleName) Rules {
	rule := atMost(1, "production")
	rule.RequiredLabels, rule.Enforced.Labels = []string{"a"}, map[string]string{"tier": "gold"}
	base := named("base", rule)
	base.Spec.Exemptions = []mspolicyv1.Exemption{
		{Kind: "WebApp", Namespace: "shop-prod", Name: "web", Rules: rules, Until: metav1.NewTime(noon)}}
	return Set{Policies: []mspolicyv1.PlatformPolicy{base, named("other", atMost(5, "*"))}, Now: now}.Governing("shop-prod", nil)
}

// TestExemptions: an exemption is of one object, from some rules of its own policy, until its time.
func TestExemptions(t *testing.T) {
	const (
		replicas1 = `spec.replicas: Invalid value: 9: must be at most 1 (policy "base", rule "production.maxReplicas")`
		replicas5 = `spec.replicas: Invalid value: 9: must be at most 5 (policy "other", rule "*.maxReplicas")`
		label     = `metadata.labels[a]: Required value: must be set, to any value (policy "base", rule "production.requiredLabels"): add the label a`
		tier      = `metadata.labels[tier]: Required value: must be "gold" (policy "base", rule "production.enforced.labels"): add labels: {tier: "gold"}`
	)
	all := []string{replicas1, label, replicas5, tier}
	before := noon.Add(-time.Nanosecond)
	for name, test := range map[string]struct {
		kind, object string
		rules        Rules
		want         []string
	}{
		"from all rules of the policy": {"WebApp", "web", exempting(before), []string{replicas5}},
		"from some":                    {"WebApp", "web", exempting(before, "maxReplicas", "enforced.labels"), []string{label, replicas5}},
		"another kind":                 {"Deployment", "web", exempting(before), all},
		"another name":                 {"WebApp", "web2", exempting(before), all},
		"a name that is not known":     {"WebApp", "", exempting(before), all},
		"it has ended":                 {"WebApp", "web", exempting(noon), all},
	} {
		subject := replicas(9)
		if diff := cmp.Diff(test.want, sentences(test.rules.For(test.kind, test.object).Check(subject))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// What is not enforced is not written, and the rules of others stay as they are.
	rules := exempting(before)
	if labels := rules.For("WebApp", "web").EnforcedLabels(); labels != nil {
		t.Errorf("the exempt one gets %v", labels)
	}
	if labels := rules.For("WebApp", "other").EnforcedLabels(); labels["tier"] != "gold" {
		t.Errorf("another one gets %v", labels)
	}
}

// TestEveryRuleCanBeLifted: without any, a rule requires nothing.
func TestEveryRuleCanBeLifted(t *testing.T) {
	rule := atMost(1, "production")
	rule.AllowedRegistries, rule.RequireResourceLimits, rule.RequiredLabels = []string{"r.io"}, true, []string{"a"}
	rule.Enforced = mspolicyv1.Enforced{Labels: map[string]string{"a": "b"}, SecurityProfile: "Restricted",
		SecurityContext: &mspolicyv1.SecurityContext{RunAsNonRoot: new(true)}}
	if diff := cmp.Diff(mspolicyv1.Rule{Environment: "production"}, lifted(rule, mspolicyv1.Exemption{})); diff != "" {
		t.Error(diff)
	}
}
