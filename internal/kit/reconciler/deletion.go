package reconciler

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/trace"
)

// isLeft reports whether nothing is left to do for an object that is being deleted: other clients'
// finalizers keep it.
func (r *Reconciler[T, O, D]) isLeft(stored T) bool {
	return !isAbsent(stored) && stored.GetDeletionTimestamp() != nil && !r.hasFinalizer(stored)
}

// reportDeletion stores that an object is being deleted, and what it waits for. What the other
// conditions and the rest of the status say, nobody maintains any more: they stay as they are, the
// conditions with the generation for which they were found. A deletion begins a new one.
func (r *Reconciler[T, O, D]) reportDeletion(ctx context.Context, stored T, done *stats) error {
	reported := stored.DeepCopyObject().(T)
	done.reported = reported
	message := deletionMessage(stored.GetFinalizers())
	kept := slices.DeleteFunc(reported.GetConditions(), func(one metav1.Condition) bool {
		return one.Type == conditions.Ready || one.Type == conditions.Progressing
	})
	reported.SetPhase(string(api.PhaseDeleting))
	reported.SetObservedGeneration(stored.GetGeneration())
	reported.SetConditions(append(kept, conditions.False(conditions.Ready, api.ReasonDeleting, message),
		conditions.True(conditions.Progressing, api.ReasonDeleting, message)))
	within, step := trace.Start(ctx, "status")
	err := r.writeStatus(within, stored, reported, done)
	step.End(err)
	return err
}

// deletionMessage says which finalizers an object waits for. Kubernetes' own are explained.
func deletionMessage(finalizers []string) string {
	var named []string
	for _, finalizer := range finalizers {
		switch finalizer {
		case metav1.FinalizerDeleteDependents:
			finalizer += " (Kubernetes deletes its children first)"
		case metav1.FinalizerOrphanDependents:
			finalizer += " (Kubernetes detaches its children first)"
		}
		named = append(named, finalizer)
	}
	if len(named) == 1 {
		return "it is being deleted, and waits for the finalizer " + named[0]
	}
	return "it is being deleted, and waits for the finalizers " + conditions.FirstFew(named, ", ")
}
