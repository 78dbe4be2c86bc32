// Package watch decides what the cache keeps and which events are worth a reconcile.
package watch

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
)

// ours selects what Mainstay made.
var ours = labels.SelectorFromSet(labels.Set{api.LabelManagedBy: api.ManagedBy})

// IsWhole tells whether the cache holds all of an object: what bears our label is held for the kind that made it. Of another it
// holds as much as those need that asked for it, of a workload what tells whether it is concerned when a source changes, and how far
// its rollout is; nothing, if nobody did.
func IsWhole(object metav1.Object) bool {
	return object.GetLabels()[api.LabelManagedBy] == api.ManagedBy
}

// OwnedPods selects the pods of our kinds' workloads. The recommended labels can't be relied on
// there: the selector of an adopted Deployment may dictate them.
var OwnedPods = func() labels.Selector {
	owned, _ := labels.NewRequirement(api.LabelOwner, selection.Exists, nil) // the key is valid: a constant
	return labels.NewSelector().Add(*owned)
}()

// Prefetch has a cache that has not been started fill with these kinds as soon as it is, all of them at once. Otherwise each
// begins when the first controller asks for it, after those that have an index are filled.
func Prefetch(ctx context.Context, informers cache.Informers, kinds ...client.Object) error {
	for _, kind := range kinds {
		if _, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("preparing to watch %T: %w", kind, err)
		}
	}
	return nil
}

// Default is how a cache treats every kind that byObject does not name: it holds those that
// bear our label. That includes kinds that the cluster does not have yet. Of what is in namespaces it
// holds what is in these; none means all.
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
		DefaultTransform:     Stripped[client.Object](nil),
		ByObject:             byObject,
	}
}

// OursOnly is the default for one kind, of which only what strip leaves is held.
func OursOnly[T client.Object](strip func(T)) cache.ByObject {
	return cache.ByObject{Label: ours, Transform: Stripped(strip)}
}

// Stripped is a cache transform that keeps, of the managed fields, ours only, and of the rest
// what strip leaves. strip changes the object in place; nil leaves it.
func Stripped[T client.Object](strip func(T)) func(any) (any, error) {
	return func(cached any) (any, error) {
		object, ok := cached.(T)
		if !ok {
			return cached, nil // a tombstone
		}
		apply.KeepOurManagedFields(object)
		if strip != nil {
			strip(object)
		}
		return object, nil
	}
}

// ContentChanged lets updates pass that change anything of what the cache holds, other than
// the resource version and the times of managed fields. Together with a transform
// that strips what nobody reads (an autoscaler's status, say) it keeps
// the noise of others from waking us.
func ContentChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		if update.ObjectOld.GetResourceVersion() == update.ObjectNew.GetResourceVersion() {
			return false // a resync
		}
		return !equality.Semantic.DeepEqual(content(update.ObjectOld), content(update.ObjectNew))
	}}
}

// SpecChanged lets updates of one of our own kinds pass that a user makes: of spec or labels.
// Our own status writes do not pass.
func SpecChanged() predicate.Predicate {
	return predicate.Or(predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// LabelsChanged lets updates pass that change labels.
func LabelsChanged() predicate.Predicate { return predicate.LabelChangedPredicate{} }

func content(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	fields := object.GetManagedFields()
	for i := range fields {
		fields[i].Time = &metav1.Time{}
	}
	return object
}
