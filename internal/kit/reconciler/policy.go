package reconciler

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Policy is how policies govern a kind. Admission refuses what breaks them; what got past it, or
// was there before a policy became stricter, meets the same rules here:
//
//	what the spec breaks                              what happens
//	nothing                                           it is carried out
//	no more than what runs does                       it is carried out; PolicyViolation: Tolerated
//	more than what runs does, or anything while       nothing of it is carried out, what runs goes on;
//	  nothing runs                                      PolicyViolation: PolicyViolation, Ready False
//
// Nothing is filled in or replaced here, as admission does: a policy that changes must not restart
// what runs.
type Policy[T Object, O any] struct {
	// Rules reads which rules govern a namespace.
	Rules policy.Source
	// Wanted is what policy looks at in an admitted object. It is pure, as is Running.
	Wanted func(object T, observed O) policy.Subject
	// Running is what policy looks at in what runs; nil if nothing does.
	Running func(object T, observed O) *policy.Subject
}

// review is what policies say of an object.
type review struct {
	// refusal says why nothing of the spec is carried out; nil if it may be.
	refusal error
	// conditions to be told beside those of the kind.
	conditions []metav1.Condition
}

// review checks an object. An error means that it could not.
func (p *Policy[T, O]) review(ctx context.Context, object T, observed O) (review, error) {
	if p == nil {
		return review{}, nil
	}
	rules, err := p.Rules(ctx, object.GetNamespace())
	if err != nil {
		return review{}, err
	}
	violations := rules.Check(p.Wanted(object, observed))
	if len(violations) == 0 {
		return review{}, nil
	}
	worse := violations
	if running := p.Running(object, observed); running != nil {
		worse = policy.Worse(violations, rules.Check(*running))
	}
	condition := metav1.Condition{Type: api.ConditionPolicyViolation, Status: metav1.ConditionTrue}
	if len(worse) == 0 {
		condition.Reason, condition.Message = api.ReasonTolerated, policy.Sentence(violations)+": what runs goes on running"
		return review{conditions: []metav1.Condition{condition}}, nil
	}
	condition.Reason, condition.Message = api.ReasonPolicyViolation, policy.Sentence(worse)
	return review{refusal: errclass.PolicyError{Violations: condition.Message}, conditions: []metav1.Condition{condition}}, nil
}
