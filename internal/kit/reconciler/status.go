package reconciler

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patchStatus stores the status of after if it differs from that of before, and reports whether it
// wrote. The two are the same object: as it was read, and with its new status. It fails with a
// conflict if the object has changed since it was read, for then the status describes something
// else and must be computed again.
func patchStatus(ctx context.Context, c client.StatusClient, manager string, before, after client.Object) (bool, error) {
	if equality.Semantic.DeepEqual(before, after) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.Status().Patch(ctx, after, patch, client.FieldOwner(manager)); err != nil {
		return false, fmt.Errorf("writing the status: %w", err)
	}
	return true, nil
}
