package platformpolicy

import (
	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/policy/admissionpolicy"
)

// Desired returns the children that make the API server apply a policy to workloads of other
// owners; none while spec.workloads is Off.
func Desired(stored *mspolicyv1.PlatformPolicy, observed Observed) plan.Plan {
	if !admissionpolicy.IsOn(stored) {
		return plan.Plan{}
	}
	built, binding := admissionpolicy.Build(admissionpolicy.Input{
		Name:       ChildName(stored.Name),
		Labels:     map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelComponent: Controller},
		Policy:     stored,
		All:        observed.Policies,
		Ungoverned: observed.Ungoverned,
		Watched:    observed.Watched,
		Manager:    observed.Manager,
	})
	return plan.Plan{Children: []plan.Child{{Object: built}, {Object: binding}}}
}
