// Package admission makes webhooks from the pure functions of a kind, the same that its controller
// calls.
package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Hook is one webhook: its registration at the API server, and its handler.
type Hook struct {
	// Name is the fully qualified name of the webhook: webapps.apps.mainstay.dev.
	Name string
	// Path is the path of the URL.
	Path string
	// Mutating reports that the webhook changes objects. Otherwise it validates.
	Mutating bool
	// Rules select the requests that the API server sends.
	Rules []admissionregistrationv1.RuleWithOperations
	// Conditions exclude requests whose response is known.
	Conditions []admissionregistrationv1.MatchCondition
	// FailurePolicy is what the API server does when the webhook does not answer; "" means Fail.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	Handler       http.Handler
}

// Kind is the admission of a kind. All functions except Rules and ValidateWithin are pure. A kind
// that policies do not govern has no Govern, Subject and Rules. Rules alone is nil where there are
// no policies. Warn may be nil, and Annotations empty. Everything else is required.
type Kind[T client.Object] struct {
	// Kind and Resource are the names of the kind, with the version that the webhooks receive.
	Kind     schema.GroupVersionKind
	Resource string
	// Scope is the scope of the kind.
	Scope admissionregistrationv1.ScopeType
	// New returns an empty object.
	New func() T
	// Default sets constant defaults, in memory only.
	Default func(object T)
	// Validate checks a defaulted object.
	Validate func(object T) field.ErrorList
	// Annotations are the keys of the annotations that Validate checks, as it checks the spec.
	Annotations []string
	// ValidateWithin checks a defaulted object that Validate accepts against other objects, which
	// it may read. It returns an error if it could not. It may be nil.
	ValidateWithin func(ctx context.Context, object T) (field.ErrorList, error)
	// Warn returns warnings about what in a defaulted object is legal but unwise.
	Warn func(object T) []string
	// Review checks a defaulted object that Validate accepts for what it stands for, such as objects
	// that it will have created; before is the defaulted object before an update, nil at creation. It
	// may read. It may be nil.
	Review func(ctx context.Context, object T, before *T) (Review, error)
	// IsSameSpec reports whether two objects have the same spec.
	IsSameSpec func(a, b T) bool
	// Govern writes the values that the rules default and enforce into object, and returns a
	// warning for each value that it replaced. before is the zero value at creation.
	Govern func(object, before T, rules policy.Rules) []string
	// Subject returns what policies check of a defaulted object.
	Subject func(object T) policy.Subject
	// Rules reads the rules that Govern applies and that are checked.
	Rules policy.Source
}

// Review is what was found about an object.
type Review struct {
	// Problems are fields that are wrong, Violations the rules of policies that are broken.
	Problems   field.ErrorList
	Violations []policy.Violation
	Warnings   []string
}

// add adds what another review found.
func (r *Review) add(other Review) {
	r.Problems = append(r.Problems, other.Problems...)
	r.Violations = append(r.Violations, other.Violations...)
	r.Warnings = append(r.Warnings, other.Warnings...)
}

// conditions returns the match conditions of all hooks for an object. An object that is being
// deleted is never blocked. An update that leaves spec, labels and the kind's annotations unchanged
// is not sent, unless the object was written through an older version: this version keeps the
// record of that.
func (k Kind[T]) conditions() []admissionregistrationv1.MatchCondition {
	sent := []string{"oldObject == null", "object.?spec != oldObject.?spec", "object.metadata.?labels != oldObject.metadata.?labels"}
	for _, key := range k.Annotations {
		sent = append(sent, fmt.Sprintf("object.metadata.?annotations[?'%[1]s'] != oldObject.metadata.?annotations[?'%[1]s']", key))
	}
	sent = append(sent, fmt.Sprintf("object.metadata.?managedFields.orValue([]).exists(f, f.apiVersion != '%s')", k.Kind.GroupVersion()))
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "changed", Expression: strings.Join(sent, " || ")},
	}
}

// Hooks returns the webhooks of the kind.
func (k Kind[T]) Hooks(scheme *runtime.Scheme) []Hook {
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{k.Kind.Group}, APIVersions: []string{k.Kind.Version}, Resources: []string{k.Resource}, Scope: &k.Scope,
		},
	}}
	object := reflect.TypeOf(k.New())
	validate := ctrladmission.WithValidator[T](scheme, validator[T]{k})
	path := "/validate/" + k.name()
	validate.Handler = countFailures(path, boundedHandler{Handler: validate.Handler, kind: k.Kind.GroupKind(), object: object})
	hooks := []Hook{{Name: k.name(), Path: path, Rules: rules, Conditions: k.conditions(), Handler: validate}}
	if k.Govern == nil {
		return hooks
	}
	path = "/mutate/" + k.name()
	govern := governHandler[T]{k, ctrladmission.NewDecoder(scheme)}
	mutate := &ctrladmission.Webhook{Handler: countFailures(path, boundedHandler{govern, k.Kind.GroupKind(), object, true})}
	return append(hooks, Hook{
		Name: k.name(), Path: path, Mutating: true, Rules: rules, Conditions: k.conditions(), Handler: mutate,
	})
}

// name returns the name of the kind's hooks, which is also the name of its definition.
func (k Kind[T]) name() string { return k.Resource + "." + k.Kind.Group }

// validator decides whether an object may be stored.
type validator[T client.Object] struct{ kind Kind[T] }

// ValidateCreate checks the whole object.
func (v validator[T]) ValidateCreate(ctx context.Context, object T) (ctrladmission.Warnings, error) {
	return v.kind.check(ctx, object, nil)
}

// ValidateUpdate refuses violations that the update adds or worsens. Older violations, for example
// of rules that have become stricter since, must not block all updates of the object.
func (v validator[T]) ValidateUpdate(ctx context.Context, before, object T) (ctrladmission.Warnings, error) {
	return v.kind.check(ctx, object, &before)
}

// ValidateDelete allows every deletion. The API server does not call it.
func (v validator[T]) ValidateDelete(context.Context, T) (ctrladmission.Warnings, error) {
	return nil, nil
}

// annotates reports whether an update adds or changes an annotation that Validate checks. One that
// is gone can't be wrong.
func (k Kind[T]) annotates(object, before T) bool {
	return slices.ContainsFunc(k.Annotations, func(key string) bool {
		after, has := object.GetAnnotations()[key]
		former, had := before.GetAnnotations()[key]
		return has && (!had || after != former)
	})
}

// check validates an object that is created (before is nil) or updated. An update that leaves the
// spec unchanged, and adds no such annotation, is not reviewed, only checked against the policies.
func (k Kind[T]) check(ctx context.Context, object T, before *T) (ctrladmission.Warnings, error) {
	isSame := before != nil && k.IsSameSpec(object, *before) && !k.annotates(object, *before)
	object = object.DeepCopyObject().(T)
	var former *T
	if before != nil {
		defaulted := (*before).DeepCopyObject().(T)
		k.Default(defaulted)
		former = &defaulted
	}
	k.Default(object)
	found := Review{}
	if !isSame {
		var err error
		if found, err = k.review(ctx, object, former); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
	}
	if len(found.Problems) > 0 {
		return found.Warnings, apierrors.NewInvalid(k.Kind.GroupKind(), object.GetName(), conditions.FirstProblems(found.Problems))
	}
	violations, err := k.violations(ctx, object, former)
	if err != nil {
		return found.Warnings, apierrors.NewInternalError(err)
	}
	violations = append(found.Violations, violations...)
	warnings := append(found.Warnings, warningsOf(violations)...)
	return warnings, k.refusal(object, policy.Enforced(violations, mspolicyv1.EnforcementDeny))
}

// review checks a changed object, which has been defaulted, by itself, against other objects, and
// for what it stands for.
func (k Kind[T]) review(ctx context.Context, object T, before *T) (Review, error) {
	problems, err := k.validate(ctx, object)
	found := Review{Problems: problems}
	if err != nil {
		return found, err
	}
	if k.Warn != nil {
		found.Warnings = k.Warn(object)
	}
	if len(problems) > 0 || k.Review == nil {
		return found, nil
	}
	more, err := k.Review(ctx, object, before)
	found.add(more)
	return found, err
}

// violations returns which rules a defaulted object breaks, and did not break before.
func (k Kind[T]) violations(ctx context.Context, object T, before *T) ([]policy.Violation, error) {
	if k.Rules == nil {
		return nil, nil
	}
	rules, err := k.Rules(ctx, object.GetNamespace())
	if err != nil {
		return nil, err
	}
	rules = rules.For(k.Kind.Kind, object.GetName())
	violations := rules.Check(k.Subject(object))
	if before != nil {
		violations = policy.Worse(violations, rules.Check(k.Subject(*before)))
	}
	return violations, nil
}

// warningsOf returns the warning about violations that are accepted with one; none without any.
func warningsOf(violations []policy.Violation) []string {
	accepted := policy.Enforced(policy.Told(violations), mspolicyv1.EnforcementWarn)
	if len(accepted) == 0 {
		return nil
	}
	return []string{conditions.Truncate(policy.Sentence(accepted))}
}

// validate checks a defaulted object, first by itself and then against other objects.
func (k Kind[T]) validate(ctx context.Context, object T) (field.ErrorList, error) {
	problems := k.Validate(object)
	if len(problems) > 0 || k.ValidateWithin == nil {
		return problems, nil
	}
	return k.ValidateWithin(ctx, object)
}

// refusal returns the error for violations; nil for none.
func (k Kind[T]) refusal(object T, violations []policy.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	metrics.Denied(k.Kind.Kind, object.GetNamespace(), metrics.ByAdmission)
	resource := schema.GroupResource{Group: k.Kind.Group, Resource: k.Resource}
	return apierrors.NewForbidden(resource, object.GetName(), errors.New(policy.Sentence(violations)))
}
