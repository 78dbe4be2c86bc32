package admission

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Component returns how the kind is a component. Its objects must have conditions.
func (k Kind[T]) Component(traits component.Traits) component.Kind {
	return component.Kind{
		Traits: traits, Kind: k.Kind,
		New: func() component.Object { return any(k.New()).(component.Object) },
		Check: func(object component.Object) field.ErrorList {
			defaulted := object.DeepCopyObject().(T)
			k.Default(defaulted)
			return k.Validate(defaulted)
		},
	}
}

// ReviewComponent returns what admission would say to an object that is to be created, or changed
// from what it was before (nil: it does not exist), without storing it: what policies fill in is
// filled in first, and what they replace is among the warnings.
func (k Kind[T]) ReviewComponent(ctx context.Context, object, before component.Object) (Review, error) {
	wanted, replaced, err := k.governed(ctx, object)
	if err != nil {
		return Review{}, err
	}
	var former *T
	if before != nil {
		governed, _, err := k.governed(ctx, before)
		if err != nil {
			return Review{}, err
		}
		former = &governed
	}
	found, err := k.review(ctx, wanted, former)
	found.Warnings = slices.Concat(replaced, found.Warnings)
	if err != nil || len(found.Problems) > 0 {
		return found, err
	}
	violations, err := k.violations(ctx, wanted, former)
	found.Violations = append(found.Violations, violations...)
	return found, err
}

// governed returns a copy of an object as admission would store it when it is created, with its
// defaults, and a warning for each value that policies replaced.
func (k Kind[T]) governed(ctx context.Context, object component.Object) (T, []string, error) {
	changed := object.DeepCopyObject().(T)
	var replaced []string
	if k.Govern != nil && k.Rules != nil {
		rules, err := k.Rules(ctx, changed.GetNamespace())
		if err != nil {
			return changed, nil, err
		}
		var none T
		replaced = k.Govern(changed, none, rules.For(k.Kind.Kind, changed.GetName()))
	}
	k.Default(changed)
	return changed, replaced, nil
}
