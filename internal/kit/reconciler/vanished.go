package reconciler

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// hasVanished reports whether an object has been deleted or is being deleted, and the cache does
// not show it yet. It asks the API server, but only before a missing child would be created again:
// the garbage collector deletes the children of a deleted object, and their watch may report that
// before the object's own. Children created in between, for example the pods of a deleted app,
// would live for a moment. An object without a status has had no children yet, and is not checked.
// Neither is an object whose deletion is known.
func (r *Reconciler[T, O, D]) hasVanished(ctx context.Context, stored T, wanted plan.Plan, found plan.Children) (bool, error) {
	if len(stored.GetConditions()) == 0 || stored.GetDeletionTimestamp() != nil || wanted.Withhold {
		return false, nil
	}
	lacks, err := r.lacksChild(stored, wanted, found)
	if err != nil || !lacks {
		return false, err
	}
	live := r.New()
	err = r.Applier.Children.Live.Get(ctx, client.ObjectKeyFromObject(stored), live)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking whether %s/%s still exists: %w", stored.GetNamespace(), stored.GetName(), err)
	}
	return live.GetUID() != stored.GetUID() || live.GetDeletionTimestamp() != nil, nil
}

// lacksChild reports whether a desired child is missing.
func (r *Reconciler[T, O, D]) lacksChild(owner T, wanted plan.Plan, found plan.Children) (bool, error) {
	for _, child := range wanted.Children {
		ref, err := children.RefOf(child.Object, r.Applier.Children.Scheme)
		if err != nil {
			return false, err
		}
		ref.Namespace = owner.GetNamespace()
		if existing, known := found[ref]; !known || existing.Ownership == plan.Absent {
			return true, nil
		}
	}
	return false, nil
}
