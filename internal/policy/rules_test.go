package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// governing returns the rules in their order: policy, environment and limit.
func governing(rules Rules) []string {
	var names []string
	for _, asked := range rules.governing {
		names = append(names, fmt.Sprintf("%s %s %d", asked.policy, asked.Environment, *asked.MaxReplicas))
	}
	return names
}

var severalPolicies = []mspolicyv1.PlatformPolicy{
	named("b", atMost(1, "*"), atMost(2, "production"), atMost(3, "staging")),
	named("a", atMost(4, "prod"), atMost(5, "*"), atMost(6, "production")),
	named("c", atMost(7, "dev"), atMost(8, "development")),
	named("empty"),
}

func TestGoverning(t *testing.T) {
	for name, test := range map[string]struct {
		namespace string
		labels    map[string]string
		want      []string
	}{
		"the environment's before those for all, then by name": {"shop-prod", nil,
			[]string{"a prod 4", "a production 6", "b production 2", "a * 5", "b * 1"}},
		"the namespace may use an alias too": {"x", map[string]string{"mainstay.dev/environment": "prod"},
			[]string{"a prod 4", "a production 6", "b production 2", "a * 5", "b * 1"}},
		"an alias in a rule": {"development", nil, []string{"c dev 7", "c development 8", "a * 5", "b * 1"}},
		"staging":            {"staging", nil, []string{"b staging 3", "a * 5", "b * 1"}},
		"no environment":     {"shop", nil, []string{"a * 5", "b * 1"}},
		"an environment that is none": {"shop-prod", map[string]string{"mainstay.dev/environment": "qa"}, []string{
			"a prod 4", "a production 6", "b production 2", "b staging 3", "c dev 7", "c development 8", "a * 5", "b * 1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, governing(Set{Policies: severalPolicies}.Governing(test.namespace, test.labels))); diff != "" {
				t.Error(diff)
			}
			backwards := slices.Clone(severalPolicies)
			slices.Reverse(backwards)
			if diff := cmp.Diff(test.want, governing(Set{Policies: backwards}.Governing(test.namespace, test.labels))); diff != "" {
				t.Errorf("the order of the policies counts: %s", diff)
			}
		})
	}
}

func TestNothingGoverns(t *testing.T) {
	for name, rules := range map[string]Rules{
		"the zero value":                         {},
		"no policy":                              Set{Policies: nil}.Governing("prod", nil),
		"another's policies":                     inShop(named("c", atMost(1, "dev"))),
		"an environment that the schema refuses": Set{Policies: []mspolicyv1.PlatformPolicy{named("a", atMost(1, ""), atMost(1, "qa"))}}.Governing("shop", nil),
	} {
		t.Run(name, func(t *testing.T) {
			if found := rules.Check(replicas(10000)); found != nil {
				t.Errorf("found %q", sentences(found))
			}
			if labels, replaced := rules.Labelled(nil); labels != nil || replaced != nil {
				t.Errorf("labels %v, replaced %q", labels, replaced)
			}
			var context *corev1.SecurityContext
			if replaced := rules.Tighten(&context, at("securityContext")); context != nil || replaced != nil {
				t.Errorf("context %v, replaced %q", context, replaced)
			}
			var resources corev1.ResourceRequirements
			if rules.FillResources(&resources); resources.Limits != nil || resources.Requests != nil {
				t.Errorf("resources %v", resources)
			}
		})
	}
}

func TestGoverns(t *testing.T) {
	rules := inShop(severalPolicies...)
	for policy, want := range map[string]bool{"a": true, "b": true, "c": false, "empty": false, "": false} {
		if got := rules.Governs(policy); got != want {
			t.Errorf("%q governs: %t", policy, got)
		}
	}
}

// TestMergedValues: the environment's value takes precedence over the one for all namespaces, and
// then that of the policy whose name sorts first. What can only tighten is merged.
func TestMergedValues(t *testing.T) {
	asking := func(environment, value, quantity string, uid int64, drop ...string) mspolicyv1.Rule {
		return mspolicyv1.Rule{
			Environment: environment,
			Defaults: mspolicyv1.Defaults{
				Labels:    map[string]string{"both": value, "default-" + value: "x"},
				Resources: mspolicyv1.Resources{Limits: quantities("cpu", quantity), Requests: quantities(quantity, "1")},
			},
			Enforced: mspolicyv1.Enforced{
				Labels:          map[string]string{"fixed": value, "fixed-" + value: "x"},
				SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: &uid, DropCapabilities: drop},
			},
		}
	}
	all, first, second := asking("*", "all", "1", 1, "A", "B"), asking("prod", "first", "2", 2, "B"),
		asking("production", "second", "3", 3, "C")
	all.Enforced.SecurityContext.RunAsNonRoot = new(true)
	second.Enforced.SecurityContext.AllowPrivilegeEscalation = new(false)
	second.Enforced.SecurityProfile = "Restricted"
	rules := inShop(named("b", second), named("a", all), named("aa", first))
	wantDefault := map[string]string{"both": "first", "default-all": "x", "default-first": "x", "default-second": "x"}
	wantEnforced := map[string]string{"fixed": "first", "fixed-all": "x", "fixed-first": "x", "fixed-second": "x"}
	wantResources := mspolicyv1.Resources{Limits: quantities("cpu", "2"), Requests: quantities("1", "1", "2", "1", "3", "1")}
	wantSecurity := mspolicyv1.SecurityContext{
		RunAsNonRoot: new(true), RunAsUser: new(int64(2)), AllowPrivilegeEscalation: new(false), DropCapabilities: []string{"B", "C", "A"},
	}
	for name, pair := range map[string][2]any{
		"default labels":    {wantDefault, rules.DefaultLabels()},
		"enforced labels":   {wantEnforced, rules.EnforcedLabels()},
		"default resources": {wantResources, rules.DefaultResources()},
		"enforced security": {wantSecurity, rules.EnforcedSecurity()},
		"the profile":       {true, rules.RestrictedEnforced()},
		"without a profile": {false, inShop(named("a", all)).RestrictedEnforced()},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestLenientRulesWriteNothing: a trial of a rule must not change objects, and what is refused must
// not depend on it.
func TestLenientRulesWriteNothing(t *testing.T) {
	lenient := mspolicyv1.Rule{Environment: "production", Enforcement: mspolicyv1.EnforcementWarn}
	lenient.Defaults.Labels, lenient.Enforced.Labels = map[string]string{"a": "1"}, map[string]string{"tier": "gold"}
	lenient.Enforced.SecurityProfile, lenient.Enforced.SecurityContext = mspolicyv1.SecurityRestricted,
		&mspolicyv1.SecurityContext{RunAsUser: new(int64(7))}
	strict := mspolicyv1.Rule{Environment: "*", Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": "iron"}}}
	rules := inShop(named("a", lenient), named("b", strict))
	labels, _ := rules.Labelled(nil)
	if diff := cmp.Diff(map[string]string{"tier": "iron"}, labels); diff != "" || rules.RestrictedEnforced() ||
		rules.EnforcedSecurity().RunAsUser != nil {
		t.Errorf("a rule that refuses nothing writes: %s", diff)
	}
	subject := Subject{Labels: map[string]string{"tier": "gold"}, Unrestricted: func() []string { return nil }}
	found := rules.Check(subject)
	want := []string{`metadata.labels[tier]: Invalid value: "gold": must be "iron" (policy "b", rule "*.enforced.labels"): add labels: {tier: "iron"}`}
	if diff := cmp.Diff(want, sentences(found)); diff != "" {
		t.Error(diff)
	}
	if len(Enforced(found, mspolicyv1.EnforcementDeny)) != 1 {
		t.Error("the strict rule does not refuse")
	}
}
