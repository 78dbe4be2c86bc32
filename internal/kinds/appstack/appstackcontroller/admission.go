package appstackcontroller

import (
	"context"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/render"
)

const resource = "appstacks"

// admitted returns how AppStacks are admitted.
func admitted(in registration.Input) admission.Kind[*platformv1.AppStack] {
	components := in.Components()
	kinds := kindsOf(components)
	return admission.Kind[*platformv1.AppStack]{
		Kind:     platformv1.GroupVersion.WithKind(appstack.Kind),
		Resource: resource,
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *platformv1.AppStack { return &platformv1.AppStack{} },
		Default:  appstack.Default,
		Validate: func(stack *platformv1.AppStack) field.ErrorList { return appstack.Validate(stack, kinds) },
		Review: func(ctx context.Context, stack *platformv1.AppStack, before **platformv1.AppStack) (admission.Review, error) {
			r := reviewer{in: in, components: components, kinds: kinds, stack: appstack.WithBindings(stack, kinds), budget: &crds.Budget{}}
			if before != nil {
				r.before = appstack.WithBindings(*before, kinds)
			}
			return r.review(render.WithBudget(ctx))
		},
		IsSameSpec: func(a, b *platformv1.AppStack) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}

// kindsOf returns the kinds of components, as package appstack knows them.
func kindsOf(components []registration.Component) component.Kinds {
	var kinds component.Kinds
	for _, c := range components {
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

// reviewer checks a stack for what it stands for: the objects of its components, as if they were
// written by hand.
type reviewer struct {
	in         registration.Input
	components []registration.Component
	kinds      component.Kinds
	// stack is to be stored, before is what is stored; nil if nothing is.
	stack, before *platformv1.AppStack
	// budget limits what the checks of all components by their schemas take together; that of what
	// they render is in the context of the review.
	budget *crds.Budget
}

func (r reviewer) review(ctx context.Context) (admission.Review, error) {
	var all admission.Review
	for i := range r.stack.Spec.Components {
		if err := ctx.Err(); err != nil { // The API server no longer waits for an answer.
			return all, fmt.Errorf("checking component %s: %w", r.stack.Spec.Components[i].Name, err)
		}
		found, err := r.reviewComponent(ctx, i)
		if err != nil {
			return all, err
		}
		at := appstack.ComponentField(i)
		all.Problems = append(all.Problems, appstack.Within(found.Problems, at)...)
		for _, violation := range found.Violations {
			violation.Field = appstack.FieldWithin(at, violation.Field)
			all.Violations = append(all.Violations, violation)
		}
		for _, warning := range found.Warnings {
			all.Warnings = append(all.Warnings, fmt.Sprintf("component %s: %s", r.stack.Spec.Components[i].Name, warning))
		}
	}
	all.Warnings = append(all.Warnings, appstack.WarnOfVariables(r.stack, r.before, r.kinds)...)
	if r.before != nil {
		problems, err := r.checkTypes(ctx)
		if err != nil {
			return all, err
		}
		all.Problems = append(all.Problems, problems...)
		all.Warnings = append(all.Warnings, appstack.WarnOfData(r.stack, r.before, r.kinds)...)
	}
	if len(all.Problems) > 0 || !isDryRun(ctx) {
		return all, nil
	}
	observed, err := newObserver(r.in, r.kinds).observe(ctx, r.stack)
	if err != nil {
		return all, err
	}
	summary, sentences := appstack.Preview(r.stack, r.before, observed)
	all.Warnings = slices.Concat([]string{summary}, all.Warnings, sentences)
	return all, nil
}

// checkTypes refuses a change of a component's type after which its former object and its new one
// would wait for each other, unless the stack has an object of the new type already: then the
// change is the way back, for example from one that was made while there was no webhook.
func (r reviewer) checkTypes(ctx context.Context) (field.ErrorList, error) {
	var problems field.ErrorList
	for i := range r.stack.Spec.Components {
		problem := appstack.CheckType(r.stack, r.before, i, r.kinds)
		if problem == nil {
			continue
		}
		exists, err := r.exists(ctx, &r.stack.Spec.Components[i])
		if err != nil {
			return nil, err
		}
		if !exists {
			problems = append(problems, problem)
		}
	}
	return problems, nil
}

// exists reports whether the cache has the object of a component, as one of the stack that is not
// being deleted.
func (r reviewer) exists(ctx context.Context, c *platformv1.Component) (bool, error) {
	kind, _ := appstack.KindOf(c, r.kinds)
	object, isObject := kind.New().(client.Object)
	if !isObject {
		return false, fmt.Errorf("%T can't be read", kind.New())
	}
	key := client.ObjectKey{Namespace: r.stack.Namespace, Name: appstack.ObjectName(r.stack.Name, c.Name)}
	err := r.in.Manager.GetClient().Get(ctx, key, object)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s %s: %w", kind.Kind.Kind, key, err)
	}
	return metav1.IsControlledBy(object, r.stack) && object.GetDeletionTimestamp() == nil, nil
}

// reviewComponent returns what admission would say to the object of a component, unless it is
// unchanged.
func (r reviewer) reviewComponent(ctx context.Context, index int) (admission.Review, error) {
	c := &r.stack.Spec.Components[index]
	named, known := appstack.KindOf(c, r.kinds)
	for _, kind := range r.components {
		if !known || kind.Kind.Kind != named.Kind {
			continue
		}
		object, err := appstack.Object(r.stack, c, kind.Kind, r.whole(r.stack, c))
		if err != nil {
			return admission.Review{}, err
		}
		before := r.former(c, kind.Kind)
		if before != nil && equality.Semantic.DeepEqual(object, before) {
			return admission.Review{}, nil
		}
		found, err := kind.Review(ctx, object, before)
		if err != nil {
			return found, err
		}
		more, err := checkSchema(kind.Kind, object, before, r.budget)
		found.Problems = withOthers(found.Problems, more[:min(len(more), maxProblems)])
		return found, err
	}
	return admission.Review{}, nil
}

// maxProblems is how many problems of a schema are reported for one component, which may have
// thousands.
const maxProblems = 10

// checkSchema returns what the schema of a component's kind refuses in its spec, and did not refuse
// before: an old defect, for example of an object that was stored before the schema had a limit,
// does not keep users from other changes. What the budget does not suffice for is left to the API
// server.
func checkSchema(kind component.Kind, object, before component.Object, budget *crds.Budget) (field.ErrorList, error) {
	if kind.Type == component.TypeObject {
		return nil, nil
	}
	problems, _, err := crds.CheckSpec(kind.Kind, appstack.SpecOf(object), budget)
	if err != nil || len(problems) == 0 || before == nil {
		return problems, err
	}
	former, isChecked, err := crds.CheckSpec(kind.Kind, appstack.SpecOf(before), budget)
	if err != nil || !isChecked {
		return nil, err // which of the problems are new is not known
	}
	known := map[string]bool{}
	for _, one := range former {
		known[one.Error()] = true
	}
	return slices.DeleteFunc(problems, func(one *field.Error) bool { return known[one.Error()] }), nil
}

// withOthers returns problems and those of the others that are about other fields.
func withOthers(problems, others field.ErrorList) field.ErrorList {
	return append(problems, slices.DeleteFunc(others, func(other *field.Error) bool {
		return slices.ContainsFunc(problems, func(one *field.Error) bool { return one.Field == other.Field })
	})...)
}

// whole returns what a component gets once all that it depends on is ready, with its own variables
// where the user has written them.
func (r reviewer) whole(stack *platformv1.AppStack, c *platformv1.Component) appstack.Additions {
	with := appstack.Whole(stack, c, r.kinds)
	with.OwnFirst = true
	return with
}

// former returns the object of a component as the stored stack has it; nil if it has none.
func (r reviewer) former(c *platformv1.Component, kind component.Kind) component.Object {
	if r.before == nil {
		return nil
	}
	for i := range r.before.Spec.Components {
		former := &r.before.Spec.Components[i]
		if former.Name != c.Name || former.Type != c.Type {
			continue
		}
		if object, err := appstack.Object(r.before, former, kind, r.whole(r.before, former)); err == nil {
			return object
		}
	}
	return nil
}

// isDryRun reports whether the request in ctx stores nothing.
func isDryRun(ctx context.Context) bool {
	request, err := ctrladmission.RequestFromContext(ctx)
	return err == nil && request.DryRun != nil && *request.DryRun
}
