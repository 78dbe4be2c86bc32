package policyreader

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Watch makes a governed kind's controller enqueue its objects when their rules change: all of them
// with a PlatformPolicy, also when one of its exemptions has ended, which its status says; those of
// a namespace with its labels, which define its environment. list is an empty list of the kind;
// cached has all objects of it.
func Watch(under *builder.Builder, cached client.Reader, list client.ObjectList) *builder.Builder {
	everywhere := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return watch.Requests(ctx, cached, list.DeepCopyObject().(client.ObjectList))
	})
	within := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		return watch.Requests(ctx, cached, list.DeepCopyObject().(client.ObjectList), client.InNamespace(namespace.GetName()))
	})
	return under.
		Watches(&mspolicyv1.PlatformPolicy{}, everywhere, builder.WithPredicates(Changed())).
		Watches(watch.Namespace(), within, builder.WithPredicates(watch.LabelsChanged()))
}

// Changed lets changes of a PlatformPolicy pass that change what its rules mean: those of its spec,
// and of the states of its exemptions; and those to another policy of its name.
func Changed() predicate.Predicate {
	states := func(object client.Object) []mspolicyv1.ExemptionStatus {
		if stored, isOne := object.(*mspolicyv1.PlatformPolicy); isOne {
			return stored.Status.Exemptions
		}
		return nil
	}
	return predicate.Or(predicate.GenerationChangedPredicate{}, watch.Recreated(), predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return true },
		DeleteFunc:  func(event.DeleteEvent) bool { return true },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !slices.EqualFunc(states(e.ObjectOld), states(e.ObjectNew),
				func(a, b mspolicyv1.ExemptionStatus) bool { return a.State == b.State })
		},
	})
}
