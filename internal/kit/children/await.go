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

const (
	// awaitPoll is how often the cache, which is memory, is looked at: watch events arrive
	// one to five milliseconds after the answer to the write.
	awaitPoll = 2 * time.Millisecond
	// AwaitLimit bounds the wait. A cache that lags by more is in trouble.
	AwaitLimit = time.Second
)

// Await waits, not for long, until a cache shows an object at least as new as version, or
// no longer, if version is empty. Without it the next reconcile would often work from
// what was there before our own write, and repeat it, or take it for the present. object is
// overwritten. The error says that the cache lags: nothing can be concluded from it.
func Await(ctx context.Context, cached client.Reader, object plan.Object, version string) error {
	key := client.ObjectKeyFromObject(object)
	err := wait.PollUntilContextTimeout(ctx, awaitPoll, AwaitLimit, true, func(ctx context.Context) (bool, error) {
		err := cached.Get(ctx, key, object)
		if version == "" {
			return apierrors.IsNotFound(err) || (err == nil && object.GetDeletionTimestamp() != nil), nil
		}
		if err != nil {
			return false, nil //nolint:nilerr // not there yet: what the wait is for
		}
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
		return err == nil && order >= 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the cache to show %s: %w", key, err)
	}
	return nil
}
