// Package admission makes webhooks out of a kind's own pure functions: the same that its
// controller calls.
package admission

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Hook is one webhook: what the API server is told of it, and who answers.
type Hook struct {
	// Name is the webhook's, fully qualified: webapps.apps.mainstay.dev.
	Name string
	// Path of the URL.
	Path string
	// Mutating tells that it changes objects; otherwise it validates.
	Mutating bool
	// Rules say what is asked about.
	Rules []admissionregistrationv1.RuleWithOperations
	// Conditions keep the API server from asking where the answer is known.
	Conditions []admissionregistrationv1.MatchCondition
	// FailurePolicy says what becomes of a request that nobody answers; empty is Fail.
	FailurePolicy admissionregistrationv1.FailurePolicyType
	// TimeoutSeconds are how long the API server waits for the answer; 0 is 5.
	TimeoutSeconds int32
	Handler        http.Handler
}

// Kind is what a kind brings to admission. All functions but Rules and ValidateWithin are pure. A kind that policies do
// not govern leaves out Govern, Subject and Rules; where there are no policies Rules alone is nil; Warn may be
// nil; all else is needed.
type Kind[T client.Object] struct {
	// Kind and Resource are the kind's names, with the version that the webhooks are sent.
	Kind     schema.GroupVersionKind
	Resource string
	// Scope is that of the kind.
	Scope admissionregistrationv1.ScopeType
	// New is an empty object.
	New func() T
	// Default fills in constants, in memory only.
	Default func(object T)
	// Validate checks a defaulted object.
	Validate func(object T) field.ErrorList
	// ValidateWithin checks a defaulted object that Validate accepts, by what is around it: it may read. The error says that it
	// could not. It may be nil.
	ValidateWithin func(ctx context.Context, object T) (field.ErrorList, error)
	// Warn tells what in a defaulted object is legal and unwise.
	Warn func(object T) []string
	// IsSameSpec reports whether two objects have the same spec.
	IsSameSpec func(a, b T) bool
	// Govern writes what the rules fill in and enforce into object, and returns what that replaced.
	// before is the zero value at creation.
	Govern func(object, before T, rules policy.Rules) []string
	// Subject is what policy looks at in a defaulted object.
	Subject func(object T) policy.Subject
	// Rules are given to Govern, and checked.
	Rules policy.Source
}

// conditions are the match conditions of all hooks on an object: one that is being deleted is never
// held up, and what leaves spec and labels as they are is not asked about, unless somebody wrote through
// an older version: the record of that is kept in this one.
func (k Kind[T]) conditions() []admissionregistrationv1.MatchCondition {
	changed := "oldObject == null || object.?spec != oldObject.?spec || object.metadata.?labels != oldObject.metadata.?labels"
	older := fmt.Sprintf("object.metadata.?managedFields.orValue([]).exists(f, f.apiVersion != '%s')", k.Kind.GroupVersion())
	return []admissionregistrationv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "changed", Expression: changed + " || " + older},
	}
}

// Hooks are the webhooks of the kind.
func (k Kind[T]) Hooks(scheme *runtime.Scheme) []Hook {
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{k.Kind.Group}, APIVersions: []string{k.Kind.Version}, Resources: []string{k.Resource}, Scope: &k.Scope,
		},
	}}
	hooks := []Hook{{
		Name: k.name(), Path: "/validate/" + k.name(), Rules: rules, Conditions: k.conditions(),
		Handler: admission.WithValidator[T](scheme, validator[T]{k}),
	}}
	if k.Govern == nil {
		return hooks
	}
	mutate := admission.WithDefaulter[T](scheme, defaulter[T]{k, admission.NewDecoder(scheme)})
	mutate.Handler = warning{mutate.Handler}
	return append(hooks, Hook{
		Name: k.name(), Path: "/mutate/" + k.name(), Mutating: true, Rules: rules, Conditions: k.conditions(), Handler: mutate,
	})
}

// name is that of the kind's hooks: the same as its definition's.
func (k Kind[T]) name() string { return k.Resource + "." + k.Kind.Group }

// validator answers whether an object may be stored.
type validator[T client.Object] struct{ kind Kind[T] }

// ValidateCreate checks everything.
func (v validator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	return v.kind.check(ctx, object, nil)
}

// ValidateUpdate refuses what an update makes worse. What was wrong before, because rules have
// become stricter since, must not keep the object from being changed at all.
func (v validator[T]) ValidateUpdate(ctx context.Context, before, object T) (admission.Warnings, error) {
	return v.kind.check(ctx, object, &before)
}

// ValidateDelete allows it: it is not asked.
func (v validator[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

func (k Kind[T]) check(ctx context.Context, object T, before *T) (admission.Warnings, error) {
	isSame := before != nil && k.IsSameSpec(object, *before)
	object = object.DeepCopyObject().(T)
	k.Default(object)
	var problems field.ErrorList
	var warnings admission.Warnings
	if !isSame {
		var err error
		if problems, err = k.validate(ctx, object); err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		if k.Warn != nil {
			warnings = k.Warn(object)
		}
	}
	if len(problems) > 0 {
		return warnings, apierrors.NewInvalid(k.Kind.GroupKind(), object.GetName(), problems)
	}
	if k.Rules == nil {
		return warnings, nil
	}
	rules, err := k.Rules(ctx, object.GetNamespace())
	if err != nil {
		return warnings, apierrors.NewInternalError(err)
	}
	violations := rules.Check(k.Subject(object))
	if before != nil {
		former := (*before).DeepCopyObject().(T)
		k.Default(former)
		violations = policy.Worse(violations, rules.Check(k.Subject(former)))
	}
	return warnings, k.refusal(object, violations)
}

// validate checks a defaulted object, first by itself and then by what is around it.
func (k Kind[T]) validate(ctx context.Context, object T) (field.ErrorList, error) {
	problems := k.Validate(object)
	if len(problems) > 0 || k.ValidateWithin == nil {
		return problems, nil
	}
	return k.ValidateWithin(ctx, object)
}

// refusal is the error for violations; nil for none.
func (k Kind[T]) refusal(object T, violations []policy.Violation) error {
	if len(violations) == 0 {
		return nil
	}
	metrics.Denied(k.Kind.Kind, object.GetNamespace(), metrics.ByAdmission)
	resource := schema.GroupResource{Group: k.Kind.Group, Resource: k.Resource}
	return apierrors.NewForbidden(resource, object.GetName(), errors.New(policy.Sentence(violations)))
}

// defaulter writes what policies fill in and enforce.
type defaulter[T client.Object] struct {
	kind    Kind[T]
	decoder admission.Decoder
}

// Default changes the object of the request in ctx.
func (d defaulter[T]) Default(ctx context.Context, object T) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	var before T
	if len(request.OldObject.Raw) > 0 {
		before = d.kind.New()
		if err := d.decoder.DecodeRaw(request.OldObject, before); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("reading the object before the update: %w", err))
		}
	}
	var rules policy.Rules
	if d.kind.Rules != nil {
		if rules, err = d.kind.Rules(ctx, request.Namespace); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	warn(ctx, d.kind.Govern(object, before, rules))
	return nil
}
