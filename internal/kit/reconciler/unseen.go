package reconciler

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
)

// Writes of the status wake no controller, so a reconcile that finds the status right must have
// seen the last of them: if a cache that lags still has the status before it, which happens to be
// right again, nothing would be written, and nothing would ever correct the one in between.
//
// unseen has the versions of the statuses that were written and that the cache has not shown yet,
// by the objects' names: "" if a write had no answer, and may have happened.

// noteWrite notes a write of the status with its result, before the cache shows it.
func (r *Reconciler[T, O, D]) noteWrite(reported T, err error) {
	key := client.ObjectKeyFromObject(reported)
	switch {
	case err == nil:
		r.unseen.Store(key, reported.GetResourceVersion())
	case hasNoAnswer(err):
		r.unseen.Store(key, "")
	}
}

// hasNoAnswer reports whether it is unknown what became of a request.
func hasNoAnswer(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// awaitWrite waits until the cache shows the last write of an object's status, if it has not yet.
// An object that is gone, or whose deletion began, has nothing to correct.
func (r *Reconciler[T, O, D]) awaitWrite(ctx context.Context, key client.ObjectKey) error {
	noted, isUnseen := r.unseen.Load(key)
	if !isUnseen {
		return nil
	}
	object, version := r.New(), noted.(string)
	if version == "" {
		err := r.Applier.Children.Live.Get(ctx, key, object)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the object, because a write of its status had no answer: %w", err)
		}
		version = object.GetResourceVersion()
	}
	err := r.Client.Get(ctx, key, object)
	if err == nil && version != "" {
		err = children.Await(ctx, r.Client, object, version)
	}
	if client.IgnoreNotFound(err) == nil {
		r.unseen.Delete(key)
		return nil
	}
	return err
}
