package platformpolicy

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/policy/admissionpolicy"
)

// enforcements are in the order of the children.
var enforcements = []mspolicyv1.Enforcement{mspolicyv1.EnforcementDeny, mspolicyv1.EnforcementWarn, mspolicyv1.EnforcementAudit}

// Desired returns the children that make the API server apply a policy to workloads of other
// owners: a pair for each enforcement that its rules have, because a binding has one for all. There
// are none while spec.workloads is Off.
func Desired(stored *mspolicyv1.PlatformPolicy, observed Observed) plan.Plan {
	var wanted plan.Plan
	on := observed.Policies
	on.ForWorkloads = true
	for _, enforcement := range enforcements {
		isIts := func(r policy.Ruling) bool { return r.Policy == stored.Name && r.Enforcement == enforcement }
		if !policy.GovernsWorkloads(stored) || !slices.ContainsFunc(on.Ordered(), isIts) {
			continue
		}
		built, binding := admissionpolicy.Build(admissionpolicy.Input{
			Name:        ChildName(stored, enforcement),
			Labels:      map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelComponent: Controller},
			Policy:      stored,
			Enforcement: enforcement,
			All:         counting(stored, observed),
			Ungoverned:  observed.Ungoverned,
			Watched:     observed.Watched,
			Manager:     observed.Manager,
		})
		wanted.Children = append(wanted.Children, pair(built, binding, observed.Children)...)
	}
	return wanted
}

// pair returns a policy and its binding as children. What others have added to them is removed: a
// condition that is never true would keep the policy from checking anything.
func pair(built *admissionregistrationv1.ValidatingAdmissionPolicy, binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
	existing plan.Children) []plan.Child {
	ref := func(kind string) plan.Ref {
		return plan.Ref{Group: admissionregistrationv1.GroupName, Kind: kind, Name: built.Name}
	}
	bound := ref("ValidatingAdmissionPolicy")
	policyFound, _ := existing.Get(bound)
	policyNow, hasPolicy := policyFound.(*admissionregistrationv1.ValidatingAdmissionPolicy)
	bindingFound, _ := existing.Get(ref("ValidatingAdmissionPolicyBinding"))
	bindingNow, hasBinding := bindingFound.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding)
	return []plan.Child{
		{Object: built, ReclaimSpec: hasPolicy && !equality.Semantic.DeepEqual(policyNow.Spec, built.Spec)},
		// A binding puts the policy of its name into force, also one of another owner.
		{Object: binding, ReclaimSpec: hasBinding && !equality.Semantic.DeepEqual(bindingNow.Spec, binding.Spec), Needs: []plan.Ref{bound}},
	}
}

// counting returns the policies whose values take precedence over those of others. An invalid spec
// is not carried out, so that values which others leave to it would be required by none. While an
// earlier spec of that policy is in force, it counts nevertheless: two values for one field would
// refuse every new workload.
func counting(stored *mspolicyv1.PlatformPolicy, observed Observed) policy.Set {
	all := observed.Policies
	all.Policies = slices.DeleteFunc(slices.Clone(observed.Policies.Policies), func(other mspolicyv1.PlatformPolicy) bool {
		return other.Name != stored.Name && !observed.Applied[other.UID] && len(Validate(&other, observed.Policies.Environments)) > 0
	})
	return all
}
