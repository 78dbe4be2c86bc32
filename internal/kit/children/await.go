package children

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// awaitPoll is the interval at which the cache, which is in memory, is read. Watch events arrive
// one to five milliseconds after the response to the write.
const awaitPoll = 2 * time.Millisecond

// AwaitLimit limits the wait. A cache that lags by more has a problem. Only tests change it, before
// anything runs: those that count writes, on machines where a watch may stand still for seconds.
var AwaitLimit = time.Second

// Await waits, for AwaitLimit at most, until a cache has an object at least as new as version or,
// if version is empty, has it no more. Otherwise the next reconcile would often start from the
// state before our own write, and repeat the write or report the old state. object is overwritten.
// The error says that the cache lags: nothing can be concluded from it.
func Await(ctx context.Context, cached client.Reader, object plan.Object, version string) error {
	key := client.ObjectKeyFromObject(object)
	err := wait.PollUntilContextTimeout(ctx, awaitPoll, AwaitLimit, true, func(ctx context.Context) (bool, error) {
		err := cached.Get(ctx, key, object)
		if version == "" {
			return apierrors.IsNotFound(err) || (err == nil && object.GetDeletionTimestamp() != nil), nil
		}
		if err != nil {
			return false, nil //nolint:nilerr // not there yet: the wait continues
		}
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
		return err == nil && order >= 0, err
	})
	if err != nil {
		return fmt.Errorf("%s was written, but Mainstay has not seen the change after %s and tries again: %w", key, AwaitLimit, err)
	}
	return nil
}
