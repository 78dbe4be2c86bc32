package reconciler

import (
	"context"
	"errors"
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
// by the objects' names: unanswered if it is unknown whether the write has happened.

// unanswered stands for the version of a write that had no answer.
const unanswered = ""

// noteWrite notes a write of the status with its result, before the cache shows it.
func (r *Reconciler[T, O, D]) noteWrite(reported T, err error) {
	key := client.ObjectKeyFromObject(reported)
	switch {
	case err == nil:
		r.unseen.Store(key, reported.GetResourceVersion())
	case hasNoAnswer(err):
		r.unseen.Store(key, unanswered)
	}
}

// hasNoAnswer reports whether it is unknown what became of a request.
func hasNoAnswer(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// isUncertain reports whether the last write of an object's status had no answer. Then the next
// reconcile writes even what the cache has: the API server refuses that as a conflict if the cache
// is behind, and changes nothing if it is not.
func (r *Reconciler[T, O, D]) isUncertain(object T) bool {
	noted, isUnseen := r.unseen.Load(client.ObjectKeyFromObject(object))
	return isUnseen && noted == unanswered
}

// awaitWrite waits until the cache shows the last write of an object's status, if that is known to
// have happened. An object that is gone has nothing to correct.
func (r *Reconciler[T, O, D]) awaitWrite(ctx context.Context, key client.ObjectKey) error {
	noted, isUnseen := r.unseen.Load(key)
	if !isUnseen {
		return nil
	}
	object := r.New()
	err := r.Client.Get(ctx, key, object)
	switch {
	case err == nil && noted == unanswered:
		return nil
	case err == nil:
		err = children.Await(ctx, r.Client, object, noted.(string))
	}
	if client.IgnoreNotFound(err) == nil {
		r.unseen.Delete(key)
		return nil
	}
	return err
}
