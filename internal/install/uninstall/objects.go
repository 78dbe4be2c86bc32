package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
)

// pageSize is the number of objects in one list call, the same as client-go's default.
const pageSize = 500

// releaseFinalizers removes our finalizers from all objects of our kinds. Nothing else would, and
// neither the objects nor their namespaces could be deleted any more. The next installation adds
// them again, except on records: see isHeld. An installation of some namespaces may have watched
// more before: there is one installation in a cluster, and all finalizers are its own.
func (o Options) releaseFinalizers(ctx context.Context) error {
	return o.eachKind(ctx, "removing finalizers from objects",
		func(ctx context.Context, kind crds.Kind, objects []metav1.PartialObjectMetadata) error {
			for i := range objects {
				if o.isHeld(kind, &objects[i]) {
					continue
				}
				if err := o.releaseObject(ctx, &objects[i]); err != nil {
					return err
				}
			}
			return nil
		})
}

// isHeld reports whether an object keeps its finalizers for the next installation. In a record our
// own API server stores a served resource with its finalizers. Nothing would add ours again, so
// that a deletion would no longer wait for the others. An object that is being deleted keeps none,
// nor does any if all objects are to be deleted.
func (o Options) isHeld(kind crds.Kind, object *metav1.PartialObjectMetadata) bool {
	return !o.DeleteDefinitions && kind.Record && object.DeletionTimestamp.IsZero()
}

func (o Options) releaseObject(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	if !slices.ContainsFunc(object.Finalizers, api.IsOurKey) {
		return nil
	}
	released := object.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, api.IsOurKey)
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := o.Client.Patch(ctx, released, patch); client.IgnoreNotFound(err) != nil {
		return err
	}
	log.FromContext(ctx).Info("Removed finalizers", "kind", object.Kind, "namespace", object.Namespace, "name", object.Name)
	return nil
}

// deleteObjects deletes all objects of our kinds, and waits until they are gone. Kubernetes'
// garbage collector must delete their children before the definitions go: if a definition changed
// lately, the collector's watch has ended and it would not see the deletions.
func (o Options) deleteObjects(ctx context.Context) error {
	return o.eachKind(ctx, "deleting objects", func(ctx context.Context, _ crds.Kind, objects []metav1.PartialObjectMetadata) error {
		for i := range objects {
			if !objects[i].DeletionTimestamp.IsZero() {
				continue
			}
			if err := o.Client.Delete(ctx, &objects[i],
				client.PropagationPolicy(metav1.DeletePropagationForeground)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if len(objects) > 0 {
			return fmt.Errorf("%d objects are left", len(objects))
		}
		return nil
	})
}

// eachKind calls a function for the objects of all installed kinds until it succeeds for all or the
// options' Patience ends, which all kinds share. A failure for one kind does not delay the others.
func (o Options) eachKind(ctx context.Context, doing string,
	do func(context.Context, crds.Kind, []metav1.PartialObjectMetadata) error) error {
	return o.within(ctx, doing, func(ctx context.Context) error {
		kinds, err := crds.Kinds(ctx, o.Definitions)
		if err != nil {
			return err
		}
		var problems []error
		for _, kind := range kinds {
			// A definition that has just changed is served again a moment later. Until then listing fails.
			objects, err := o.list(ctx, kind)
			if err == nil {
				err = do(ctx, kind, objects)
			}
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", kind.GroupKind(), err))
			}
		}
		return errors.Join(problems...)
	})
}

// list returns the metadata of all objects of a kind.
func (o Options) list(ctx context.Context, kind crds.Kind) ([]metav1.PartialObjectMetadata, error) {
	var objects []metav1.PartialObjectMetadata
	page := &metav1.PartialObjectMetadataList{}
	for next := ""; ; next = page.Continue {
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := o.Client.List(ctx, page, client.Limit(pageSize), client.Continue(next)); err != nil {
			return nil, err
		}
		for _, object := range page.Items {
			object.SetGroupVersionKind(kind.GroupVersionKind)
			objects = append(objects, object)
		}
		if page.Continue == "" {
			return objects, nil
		}
	}
}
