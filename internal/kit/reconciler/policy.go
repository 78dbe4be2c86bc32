package reconciler

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Policy is how policies govern a kind. Admission refuses violations. Objects that bypassed it, or
// that existed before a policy became stricter, are checked here by the same rules:
//
//	the spec violates                                 result
//	nothing                                           it is carried out
//	only rules with the enforcement Warn or Audit     it is carried out; PolicyViolation: NotEnforced
//	no more than what runs                            it is carried out; PolicyViolation: Tolerated
//	more than what runs, or anything while            nothing of it is carried out, what runs continues;
//	  nothing runs                                      PolicyViolation: PolicyViolation, Ready False
//
// Unlike admission, this defaults and replaces nothing: a changed policy must not restart
// workloads.
type Policy[T Object, O any] struct {
	// Kind is the name of the kind, as exemptions have it.
	Kind string
	// Rules reads the rules that govern a namespace.
	Rules policy.Source
	// Wanted returns what policies check of an admitted object. It is pure, as is Running.
	Wanted func(object T, observed O) policy.Subject
	// Running returns what policies check of the running state; nil if nothing runs.
	Running func(object T, observed O) *policy.Subject
}

// review is the result of the policies for an object.
type review struct {
	// refusal is why nothing of the spec is carried out; nil if it may be.
	refusal error
	// conditions are reported in addition to those of the kind.
	conditions []metav1.Condition
}

// review checks an object. It returns an error if it could not.
func (p *Policy[T, O]) review(ctx context.Context, object T, observed O) (review, error) {
	if p == nil {
		return review{}, nil
	}
	rules, err := p.Rules(ctx, object.GetNamespace())
	if err != nil {
		return review{}, err
	}
	rules = rules.For(p.Kind, object.GetName())
	violations := rules.Check(p.Wanted(object, observed))
	refused := policy.Enforced(violations, mspolicyv1.EnforcementDeny)
	worse := refused
	if running := p.Running(object, observed); running != nil && len(refused) > 0 {
		worse = policy.Worse(refused, rules.Check(*running))
	}
	condition := metav1.Condition{Type: api.ConditionPolicyViolation, Status: metav1.ConditionTrue}
	switch {
	case len(violations) == 0:
		return review{}, nil
	case len(worse) > 0:
		condition.Reason, condition.Message = api.ReasonPolicyViolation, policy.Sentence(worse)
		return review{refusal: errclass.PolicyError{Violations: condition.Message}, conditions: []metav1.Condition{condition}}, nil
	case len(refused) > 0:
		condition.Reason, condition.Message = api.ReasonTolerated, policy.Sentence(refused)+": tolerated, because it already runs"
	default:
		condition.Reason, condition.Message = api.ReasonNotEnforced, policy.Sentence(violations)+": accepted, because the rule's enforcement is not Deny"
	}
	return review{conditions: []metav1.Condition{condition}}, nil
}
