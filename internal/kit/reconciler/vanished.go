package reconciler

import (
	"context"
	"fmt"
	"maps"
	"sync"

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
//
// While it asks, it reads the first missing child, which apply would read next, into found.
func (r *Reconciler[T, O, D]) hasVanished(ctx context.Context, stored T, wanted plan.Plan, found plan.Children) (bool, error) {
	if len(stored.GetConditions()) == 0 || stored.GetDeletionTimestamp() != nil || wanted.Withhold {
		return false, nil
	}
	lacking, err := r.lacking(stored, wanted, found)
	if err != nil || lacking == nil {
		return false, err
	}
	live, others := r.New(), plan.Children{}
	var asked error
	var reads sync.WaitGroup
	reads.Go(func() { asked = r.Applier.Children.Live.Get(ctx, client.ObjectKeyFromObject(stored), live) })
	if !lacking.isKnown {
		// Apply reads it again after an error, and reports that.
		reads.Go(func() { _ = r.Applier.Look(ctx, stored, lacking.child, others) })
	}
	reads.Wait()
	if apierrors.IsNotFound(asked) {
		return true, nil
	}
	if asked != nil {
		return false, fmt.Errorf("checking whether %s/%s still exists: %w", stored.GetNamespace(), stored.GetName(), asked)
	}
	if live.GetUID() != stored.GetUID() || live.GetDeletionTimestamp() != nil {
		return true, nil
	}
	maps.Copy(found, others)
	return false, nil
}

// lacking is a desired child that does not exist.
type lacking struct {
	child plan.Child
	// isKnown reports that the API server has said so, not only the cache.
	isKnown bool
}

// lacking returns the first desired child that is missing; nil if none is.
func (r *Reconciler[T, O, D]) lacking(owner T, wanted plan.Plan, found plan.Children) (*lacking, error) {
	for _, child := range wanted.Children {
		ref, err := children.RefOf(child.Object, r.Applier.Children.Scheme)
		if err != nil {
			return nil, err
		}
		ref.Namespace = owner.GetNamespace()
		if existing, known := found[ref]; !known || existing.Ownership == plan.Absent {
			return &lacking{child: child, isKnown: known}, nil
		}
	}
	return nil, nil
}
