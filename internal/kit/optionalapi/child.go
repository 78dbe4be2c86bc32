package optionalapi

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// Child is a kind of children that a cluster may lack, of owners of the kind T.
type Child[T client.Object] struct {
	API *API
	// Object is an empty child, and Owner an empty owner. Without an Object the owners only say
	// whether the kind exists.
	Object client.Object
	Owner  T
	// IsWanted reports whether an owner has such a child where the kind exists.
	IsWanted func(T) bool
}

// Watch starts to watch the children in a controller that runs, and enqueues the owners that wait
// for the kind.
func (c Child[T]) Watch(manager ctrl.Manager, running controller.Controller) error {
	if c.Object != nil {
		owner := handler.EnqueueRequestForOwner(manager.GetScheme(), manager.GetRESTMapper(), c.Owner, handler.OnlyControllerOwner())
		if err := running.Watch(source.Kind(manager.GetCache(), c.Object, owner, watch.ContentChanged())); err != nil {
			return err
		}
	}
	waiting := handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, of T) []reconcile.Request {
		if !c.IsWanted(of) {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(of)}}
	})
	// Existing objects arrive as created; the controller's own watch handles later changes.
	existing := predicate.TypedFuncs[T]{
		UpdateFunc: func(event.TypedUpdateEvent[T]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[T]) bool { return false },
	}
	return running.Watch(source.Kind(manager.GetCache(), c.Owner, waiting, existing))
}
