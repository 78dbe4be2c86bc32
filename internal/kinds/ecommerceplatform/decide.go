package ecommerceplatform

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Decision is what is done about a platform.
type Decision struct {
	// Stack is the AppStack as it should be; nil if that can't be said, and what exists stays.
	Stack *platformv1.AppStack
	// Monitoring are the children that monitor the platform.
	Monitoring []plan.Object
	// Problems are what is wrong with the platform in its surroundings.
	Problems field.ErrorList
}

// Decide returns what is done now, for a defaulted platform. The first matching row counts:
//
//	situation                                         result
//	it is being deleted                               no AppStack
//	the spec is invalid by itself                     what exists stays
//	its surroundings contradict it                    what exists stays, and Problems
//	otherwise                                         the AppStack, and what monitors it
func Decide(platform *platformv1.EcommercePlatform, observed Observed) Decision {
	if platform.DeletionTimestamp != nil || len(Validate(platform, observed.Installation)) > 0 {
		return Decision{}
	}
	existing := Existing(observed.Children, platform)
	if problems := ValidateWithin(platform, observed.Namespace, existing, observed.Installation); len(problems) > 0 {
		return Decision{Problems: problems}
	}
	return Decision{Stack: Compile(platform, existing, observed.Installation), Monitoring: monitored(platform, observed)}
}

// Desired returns the plan of a decision. A platform that is being deleted waits until the AppStack
// has deleted its components, in order.
func Desired(platform *platformv1.EcommercePlatform, decided Decision) plan.Plan {
	wanted := plan.Plan{}
	switch {
	case decided.Stack != nil:
		// What exists decides about versions and storage, also where the cache did not show it. What
		// others have added stays: it may be a component with data.
		wanted.Children = []plan.Child{{Object: decided.Stack, Decisive: true, KeepOthers: true}}
		for _, object := range decided.Monitoring {
			wanted.Children = append(wanted.Children, plan.Child{Object: object})
		}
	case platform.DeletionTimestamp == nil || isOrphaning(platform):
		wanted.Keep = []plan.Ref{Ref(platform), ruleRef(platform), dashboardRef(platform)}
	}
	return wanted
}

// Released reports whether nothing is left of a platform that is being deleted.
func Released(platform *platformv1.EcommercePlatform, observed Observed) bool {
	return observed.stack(platform) == nil || isOrphaning(platform)
}
