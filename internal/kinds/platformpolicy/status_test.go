package platformpolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// object returns an object with replicas.
func object(namespace, kind, name string, replicas int32) policy.Object {
	return policy.Object{Kind: kind, Namespace: namespace, Name: name, Subject: policy.Subject{
		Replicas: []policy.Replicas{{Field: field.NewPath("spec", "replicas"), Count: replicas}},
	}}
}

// atMost returns a rule for an environment.
func atMost(count int32, environment string) mspolicyv1.Rule {
	return mspolicyv1.Rule{Environment: environment, MaxReplicas: &count}
}

// cluster has one or two objects in each of its namespaces, in no order.
func cluster() Observed {
	return Observed{
		Namespaces: map[string]map[string]string{
			"shop-prod": nil, "shop-dev": nil, "shop": {"mainstay.dev/environment": "prod"}, "default": nil,
			"odd-prod": {"mainstay.dev/environment": "qa"},
		},
		Objects: []policy.Object{
			object("shop-prod", "WebApp", "b", 3), object("shop-prod", "WebApp", "a", 3), object("shop-prod", "Cache", "z", 3), object("shop-prod",
				"WebApp", "c", 1),
			object("shop", "WebApp", "x", 4), object("shop-dev", "WebApp", "x", 3), object("default", "WebApp", "x", 9), object("odd-prod", "WebApp",
				"x", 9),
			object("kube-system", "WebApp", "x", 99), object("prod", "WebApp", "x", 99),
		},
	}
}

func violator(kind, namespace, name, message string) mspolicyv1.Violator {
	return mspolicyv1.Violator{Kind: kind, Namespace: namespace, Name: name, Message: message}
}

// further returns a violation behind another one of the same policy, which is named once.
func further(violation string) string { return strings.Replace(violation, `policy "base", `, "", 1) }

// given returns a violation of a limit of 2 replicas.
func given(count int, rule string) string {
	return fmt.Sprintf(`spec.replicas: Invalid value: %d: must be at most 2 (policy "base", rule "%s.maxReplicas")`, count, rule)
}

// unclear is the message about a namespace whose label is no environment.
const unclear = "metadata.namespace: namespace odd-prod has the label mainstay.dev/environment=qa: must be development (dev), staging or production (prod): " +
	"correct the label; until then the rules of all environments apply"

var inForce = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "InForce", Message: "every rule is checked"}}

// TestStatus: only governed objects are counted. No policy governs a namespace that is not
// observed, even if its name has an environment.
func TestStatus(t *testing.T) {
	for name, test := range map[string]struct {
		policy *mspolicyv1.PlatformPolicy
		want   mspolicyv1.PlatformPolicyStatus
	}{
		"production": {
			newPolicy(atMost(2, "production")),
			mspolicyv1.PlatformPolicyStatus{
				ObservedGeneration: 3, Phase: "Active", Environments: "production", Namespaces: 3, Objects: 6, Violations: 5, Conditions: inForce,
				Violating: []mspolicyv1.Violator{
					violator("WebApp", "odd-prod", "x", unclear),
					violator("WebApp", "shop", "x", given(4, "production")), violator("Cache", "shop-prod", "z", given(3, "production")),
					violator("WebApp", "shop-prod", "a", given(3, "production")), violator("WebApp", "shop-prod", "b", given(3, "production")),
				},
			},
		},
		"all namespaces, and one environment stricter": {
			newPolicy(atMost(8, "*"), atMost(2, "dev")),
			mspolicyv1.PlatformPolicyStatus{
				ObservedGeneration: 3, Phase: "Active", Environments: "*,dev", Namespaces: 5, Objects: 8, Violations: 3, Conditions: inForce,
				Violating: []mspolicyv1.Violator{
					violator("WebApp", "default", "x", `spec.replicas: Invalid value: 9: must be at most 8 (policy "base", rule "*.maxReplicas")`),
					violator("WebApp", "odd-prod", "x", unclear+`; spec.replicas: Invalid value: 9: must be at most 8 (policy "base", rule "*.maxReplicas")`),
					violator("WebApp", "shop-dev", "x", given(3, "dev")),
				},
			},
		},
		"an environment that no namespace has, but for one of which it is not known": {
			newPolicy(atMost(2, "staging")),
			mspolicyv1.PlatformPolicyStatus{
				ObservedGeneration: 3, Phase: "Active", Environments: "staging", Namespaces: 1, Objects: 1, Violations: 1, Conditions: inForce,
				Violating: []mspolicyv1.Violator{violator("WebApp", "odd-prod", "x", unclear)},
			},
		},
		"one object that breaks two rules": {
			newPolicy(atMost(2, "dev"), atMost(2, "development")),
			mspolicyv1.PlatformPolicyStatus{
				ObservedGeneration: 3, Phase: "Active", Environments: "dev,development", Namespaces: 2, Objects: 2, Violations: 2, Conditions: inForce,
				Violating: []mspolicyv1.Violator{
					violator("WebApp", "odd-prod", "x", unclear),
					violator("WebApp", "shop-dev", "x", given(3, "dev")+"; "+further(given(3, "development"))),
				},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, statusOf(test.policy, cluster(), plan.Result{})); diff != "" {
				t.Error(diff)
			}
			backwards := cluster()
			slices.Reverse(backwards.Objects)
			if diff := cmp.Diff(test.want, statusOf(test.policy, backwards, plan.Result{})); diff != "" {
				t.Errorf("the order counts: %s", diff)
			}
		})
	}
}

// statusOf returns the status of the only policy.
func statusOf(alone *mspolicyv1.PlatformPolicy, observed Observed, result plan.Result) mspolicyv1.PlatformPolicyStatus {
	observed.Policies = policy.Set{Policies: []mspolicyv1.PlatformPolicy{*alone}}
	return Status(alone, observed, result)
}

// TestStatusOfAPolicyThatYields: if two policies enforce different values, the one that does not
// take effect is not violated.
func TestStatusOfAPolicyThatYields(t *testing.T) {
	enforcing := func(name, value string) mspolicyv1.PlatformPolicy {
		policy := newPolicy(mspolicyv1.Rule{Environment: "*", Enforced: mspolicyv1.Enforced{Labels: map[string]string{"tier": value}}})
		policy.Name = name
		return *policy
	}
	first, second := enforcing("a", "gold"), enforcing("b", "iron")
	labelled := policy.Object{Kind: "WebApp", Namespace: "shop", Name: "x", Subject: policy.Subject{Labels: map[string]string{"tier": "gold"}}}
	observed := Observed{Namespaces: map[string]map[string]string{"shop": nil}, Objects: []policy.Object{labelled},
		Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{first, second}}}
	for _, stored := range []mspolicyv1.PlatformPolicy{first, second} {
		if status := Status(&stored, observed, plan.Result{}); status.Objects != 1 || status.Violations != 0 {
			t.Errorf("%s: %d of %d: %v", stored.Name, status.Violations, status.Objects, status.Violating)
		}
	}
	observed.Objects[0].Subject.Labels["tier"] = "iron"
	if status := Status(&first, observed, plan.Result{}); status.Violations != 1 {
		t.Errorf("the first is broken %d times", status.Violations)
	}
	if status := Status(&second, observed, plan.Result{}); status.Violations != 0 {
		t.Errorf("the second is broken %d times", status.Violations)
	}
}

// TestStatusOfUnclearEnvironments: a label that is no environment violates only policies with rules
// for one, of the kinds of Mainstay and of the workloads of other owners.
func TestStatusOfUnclearEnvironments(t *testing.T) {
	all, production := newPolicy(atMost(9, "*")), newPolicy(atMost(9, "production"))
	all.Name = "all"
	all.Spec.Workloads, production.Spec.Workloads = mspolicyv1.WorkloadsAudit, mspolicyv1.WorkloadsAudit
	observed := Observed{Namespaces: map[string]map[string]string{"odd-prod": {"mainstay.dev/environment": "qa"}},
		Objects:  []policy.Object{object("odd-prod", "WebApp", "x", 1)},
		Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{*all, *production}}}
	observed.Audit = NewAudit(observed.Policies, observed.Namespaces, time.Unix(1, 0))
	observed.Audit.Add(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "odd-prod", Name: "y"}})
	for stored, want := range map[*mspolicyv1.PlatformPolicy][]mspolicyv1.Violator{
		all: nil, production: {violator("Deployment", "odd-prod", "y", unclear), violator("WebApp", "odd-prod", "x", unclear)},
	} {
		status := Status(stored, observed, plan.Result{})
		if diff := cmp.Diff(want, status.Violating); diff != "" || status.Objects != 2 {
			t.Errorf("%s governs %d objects: %s", stored.Name, status.Objects, diff)
		}
	}
}

// TestStatusNamesTwenty: all violations are counted, and the first twenty are listed.
func TestStatusNamesTwenty(t *testing.T) {
	for _, count := range []int{0, 1, 20, 21, 100} {
		observed := Observed{Namespaces: map[string]map[string]string{"prod": nil}}
		for i := range count {
			observed.Objects = append(observed.Objects, object("prod", "WebApp", fmt.Sprintf("app-%02d", count-1-i), 2))
		}
		status := statusOf(newPolicy(atMost(1, "prod")), observed, plan.Result{})
		if int(status.Violations) != count || int(status.Objects) != count || len(status.Violating) != min(count, 20) {
			t.Errorf("%d: counted %d of %d, named %d", count, status.Violations, status.Objects, len(status.Violating))
		}
		for i, named := range status.Violating {
			if want := fmt.Sprintf("app-%02d", i); named.Name != want {
				t.Errorf("%d: at %d is %s", count, i, named.Name)
			}
		}
	}
}

// TestStatusOfAnInvalidPolicy: the status reports it, and the readable part of the spec counts.
func TestStatusOfAnInvalidPolicy(t *testing.T) {
	observed := Observed{Namespaces: map[string]map[string]string{"prod": nil}, Objects: []policy.Object{object("prod", "WebApp", "x", 2)}}
	failure := &plan.Failure{Reason: "InvalidSpec", Message: "spec.rules[0]: no", Stalled: true}
	status := statusOf(newPolicy(atMost(1, "prod")), observed, plan.Result{Failure: failure})
	want := []metav1.Condition{
		{Type: "Ready", Status: "False", Reason: "InvalidSpec", Message: "spec.rules[0]: no"},
		{Type: "Stalled", Status: "True", Reason: "InvalidSpec", Message: "spec.rules[0]: no"},
	}
	if diff := cmp.Diff(want, status.Conditions); diff != "" {
		t.Error(diff)
	}
	if status.Violations != 1 || status.Phase != "Failed" {
		t.Errorf("%d violations, phase %s", status.Violations, status.Phase)
	}
}
