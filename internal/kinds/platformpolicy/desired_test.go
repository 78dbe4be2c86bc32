package platformpolicy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestDesired: a mode that refuses nothing never refuses, not even what it can't evaluate.
func TestDesired(t *testing.T) {
	for mode, want := range map[mspolicyv1.WorkloadsMode]struct {
		action  admissionregistrationv1.ValidationAction
		failure admissionregistrationv1.FailurePolicyType
	}{
		"Audit": {"Audit", "Ignore"}, "Warn": {"Warn", "Ignore"}, "Enforce": {"Deny", "Fail"}, "Off": {}, "": {},
	} {
		stored := newPolicy(atMost(2, "production"))
		stored.Spec.Workloads = mode
		children := Desired(stored, Observed{Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{*stored}}, Ungoverned: []string{"kube-system"}}).Children
		if want.action == "" {
			if len(children) != 0 {
				t.Errorf("%q: %d children", mode, len(children))
			}
			continue
		}
		built := children[0].Object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
		binding := children[1].Object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
		actions := []admissionregistrationv1.ValidationAction{want.action}
		if *built.Spec.FailurePolicy != want.failure || !slices.Equal(binding.Spec.ValidationActions, actions) ||
			built.Name != "mainstay-base" || binding.Spec.PolicyName != "mainstay-base" {
			t.Errorf("%q: %v %v %s", mode, *built.Spec.FailurePolicy, binding.Spec.ValidationActions, binding.Spec.PolicyName)
		}
		// Without it, the binding would put a policy of another owner into force.
		needs := []plan.Ref{{Group: "admissionregistration.k8s.io", Kind: "ValidatingAdmissionPolicy", Name: "mainstay-base"}}
		if !slices.Equal(children[1].Needs, needs) {
			t.Errorf("%q: the binding needs %v", mode, children[1].Needs)
		}
	}
}

func TestChildName(t *testing.T) {
	long := strings.Repeat("a", 253)
	name := func(policy string, enforcement mspolicyv1.Enforcement) string {
		stored := newPolicy()
		stored.Name, stored.Spec.Workloads = policy, mspolicyv1.WorkloadsEnforce
		return ChildName(stored, enforcement)
	}
	if a, b := name(long, "Deny"), name(long[1:], "Deny"); len(a) != 253 || len(b) != 253 || a == b {
		t.Errorf("%s and %s", a, b)
	}
	if a, b := name("a", "Warn"), name("warn.a", "Deny"); a != "mainstay.warn.a" || b != "mainstay-warn.a" {
		t.Errorf("%s and %s", a, b)
	}
}

// TestStatusOfUnwrittenChildren: what keeps the API server from applying a policy is reported.
func TestStatusOfUnwrittenChildren(t *testing.T) {
	conflict := "ValidatingAdmissionPolicy mainstay-base exists and was not created by this policy: delete it"
	for name, test := range map[string]struct {
		result plan.Result
		want   []metav1.Condition
	}{
		"a foreign object": {
			plan.Result{Conflicts: []plan.Ref{{Kind: "ValidatingAdmissionPolicy", Name: "mainstay-base"}}},
			[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Conflict", Message: conflict},
				{Type: "Stalled", Status: "True", Reason: "Conflict", Message: conflict}},
		},
		"a failure that may pass": {
			plan.Result{Failure: &plan.Failure{Reason: "ReconcileError", Message: "no", Transient: true}},
			[]metav1.Condition{{Type: "Ready", Status: "Unknown", Reason: "ReconcileError", Message: "no"}},
		},
		"a refusal": {
			plan.Result{Failure: &plan.Failure{Reason: "Refused", Message: "no"}},
			[]metav1.Condition{{Type: "Ready", Status: "False", Reason: "Refused", Message: "no"}},
		},
	} {
		if diff := cmp.Diff(test.want, statusOf(newPolicy(atMost(2, "dev")), Observed{}, test.result).Conditions); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestDesiredByEnforcement: a binding has one action for all rules, so that each enforcement has a
// pair. What the mode allows is the limit.
func TestDesiredByEnforcement(t *testing.T) {
	denied, warned, audited := atMost(1, "*"), atMost(2, "dev"), atMost(3, "production")
	warned.Enforcement, audited.Enforcement = mspolicyv1.EnforcementWarn, mspolicyv1.EnforcementAudit
	for mode, want := range map[mspolicyv1.WorkloadsMode]string{
		"Enforce": "mainstay-base Fail [Deny] *; mainstay.warn.base Ignore [Warn] dev; mainstay.audit.base Ignore [Audit] production",
		"Warn":    "mainstay-base Ignore [Warn] * dev; mainstay.audit.base Ignore [Audit] production",
		"Audit":   "mainstay-base Ignore [Audit] * dev production",
		"Off":     "",
	} {
		stored := newPolicy(denied, warned, audited)
		stored.Spec.Workloads = mode
		children := Desired(stored, Observed{Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{*stored}}}).Children
		var got []string
		for i := 0; i < len(children); i += 2 {
			built := children[i].Object.(*admissionregistrationv1.ValidatingAdmissionPolicy)
			binding := children[i+1].Object.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
			text := fmt.Sprint(built.Name, " ", *built.Spec.FailurePolicy, " ", binding.Spec.ValidationActions)
			for _, environment := range []string{"*", "dev", "production"} {
				if strings.Contains(fmt.Sprint(built.Spec.Variables), `rule "`+environment+`.maxReplicas`) {
					text += " " + environment
				}
			}
			if binding.Name != built.Name || binding.Spec.PolicyName != built.Name || !slices.Contains(ChildNames(stored), built.Name) {
				t.Errorf("%s: %s is bound by %s", mode, built.Name, binding.Name)
			}
			got = append(got, text)
		}
		if strings.Join(got, "; ") != want {
			t.Errorf("%s: %s", mode, strings.Join(got, "; "))
		}
	}
}

// TestDesiredBesideInvalid: a policy that is not carried out takes precedence over no other.
func TestDesiredBesideInvalid(t *testing.T) {
	enforcing := func(name, environment, tier string) *mspolicyv1.PlatformPolicy {
		made := newPolicy(enforcedLabels(map[string]string{"tier": tier}))
		made.Name, made.UID, made.Spec.Workloads = name, types.UID(name), mspolicyv1.WorkloadsEnforce
		made.Spec.Rules[0].Environment = environment
		return made
	}
	stored, valid := enforcing("base", "*", "iron"), enforcing("a", "production", "gold")
	invalid := enforcing("a", "production", "gold")
	invalid.Spec.Rules[0].AllowedRegistries = []string{"reg"}
	desired := func(applied map[types.UID]bool, all ...mspolicyv1.PlatformPolicy) []plan.Child {
		return Desired(stored, Observed{Policies: policy.Set{Policies: all}, Applied: applied}).Children
	}
	alone := desired(nil, *stored)
	for name, test := range map[string]struct {
		other       *mspolicyv1.PlatformPolicy
		applied     map[types.UID]bool
		isPreferred bool
	}{
		"a valid one":    {valid, nil, true},
		"an invalid one": {invalid, nil, false},
		"an invalid one of which an earlier spec is in force": {invalid, map[types.UID]bool{"a": true}, true},
		"an invalid one beside one that is in force":          {invalid, map[types.UID]bool{"base": true}, false},
	} {
		if diff := cmp.Diff(alone, desired(test.applied, *test.other, *stored)); (diff != "") != test.isPreferred {
			t.Errorf("%s: the policy is preferred: %t: %s", name, !test.isPreferred, diff)
		}
	}
}

// TestDesiredReclaims: an apply leaves what others add to the children, such as a condition that
// keeps a policy from checking anything.
func TestDesiredReclaims(t *testing.T) {
	type (
		policyNow  = admissionregistrationv1.ValidatingAdmissionPolicy
		bindingNow = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	)
	stored := newPolicy(atMost(2, "production"))
	stored.Spec.Workloads = mspolicyv1.WorkloadsEnforce
	for name, test := range map[string]struct {
		change          func(*policyNow, *bindingNow)
		policy, binding bool
	}{
		"as desired":        {func(*policyNow, *bindingNow) {}, false, false},
		"with other labels": {func(p *policyNow, _ *bindingNow) { p.Labels["a"] = "b" }, false, false},
		"never used": {func(_ *policyNow, b *bindingNow) {
			b.Spec.MatchResources = &admissionregistrationv1.MatchResources{}
		}, false, true},
		"checked by nothing": {func(p *policyNow, _ *bindingNow) { p.Spec.Validations = nil }, true, false},
		"with a condition": {func(p *policyNow, _ *bindingNow) {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "off", Expression: "false"})
		}, true, false},
		"with an exclusion": {func(p *policyNow, _ *bindingNow) {
			p.Spec.MatchConstraints.ExcludeResourceRules = p.Spec.MatchConstraints.ResourceRules
		}, true, false},
	} {
		observed := Observed{Policies: policy.Set{Policies: []mspolicyv1.PlatformPolicy{*stored}}}
		first := Desired(stored, observed).Children
		now, bound := first[0].Object.(*policyNow).DeepCopy(), first[1].Object.(*bindingNow).DeepCopy()
		test.change(now, bound)
		observed.Children = plan.Children{}
		for kind, object := range map[string]plan.Object{"ValidatingAdmissionPolicy": now, "ValidatingAdmissionPolicyBinding": bound} {
			ref := plan.Ref{Group: "admissionregistration.k8s.io", Kind: kind, Name: "mainstay-base"}
			observed.Children[ref] = plan.Found{Object: object, Ownership: plan.Ours}
		}
		again := Desired(stored, observed).Children
		if first[0].ReclaimSpec || first[1].ReclaimSpec || again[0].ReclaimSpec != test.policy || again[1].ReclaimSpec != test.binding {
			t.Errorf("%s: the spec is taken back: of the policy %t, of the binding %t", name, again[0].ReclaimSpec, again[1].ReclaimSpec)
		}
	}
}
