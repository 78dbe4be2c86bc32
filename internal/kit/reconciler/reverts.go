package reconciler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// recordReverts records which changes of children by someone else were undone, and which children
// someone else changes again and again.
func (r *Reconciler[T, O, D]) recordReverts(object T, result plan.Result) {
	for _, revert := range result.Reverts {
		reason := api.ReasonReverted
		if revert.IsDeletion() {
			reason = api.ReasonRecreated
		}
		r.Recorder.Eventf(object, related(revert), corev1.EventTypeWarning, reason, "Reconcile", "%s", revert.Message(r.remedy(object)))
	}
	for _, contest := range result.Contested {
		r.Recorder.Eventf(object, nil, corev1.EventTypeWarning, api.ReasonContested, "Reconcile", "%s", contest)
	}
}

// slowedFailure returns the failure for children that someone else changes again and again; nil if
// there are none. They may be as they should be at this moment, but not for long.
func slowedFailure(result plan.Result) *plan.Failure {
	if len(result.SlowedChildren) == 0 {
		return nil
	}
	var sentences []string
	for _, contest := range result.SlowedChildren {
		sentences = append(sentences, contest.String())
	}
	slices.Sort(sentences)
	return &plan.Failure{Reason: api.ReasonContested, Message: conditions.FirstFew(sentences, "; ")}
}

// related returns the child of a revert for its event. The recorder counts events that differ only
// in their message as one, and shows the message of the first: so the reference has the version
// too.
func related(revert plan.Revert) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: revert.APIVersion, Kind: revert.Ref.Kind, Namespace: revert.Ref.Namespace, Name: revert.Ref.Name,
		UID: revert.UID, ResourceVersion: revert.Version,
	}
}

// remedy returns how to change a child of an object for good.
func (r *Reconciler[T, O, D]) remedy(object T) string {
	within := ""
	if namespace := object.GetNamespace(); namespace != "" {
		within = "-n " + namespace + " "
	}
	return fmt.Sprintf("To change it for good: kubectl %sedit %s %s", within, r.Name, object.GetName())
}
