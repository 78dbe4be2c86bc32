package crds

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// pageSize is the number of objects in one list call, the same as client-go's default. The metadata
// of a page are in memory, some kB per object. Progress is logged once per page.
const pageSize = 500

// Unmigrated returns the named definitions that may have objects stored in another version than the
// storage version. A definition that is not installed has none.
func Unmigrated(ctx context.Context, c client.Client, names []string) ([]string, error) {
	definitions, err := carried()
	if err != nil {
		return nil, err
	}
	definitions = slices.DeleteFunc(slices.Clone(definitions), func(d definition) bool { return !slices.Contains(names, d.name) })
	live := make([]*apiextensionsv1.CustomResourceDefinition, len(definitions))
	// All at once: a manager waits for the answers before it starts.
	group, ctx := errgroup.WithContext(ctx)
	for i, d := range definitions {
		group.Go(func() (err error) {
			live[i], err = d.read(ctx, c)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var found []string
	for i, d := range definitions {
		if live[i] == nil {
			continue
		}
		if _, others := storedIn(live[i]); len(others) > 0 {
			found = append(found, d.name)
		}
	}
	return found, nil
}

// Migrate stores all objects of the named definitions in the storage version. It then removes the
// older versions from status.storedVersions, so that a later release may drop them. The storage
// version, and the conversion if there is a webhook, must be served. Migrate makes one call per
// object of each definition that Unmigrated returns, and stops at the first error. Then
// status.storedVersions stays as it is, and the next attempt starts from the beginning.
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
			return fmt.Errorf("migrating the objects of CustomResourceDefinition %s: %w", d.name, err)
		}
	}
	return nil
}

// migrate rewrites all objects in the storage version, and then removes the other versions from
// status.storedVersions.
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
	// The storage version may have changed and changed back, with objects written in between.
	if after == nil || after.UID != before.UID || after.Generation != before.Generation {
		return errors.New("the definition changed during the migration: rewriting its objects again")
	}
	trimmed := after.DeepCopy()
	trimmed.Status.StoredVersions = []string{storage}
	if err := c.Status().Patch(ctx, trimmed, client.MergeFromWithOptions(after, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("trimming status.storedVersions: %w", err)
	}
	log.FromContext(ctx).Info("Migrated stored objects", "objects", count, "from", others)
	return nil
}

// rewriteAll makes the API server store all objects of a kind again, and returns their number. An
// empty patch is enough: the API server compares the bytes it would store with those it has stored,
// and writes them if they differ, by version or by a new default.
//
// The patch is of the status. A patch of the object itself would also store the defaults of the
// storage version's schema as our fields: the generation would rise, and a later apply of another
// value would conflict with us (measured on Kubernetes 1.37.1).
//
// Each kind's controller has both rights anyway, and has the markers.
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

// laterToken returns the token that continues an expired list from the same key in a newer
// snapshot. The API server compacts snapshots after 5 minutes. Objects created since then are in
// the current version anyway. It returns "" if err is nil or any other error.
func laterToken(err error) string {
	var status apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &status) {
		return ""
	}
	return status.Status().Continue
}
