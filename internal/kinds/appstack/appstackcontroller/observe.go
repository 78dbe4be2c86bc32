package appstackcontroller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appstack"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// ownerIndex finds the components of a stack by its UID.
const ownerIndex = "appstack.owner"

// observer reads the components of stacks.
type observer struct {
	cached   client.Reader
	children children.Reader
	scheme   *runtime.Scheme
	kinds    component.Kinds
}

// observe reads from the cache what the stack controls, and what has the name of a component.
func (o observer) observe(ctx context.Context, stack *platformv1.AppStack) (appstack.Observed, error) {
	found := plan.Children{}
	if stack.UID != "" {
		for _, kind := range o.kinds {
			if err := unlisted(stack, kind, o.kinds); err != nil {
				return appstack.Observed{}, err
			}
			if err := o.owned(ctx, stack, kind, found); err != nil {
				return appstack.Observed{}, err
			}
		}
	}
	if stack.DeletionTimestamp == nil {
		if err := o.named(ctx, stack, found); err != nil {
			return appstack.Observed{}, err
		}
	}
	return appstack.Observed{Children: found, Kinds: o.kinds}, nil
}

// unlisted returns an error if the stack is being deleted and may have objects of a kind that can't
// be listed now: they would be taken for gone, and the stack would be released. A stack that is not
// being deleted goes on: if its spec has such objects, it is refused, and its status has the
// reason; and what left the spec is deleted once it is listed again. all are the kinds of
// components.
func unlisted(stack *platformv1.AppStack, kind component.Kind, all component.Kinds) error {
	if stack.DeletionTimestamp == nil || kind.Unlisted == nil || kind.Unlisted() == "" {
		return nil
	}
	isWanted := slices.ContainsFunc(stack.Spec.Components, func(c platformv1.Component) bool {
		_, known := appstack.KindOf(&c, component.Kinds{kind})
		return known
	})
	isReported := slices.ContainsFunc(stack.Status.Components, func(reported platformv1.ComponentStatus) bool {
		return reported.Kind == kind.Kind.Kind && !isOfAnother(stack, reported.Name, kind, all)
	})
	if !isWanted && !isReported {
		return nil
	}
	return errors.New(kind.Unlisted())
}

// isOfAnother reports whether the spec has a component of this name that is of another kind, which
// may have the same name in another group.
func isOfAnother(stack *platformv1.AppStack, name string, kind component.Kind, all component.Kinds) bool {
	return slices.ContainsFunc(stack.Spec.Components, func(c platformv1.Component) bool {
		resolved, known := appstack.KindOf(&c, all)
		return c.Name == name && known && resolved.Kind.GroupKind() != kind.Kind.GroupKind()
	})
}

// owned adds the objects of a kind that the stack controls.
func (o observer) owned(ctx context.Context, stack *platformv1.AppStack, kind component.Kind, found plan.Children) error {
	if kind.IsMissing() {
		return nil
	}
	list, err := o.newList(kind)
	if err != nil {
		return err
	}
	err = o.cached.List(ctx, list, client.InNamespace(stack.Namespace), client.MatchingFields{ownerIndex: string(stack.UID)})
	if err != nil {
		return fmt.Errorf("listing the components of %s/%s: %w", stack.Namespace, stack.Name, err)
	}
	return meta.EachListItem(list, func(item runtime.Object) error {
		object := item.(plan.Object)
		found[kind.Ref(object.GetNamespace(), object.GetName())] = plan.Found{Object: object, Ownership: plan.Ours}
		return nil
	})
}

// newList returns an empty list of objects of a kind.
func (o observer) newList(kind component.Kind) (client.ObjectList, error) {
	if kind.Type == component.TypeObject {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.Kind.GroupVersion().WithKind(kind.Kind.Kind + "List"))
		return list, nil
	}
	made, err := o.scheme.New(kind.Kind.GroupVersion().WithKind(kind.Kind.Kind + "List"))
	if err != nil {
		return nil, fmt.Errorf("making a list of %s: %w", kind.Kind.Kind, err)
	}
	list, isList := made.(client.ObjectList)
	if !isList {
		return nil, fmt.Errorf("%T is no list", made)
	}
	return list, nil
}

// named adds the objects under the names of the spec's components that are not among them.
func (o observer) named(ctx context.Context, stack *platformv1.AppStack, found plan.Children) error {
	var unknown []plan.Object
	for i := range stack.Spec.Components[:min(len(stack.Spec.Components), appstack.MaxComponents)] {
		c := &stack.Spec.Components[i]
		kind, known := appstack.KindOf(c, o.kinds)
		if !known || kind.IsMissing() {
			continue
		}
		name := appstack.ObjectName(stack.Name, c.Name)
		if _, isFound := found[kind.Ref(stack.Namespace, name)]; !isFound {
			object := kind.New()
			object.SetName(name)
			unknown = append(unknown, object)
		}
	}
	more, err := o.children.Find(ctx, stack, unknown...)
	if err != nil {
		return err
	}
	maps.Copy(found, more)
	return nil
}

// ownerOf returns the value of ownerIndex.
func ownerOf(object client.Object) []string {
	controller := metav1.GetControllerOf(object)
	if controller == nil || controller.Kind != appstack.Kind || controller.APIVersion != platformv1.GroupVersion.String() {
		return nil
	}
	return []string{string(controller.UID)}
}
