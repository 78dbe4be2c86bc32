package reconciler

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patchStatus stores the status of after, and reports whether it wrote: it does not for an object
// that was deleted since it was read. The two are the same object: as it was read, and with its
// new status. It fails with a conflict if the object has changed since it was read, for then the
// status describes something else and must be computed again.
func patchStatus(ctx context.Context, c client.StatusClient, manager string, before, after client.Object) (bool, error) {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	switch err := c.Status().Patch(ctx, after, patch, client.FieldOwner(manager)); {
	case err == nil:
		return true, nil
	case isMissing(err):
		return false, nil
	default:
		return false, fmt.Errorf("writing the status: %w", err)
	}
}

// isMissing reports whether the API server does not have the object of a request, as opposed to its
// resource. The cache may have an object for a moment longer: its deletion is about to arrive.
func isMissing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
