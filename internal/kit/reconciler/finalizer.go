package reconciler

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// isAbsent reports whether an object is not stored: every stored object has a version.
func isAbsent(object client.Object) bool { return object.GetResourceVersion() == "" }

// absent returns an object that represents a missing one, as if it were being deleted.
func (r *Reconciler[T, O, D]) absent(key client.ObjectKey) T {
	object := r.New()
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	now := metav1.NewTime(r.Clock.Now())
	object.SetDeletionTimestamp(&now)
	return object
}

// hasFinalizer reports whether an object has our finalizer.
func (r *Reconciler[T, O, D]) hasFinalizer(object T) bool {
	return r.Finalizer != "" && controllerutil.ContainsFinalizer(object, r.Finalizer)
}

// ensureFinalizer adds the finalizer to an object that is not being deleted, and waits until the
// cache, from which the kind observes, shows it. stored is then the cached object.
func (r *Reconciler[T, O, D]) ensureFinalizer(ctx context.Context, stored T, done *stats) error {
	if r.Finalizer == "" || stored.GetDeletionTimestamp() != nil || r.hasFinalizer(stored) {
		return nil
	}
	finalized := stored.DeepCopyObject().(T)
	controllerutil.AddFinalizer(finalized, r.Finalizer)
	if err := r.writeFinalizer(ctx, stored, finalized); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	done.changes++
	return children.Await(ctx, r.Client, stored, finalized.GetResourceVersion())
}

// isReleased reports whether everything that was done for an object that is being deleted is
// undone.
func (r *Reconciler[T, O, D]) isReleased(stored T, run *run[T, O, D]) bool {
	if isAbsent(stored) || stored.GetDeletionTimestamp() == nil || run.err != nil {
		return false
	}
	if kind, finalizes := r.Kind.(Finalizing[T, O, D]); finalizes {
		return kind.Released(run.object, run.observed, run.decided, run.result)
	}
	return run.result.ArePatchesMade()
}

// removeFinalizer removes the finalizer.
func (r *Reconciler[T, O, D]) removeFinalizer(ctx context.Context, stored T, done *stats) error {
	released := stored.DeepCopyObject().(T)
	controllerutil.RemoveFinalizer(released, r.Finalizer)
	if err := client.IgnoreNotFound(r.writeFinalizer(ctx, stored, released)); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	done.changes++
	return nil
}

// writeFinalizer writes the finalizers of after. A patch can only replace all of them, so it fails
// with a conflict if the object has changed since before was read.
func (r *Reconciler[T, O, D]) writeFinalizer(ctx context.Context, before, after T) error {
	ctx, step := trace.Start(ctx, "finalizer")
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, after, patch, client.FieldOwner(naming.Manager(r.Name)))
	step.End(client.IgnoreNotFound(err))
	return err
}
