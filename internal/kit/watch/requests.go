package watch

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Requests lists cached objects that a change concerns, without copying them, and returns a request
// for each, in their order. If they can't be listed, it logs the error and returns none.
func Requests(ctx context.Context, cached client.Reader, into client.ObjectList, options ...client.ListOption) []reconcile.Request {
	if err := cached.List(ctx, into, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the objects that a change concerns")
		return nil
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(into, func(item runtime.Object) error { // the function returns no error
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return requests
}
