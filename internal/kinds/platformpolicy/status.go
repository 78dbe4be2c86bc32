package platformpolicy

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Observed is what a policy may govern.
type Observed struct {
	// Namespaces are the namespaces that policies may govern, by name, with their labels.
	Namespaces map[string]map[string]string
	// Policies are all policies: if several enforce a value, only one takes effect.
	Policies []mspolicyv1.PlatformPolicy
	// Objects are the objects of all kinds that policies govern.
	Objects []policy.Object
	// Children are the objects under the names of the policy's children.
	Children plan.Children
	// Ungoverned are namespaces that no policy governs. Watched are the only ones that policies
	// govern; none means all.
	Ungoverned, Watched []string
	// Manager is the user name of this manager; empty while no policy governs workloads.
	Manager string
}

// maxViolating limits the objects in the status; the schema has the same limit.
const maxViolating = 20

// Status returns what a policy governs and what violates it.
//
//	the policy                           Ready    reason           Stalled
//	has an invalid spec                  False    InvalidSpec      True
//	has a child that could not be        False    the failure's    if it needs help
//	  written                            or Unknown, if it may pass
//	has a foreign object in the way      False    Conflict         True
//	otherwise                            True     InForce          -
//
// A policy with an invalid spec is checked as far as it can be read: an invalid entry of
// allowedRegistries allows nothing.
func Status(stored *mspolicyv1.PlatformPolicy, observed Observed, result plan.Result) mspolicyv1.PlatformPolicyStatus {
	status := mspolicyv1.PlatformPolicyStatus{
		ObservedGeneration: stored.Generation,
		Environments:       environments(stored),
		Conditions:         []metav1.Condition{ready()},
	}
	failure := result.Failure
	if failure == nil && len(result.Conflicts) > 0 {
		failure = &plan.Failure{Stalled: true, Reason: api.ReasonConflict, Message: plan.Join(result.Conflicts) +
			" exists and was not created by this policy: delete it"}
	}
	if failure != nil {
		status.Conditions[0] = conditions.False(mspolicyv1.ConditionReady, failure.Reason, failure.Message)
		if failure.Transient {
			status.Conditions[0].Status = metav1.ConditionUnknown
		}
		if failure.Stalled {
			status.Conditions = append(status.Conditions, conditions.True(mspolicyv1.ConditionStalled, failure.Reason, failure.Message))
		}
	}
	status.Phase = summary.Phase(status.Conditions)
	governing := map[string]policy.Rules{}
	for namespace, labels := range observed.Namespaces {
		rules := policy.Governing(observed.Policies, namespace, labels)
		if rules.Governs(stored.Name) {
			governing[namespace] = rules
			status.Namespaces++
		}
	}
	isOther := func(violation policy.Violation) bool {
		return violation.Policy != stored.Name && violation.Policy != ""
	}
	var violating []mspolicyv1.Violator
	for _, object := range observed.Objects {
		rules, governed := governing[object.Namespace]
		if !governed {
			continue
		}
		status.Objects++
		if violations := slices.DeleteFunc(rules.Check(object.Subject), isOther); len(violations) > 0 {
			violating = append(violating, mspolicyv1.Violator{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name,
				Message: policy.Sentence(violations)})
		}
	}
	slices.SortFunc(violating, func(a, b mspolicyv1.Violator) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	status.Violations = int32(len(violating)) //nolint:gosec // etcd does not hold that many
	status.Violating = violating[:min(len(violating), maxViolating)]
	return status
}

// environments returns the environments that the rules name, in their order, for display.
func environments(stored *mspolicyv1.PlatformPolicy) string {
	names := make([]string, len(stored.Spec.Rules))
	for i, rule := range stored.Spec.Rules {
		names[i] = rule.Environment
	}
	return strings.Join(names, ",")
}

// ready returns the condition of a policy that is in force.
func ready() metav1.Condition {
	return conditions.True(mspolicyv1.ConditionReady, mspolicyv1.ReasonInForce, "every rule is checked")
}
