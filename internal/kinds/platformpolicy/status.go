package platformpolicy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	Policies policy.Set
	// Applied are the policies that have a ValidatingAdmissionPolicy, whatever their spec is now.
	Applied map[types.UID]bool
	// Objects are the objects of all kinds that policies govern.
	Objects []policy.Object
	// Audit has the workloads of other owners; nil while the policy does not govern them.
	Audit *Audit
	// NextAudit is in how much time the workloads are to be audited again; 0 means never.
	NextAudit time.Duration
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
// AuditIncomplete is True while the last audit failed or could not read everything.
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
	status.Conditions = append(status.Conditions, observed.Audit.conditions()...)
	status.Exemptions = exemptions(stored, observed.Policies.Now)
	status.Conditions = append(status.Conditions, expiring(status.Exemptions)...)
	governing := map[string]policy.Rules{}
	for namespace, labels := range observed.Namespaces {
		rules := observed.Policies.Governing(namespace, labels)
		if rules.Governs(stored.Name) {
			governing[namespace] = rules
			status.Namespaces++
		}
	}
	objects, violating := violators(stored.Name, governing, observed)
	status.Objects, status.Violations = objects, int32(len(violating)) //nolint:gosec // etcd does not hold that many
	status.Violating = violating[:min(len(violating), maxViolating)]
	return status
}

// violators returns how many objects a policy governs in these namespaces, and those that violate
// it, in a fixed order. A label that is no environment is a violation of the policies that have
// rules for some environments.
func violators(name string, governing map[string]policy.Rules, observed Observed) (objects int32, violating []mspolicyv1.Violator) {
	add := func(kind, namespace, object string, violations []policy.Violation) {
		isUnclear := governing[namespace].IsUnclear(name)
		own := slices.DeleteFunc(slices.Clone(violations), func(v policy.Violation) bool {
			return v.Policy != name && (v.Policy != "" || !isUnclear)
		})
		if len(own) > 0 {
			message := conditions.Truncate(policy.Sentence(own))
			violating = append(violating, mspolicyv1.Violator{Kind: kind, Namespace: namespace, Name: object, Message: message})
		}
	}
	for _, object := range observed.Objects {
		if rules, governed := governing[object.Namespace]; governed {
			objects++
			add(object.Kind, object.Namespace, object.Name, rules.For(object.Kind, object.Name).Check(object.Subject))
		}
	}
	if audit := observed.Audit; audit != nil {
		for namespace := range governing {
			objects += audit.workloads[namespace]
		}
		for _, found := range audit.violators {
			if _, governed := governing[found.namespace]; governed {
				add(found.kind, found.namespace, found.name, found.violations)
			}
		}
	}
	slices.SortFunc(violating, func(a, b mspolicyv1.Violator) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return objects, violating
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
