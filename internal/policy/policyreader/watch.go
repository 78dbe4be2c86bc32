package policyreader

import (
	"context"

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
		return watch.Requests(ctx, cached, list.DeepCopyObject().(client.ObjectList))
	})
	within := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		return watch.Requests(ctx, cached, list.DeepCopyObject().(client.ObjectList), client.InNamespace(namespace.GetName()))
	})
	return under.
		Watches(&mspolicyv1.PlatformPolicy{}, everywhere, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(watch.Namespace(), within, builder.WithPredicates(watch.LabelsChanged()))
}
