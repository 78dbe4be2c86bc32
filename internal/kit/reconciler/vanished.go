package reconciler

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// hasVanished tells whether an object is no longer there, or is being deleted, though the cache does not know yet. It asks
// the API server, and only before a child that is missing would be made again: the garbage collector
// takes the children of an object that was deleted, and a watch may tell of that before another tells of the
// object's own end. What was made in between would live for a moment: pods of an app that is no more. An object
// without a status has had no children yet, and is not asked for; nor is one that is known to be on its way out.
func (r *Reconciler[T, O, D]) hasVanished(ctx context.Context, stored T, wanted plan.Plan, found plan.Children) (bool, error) {
	if len(stored.GetConditions()) == 0 || stored.GetDeletionTimestamp() != nil || wanted.Withhold {
		return false, nil
	}
	lacking, err := r.lacks(stored, wanted, found)
	if err != nil || !lacking {
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

// lacks tells whether a child that should exist is not known to.
func (r *Reconciler[T, O, D]) lacks(owner T, wanted plan.Plan, found plan.Children) (bool, error) {
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
