package policyreader

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Watch makes a governed kind's controller enqueue its objects when their rules change: all of them
// with a PlatformPolicy, those of a namespace with its labels, which define its environment. list
// is an empty list of the kind; cached has all objects of it.
func Watch(under *builder.Builder, cached client.Reader, list client.ObjectList) *builder.Builder {
	everywhere := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return allOf(ctx, cached, list)
	})
	within := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		return allOf(ctx, cached, list, client.InNamespace(namespace.GetName()))
	})
	return under.
		Watches(&mspolicyv1.PlatformPolicy{}, everywhere, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(watch.Namespace(), within, builder.WithPredicates(watch.LabelsChanged()))
}

func allOf(ctx context.Context, cached client.Reader, list client.ObjectList, options ...client.ListOption) []reconcile.Request {
	all := list.DeepCopyObject().(client.ObjectList)
	if err := cached.List(ctx, all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the objects that policies govern")
		return nil
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(all, func(item runtime.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return requests
}
