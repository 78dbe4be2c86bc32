package registration

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Governed returns Kind.Governed of a kind, of which list is an empty list: all cached objects, as
// admission defaults them and policies check them.
func Governed[T client.Object](
	list client.ObjectList, admitted func(Input) admission.Kind[T],
) func(context.Context, Input) ([]policy.Object, error) {
	return func(ctx context.Context, in Input) ([]policy.Object, error) {
		kind, stored := admitted(in), list.DeepCopyObject().(client.ObjectList)
		if err := in.Manager.GetClient().List(ctx, stored); err != nil {
			return nil, fmt.Errorf("listing %ss: %w", kind.Kind.Kind, err)
		}
		var objects []policy.Object
		err := meta.EachListItem(stored, func(item runtime.Object) error {
			one := item.(T)
			kind.Default(one)
			objects = append(objects, policy.Object{
				Kind: kind.Kind.Kind, Namespace: one.GetNamespace(), Name: one.GetName(), Subject: kind.Subject(one),
			})
			return nil
		})
		return objects, err
	}
}

// Scales returns Kind.Hooks of a kind whose objects policies alone keep from being scaled, and
// which has no other webhook than that of its subresource scale.
func Scales[T client.Object](admitted func(Input) admission.Kind[T]) func(Input) []admission.Hook {
	return func(in Input) []admission.Hook {
		kind := admitted(in)
		scale := admission.Scale{
			Kind:     kind.Kind.Kind,
			Resource: schema.GroupResource{Group: kind.Kind.Group, Resource: kind.Resource},
			Versions: []string{kind.Kind.Version},
			Field:    field.NewPath("spec", "replicas"),
			Refuse:   func(context.Context, types.NamespacedName) (string, error) { return "", nil },
			Rules:    in.Rules,
		}
		return []admission.Hook{scale.Hook(in.Manager.GetScheme())}
	}
}
