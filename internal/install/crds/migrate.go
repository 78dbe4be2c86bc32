package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// pageSize is how many objects are listed at once: client-go's own. A page's metadata are held in memory
// (some kB an object), and it is the step in which progress is logged.
const pageSize = 500

// Unmigrated tells which of the named definitions may have objects in another version than
// the storage one. Those that are not installed have none.
func Unmigrated(ctx context.Context, c client.Client, names []string) ([]string, error) {
	definitions, err := carried()
	if err != nil {
		return nil, err
	}
	var found []string
	for _, d := range definitions {
		if !slices.Contains(names, d.name) {
			continue
		}
		live, err := d.read(ctx, c)
		if err != nil {
			return nil, err
		}
		if live == nil {
			continue
		}
		if _, others := storedIn(live); len(others) > 0 {
			found = append(found, d.name)
		}
	}
	return found, nil
}

// Migrate has every object of the named definitions that is stored in an older version stored in the storage one, and then
// takes the older versions off status.storedVersions, so that a later release may drop them.
// The storage version, and with a webhook the conversion, must be served. It takes one call
// for each object of a definition that Unmigrated names, and stops at the first error: then
// nothing is taken off, and the next attempt begins anew.
func Migrate(ctx context.Context, c client.Client, names []string) error {
	definitions, err := carried()
	if err != nil {
		return err
	}
	for _, d := range definitions {
		if !slices.Contains(names, d.name) {
			continue
		}
		if err := d.migrate(ctx, c); err != nil {
			return fmt.Errorf("migrating what is stored of CustomResourceDefinition %s: %w", d.name, err)
		}
	}
	return nil
}

func (d definition) migrate(ctx context.Context, c client.Client) error {
	before, err := d.read(ctx, c)
	if err != nil || before == nil {
		return err
	}
	storage, others := storedIn(before)
	if len(others) == 0 {
		return nil
	}
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues("definition", d.name, "version", storage))
	count, err := rewriteAll(ctx, c, schema.GroupVersionKind{Group: before.Spec.Group, Version: storage, Kind: before.Spec.Names.Kind})
	if err != nil {
		return err
	}
	after, err := d.read(ctx, c)
	if err != nil {
		return err
	}
	// Whatever was changed may have been the storage version, there and back again, with objects
	// written in between.
	if after == nil || after.UID != before.UID || after.Generation != before.Generation {
		return errors.New("the definition was changed in the meantime: its objects are to be rewritten again")
	}
	trimmed := after.DeepCopy()
	trimmed.Status.StoredVersions = []string{storage}
	if err := c.Status().Patch(ctx, trimmed, client.MergeFromWithOptions(after, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("trimming status.storedVersions: %w", err)
	}
	log.FromContext(ctx).Info("Migrated stored objects", "objects", count, "from", others)
	return nil
}

// rewriteAll makes the API server store all objects of a kind anew, and counts them. An empty patch is
// enough: what it would store is then compared, byte by byte, with what is stored, and written where
// that differs: in its version, or by a default that has come since.
//
// It is the status that is patched: a patch of the object itself would also store the defaults of the
// storage version's schema, as ours. The generation would rise, and who applies another value
// later would have a conflict with us (measured on Kubernetes 1.37.1).
//
// Both rights are among those that a kind's controller has anyway, and the markers stand there.
func rewriteAll(ctx context.Context, c client.Client, kind schema.GroupVersionKind) (int, error) {
	count := 0
	page := &metav1.PartialObjectMetadataList{}
	for next := ""; ; next = page.Continue {
		page.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, page, client.Limit(pageSize), client.Continue(next))
		if token := laterToken(err); token != "" {
			err = c.List(ctx, page, client.Limit(pageSize), client.Continue(token))
		}
		if err != nil {
			return count, fmt.Errorf("listing: %w", err)
		}
		for i := range page.Items {
			object := &page.Items[i]
			object.SetGroupVersionKind(kind)
			err := c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte("{}")))
			if client.IgnoreNotFound(err) != nil {
				return count, fmt.Errorf("rewriting %s/%s: %w", object.Namespace, object.Name, err)
			}
		}
		count += len(page.Items)
		if page.Continue == "" {
			return count, nil
		}
		log.FromContext(ctx).Info("Migrating stored objects", "objects", count)
	}
}

// laterToken continues a list whose snapshot the API server has compacted away (after 5 minutes), from
// the same place in a later snapshot. What has come since then is stored in the current version
// anyway. Empty where err is another, or none.
func laterToken(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}
