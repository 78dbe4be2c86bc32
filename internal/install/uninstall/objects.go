package uninstall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
)

// pageSize is how many objects are listed at once: client-go's own.
const pageSize = 500

// isOurs tells whether a finalizer is one of Mainstay's: of its domain, or one below.
func isOurs(finalizer string) bool {
	domain, _, named := strings.Cut(finalizer, "/")
	return named && (domain == api.Domain || strings.HasSuffix(domain, "."+api.Domain))
}

// releaseFinalizers takes ours off all objects of our kinds: nobody else would, and neither they nor their
// namespace could be deleted any more. Who is installed again puts them back, but on records: see isHeld.
func (o Options) releaseFinalizers(ctx context.Context) error {
	return o.eachKind(ctx, "taking finalizers off objects", o.WatchNamespaces,
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

// isHeld tells whether an object goes on waiting for who is installed next: in a record our own API server keeps what it serves, with the
// finalizers of that, and nobody would put ours back, so that a deletion would no longer wait for those. One that is being deleted now waits for
// nobody, nor does any where all objects are to go.
func (o Options) isHeld(kind crds.Kind, object *metav1.PartialObjectMetadata) bool {
	return !o.DeleteDefinitions && kind.Record && object.DeletionTimestamp.IsZero()
}

func (o Options) releaseObject(ctx context.Context, object *metav1.PartialObjectMetadata) error {
	if !slices.ContainsFunc(object.Finalizers, isOurs) {
		return nil
	}
	released := object.DeepCopy()
	released.Finalizers = slices.DeleteFunc(released.Finalizers, isOurs)
	patch := client.MergeFromWithOptions(object, client.MergeFromWithOptimisticLock{})
	if err := o.Client.Patch(ctx, released, patch); client.IgnoreNotFound(err) != nil {
		return err
	}
	log.FromContext(ctx).Info("Took finalizers off", "kind", object.Kind, "namespace", object.Namespace, "name", object.Name)
	return nil
}

// deleteObjects deletes all objects of our kinds, and waits until they are gone. Kubernetes' garbage collector has to have
// deleted their children before: together with a definition it would never hear of them, if that was changed lately and its
// watch has ended with that.
func (o Options) deleteObjects(ctx context.Context) error {
	return o.eachKind(ctx, "deleting objects", nil, func(ctx context.Context, _ crds.Kind, objects []metav1.PartialObjectMetadata) error {
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
			return fmt.Errorf("%d are left", len(objects))
		}
		return nil
	})
}

// eachKind does something to the objects of all kinds that are installed, in these namespaces or in all, until it
// succeeds for all, or for as long as the options' patience, which is one for all kinds. What fails for one does not keep it from the
// others.
func (o Options) eachKind(ctx context.Context, doing string, namespaces []string,
	do func(context.Context, crds.Kind, []metav1.PartialObjectMetadata) error) error {
	return o.within(ctx, doing, func(ctx context.Context) error {
		kinds, err := crds.Kinds(ctx, o.Definitions)
		if err != nil {
			return err
		}
		var problems []error
		for _, kind := range kinds {
			within := []string{""}
			if kind.Namespaced && len(namespaces) > 0 {
				within = namespaces
			}
			for _, namespace := range within {
				// A definition that has just been changed is served anew a moment later: that is an error until then.
				objects, err := o.list(ctx, kind, namespace)
				if err == nil {
					err = do(ctx, kind, objects)
				}
				if err != nil {
					problems = append(problems, fmt.Errorf("%s: %w", kind.GroupKind(), err))
				}
			}
		}
		return errors.Join(problems...)
	})
}

// list is the metadata of all objects of a kind in a namespace, or in all if that is empty.
func (o Options) list(ctx context.Context, kind crds.Kind, namespace string) ([]metav1.PartialObjectMetadata, error) {
	var objects []metav1.PartialObjectMetadata
	page := &metav1.PartialObjectMetadataList{}
	for next := ""; ; next = page.Continue {
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := o.Client.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
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
