// Package children reads the objects under the names of an owner's children, and decides whose they
// are.
package children

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Reader reads children.
type Reader struct {
	// Cached reads from the cache, which has only objects with our labels.
	Cached client.Reader
	// Live reads from the API server.
	Live   client.Reader
	Scheme *runtime.Scheme
}

// Find reads from the cache which of the named objects exist. Each argument is an empty object with
// a name, in the namespace of the owner. Find fills it in. It makes no API call.
func (r Reader) Find(ctx context.Context, owner plan.Object, named ...plan.Object) (plan.Children, error) {
	found := plan.Children{}
	for _, object := range named {
		if err := r.find(ctx, r.Cached, owner, object, found); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// FindLive reads one object from the API server that the cache may lack: the object may not have
// our labels, or be newer than the cache. It adds the result to found, also if there is no object.
func (r Reader) FindLive(ctx context.Context, owner, named plan.Object, found plan.Children) error {
	if err := r.find(ctx, r.Live, owner, named, found); err != nil {
		return err
	}
	ref, err := RefOf(named, r.Scheme)
	if err != nil {
		return err
	}
	seen, exists := found[ref]
	if !exists {
		seen.Ownership = plan.Absent
	}
	seen.IsLive = true
	found[ref] = seen
	return nil
}

func (r Reader) find(ctx context.Context, from client.Reader, owner, object plan.Object, found plan.Children) error {
	object.SetNamespace(owner.GetNamespace())
	ref, err := RefOf(object, r.Scheme)
	if err != nil {
		return err
	}
	err = from.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		delete(found, ref)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", ref, err)
	}
	ownerKind, err := apiutil.GVKForObject(owner, r.Scheme)
	if err != nil {
		return fmt.Errorf("finding the kind of an owner: %w", err)
	}
	found[ref] = plan.Found{Object: object, Ownership: ownershipOf(owner, ownerKind, object)}
	return nil
}

// ownershipOf returns whose object is, as seen by owner:
//
//	controller of object      label owner-uid   consent names owner   ownership
//	this owner (same UID)     -                 -                     Ours
//	same kind and name only   -                 -                     Former
//	another                   -                 -                     Foreign
//	none                      this owner        -                     Ours: it is retained
//	none                      none or another   yes                   Consenting
//	none                      none or another   no                    Foreign
func ownershipOf(owner plan.Object, ownerKind schema.GroupVersionKind, object plan.Object) plan.Ownership {
	controller := metav1.GetControllerOf(object)
	switch {
	case controller == nil:
		if uid := object.GetLabels()[api.LabelOwnerUID]; uid != "" && uid == string(owner.GetUID()) {
			return plan.Ours
		}
		if object.GetAnnotations()[api.AnnotationAdopt] == ownerKind.Kind+"/"+owner.GetName() {
			return plan.Consenting
		}
		return plan.Foreign
	case controller.UID == owner.GetUID():
		return plan.Ours
	default:
		group, err := schema.ParseGroupVersion(controller.APIVersion)
		if err == nil && group.Group == ownerKind.Group && controller.Kind == ownerKind.Kind && controller.Name == owner.GetName() {
			return plan.Former
		}
		return plan.Foreign
	}
}

// FindRetained adds the objects that the owner retains (Retain of plan.Child) to found, by their
// label. Each list is an empty list of one kind, which must be in the cache.
func (r Reader) FindRetained(ctx context.Context, owner plan.Object, found plan.Children, lists ...client.ObjectList) error {
	for _, list := range lists {
		err := r.Cached.List(ctx, list, client.InNamespace(owner.GetNamespace()),
			client.MatchingLabels{api.LabelOwnerUID: string(owner.GetUID())})
		if err != nil {
			return fmt.Errorf("listing what %s retains: %w", owner.GetName(), err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(plan.Object)
			if metav1.GetControllerOf(object) != nil {
				return nil // another owner took it
			}
			ref, err := RefOf(object, r.Scheme)
			if err == nil {
				found[ref] = plan.Found{Object: object, Ownership: plan.Ours}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RefOf returns the reference to an object. It fails for a type that the scheme does not know.
func RefOf(object plan.Object, scheme *runtime.Scheme) (plan.Ref, error) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return plan.Ref{}, fmt.Errorf("finding the kind of an object: %w", err)
	}
	return plan.NewRef(kind.GroupKind(), object.GetNamespace(), object.GetName()), nil
}

// IsOwned reports whether an object has this owner. Every object has the owner nil.
func IsOwned(object metav1.Object, owner *metav1.OwnerReference) bool {
	if owner == nil {
		return true
	}
	for _, reference := range object.GetOwnerReferences() {
		if reference.UID == owner.UID {
			return true
		}
	}
	return false
}
