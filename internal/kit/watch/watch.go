// Package watch decides what the cache keeps, and which events cause a reconcile.
package watch

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-platform/mainstay/api"
)

// ours selects the objects that Mainstay created.
var ours = labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.ManagedBy})

// IsWhole reports whether the cache keeps all of an object. It keeps all of the objects with our
// label, for the kind that made them. Of others it keeps what their users asked for: of a workload,
// what says whether a changed source concerns it, and how far its rollout is. Without a user it
// keeps nothing.
func IsWhole(object metav1.Object) bool {
	return object.GetLabels()[api.LabelManagedBy] == api.ManagedBy
}

// OwnedPods selects the pods of our kinds' workloads. Their recommended labels are not reliable:
// the selector of an adopted Deployment may dictate them.
var OwnedPods = func() labels.Selector {
	owned, _ := labels.NewRequirement(api.LabelOwner, selection.Exists, nil) // the key is valid: a constant
	return labels.NewSelector().Add(*owned)
}()

// Prefetch makes a cache that has not started fill with these kinds at its start, all in parallel.
// Otherwise each kind starts when the first controller requests it, after the kinds with an index
// are filled.
func Prefetch(ctx context.Context, informers cache.Informers, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("preparing to watch %T: %w", kind, err)
		}
	}
	return nil
}

// Default returns the cache options for kinds that byObject does not name, including kinds that the
// cluster does not have yet: the cache keeps objects with our label. Of namespaced objects it keeps
// those in namespaces; none means all.
func Default(byObject map[client.Object]cache.ByObject, namespaces []string) cache.Options {
	var within map[string]cache.Config
	for _, namespace := range namespaces {
		if within == nil {
			within = map[string]cache.Config{}
		}
		within[namespace] = cache.Config{}
	}
	return cache.Options{
		DefaultNamespaces:    within,
		DefaultLabelSelector: ours,
		DefaultTransform:     Need{}.transform,
		ByObject:             byObject,
	}
}

// ContentChanged passes updates that change anything in the cached object except the resource
// version and the times of managed fields. Together with a transform that strips unused fields, for
// example an autoscaler's status, it prevents reconciles for irrelevant changes.
func ContentChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		if update.ObjectOld.GetResourceVersion() == update.ObjectNew.GetResourceVersion() {
			return false // a resync
		}
		return !equality.Semantic.DeepEqual(content(update.ObjectOld), content(update.ObjectNew))
	}}
}

// NotInitial passes all events but those of objects that exist when a controller starts. It is for
// what belongs to an object whose own watch brings that object then.
func NotInitial() predicate.Predicate {
	return predicate.Funcs{CreateFunc: func(created event.CreateEvent) bool { return !created.IsInInitialList }}
}

// SpecChanged passes updates of spec or labels, which users make, of one of our own kinds, those of
// the finalizers of an object that is being deleted, and those that take one of our finalizers from
// another, so that it is put back. It also passes what Recreated does. Our own status writes do not
// pass.
func SpecChanged() predicate.Predicate {
	finalizers := predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld.GetFinalizers(), update.ObjectNew.GetFinalizers()
		if update.ObjectNew.GetDeletionTimestamp() != nil {
			return !slices.Equal(before, after)
		}
		return slices.ContainsFunc(before, func(one string) bool { return api.IsOurKey(one) && !slices.Contains(after, one) })
	}}
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, finalizers, Recreated())
}

// AnnotationChanged passes updates that add, change or remove one annotation.
func AnnotationChanged(key string) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, had := update.ObjectOld.GetAnnotations()[key]
		after, has := update.ObjectNew.GetAnnotations()[key]
		return had != has || before != after
	}}
}

// Recreated passes updates from one object to another of the same name, which may be alike, also in
// the generation: the first was deleted, and the second created, while the watch was interrupted.
// The list after that shows both changes as one update.
func Recreated() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		return update.ObjectOld.GetUID() != update.ObjectNew.GetUID()
	}}
}

// LabelsChanged passes updates that change labels.
func LabelsChanged() predicate.Predicate { return predicate.LabelChangedPredicate{} }

// content returns a copy of an object without its version and the times of its managed fields.
func content(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	fields := object.GetManagedFields()
	for i := range fields {
		fields[i].Time = &metav1.Time{}
	}
	return object
}
