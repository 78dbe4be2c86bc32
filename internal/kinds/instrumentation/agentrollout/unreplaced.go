package agentrollout

import (
	"time"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// A StatefulSet replaces its pods one after the other, and, unless its podManagementPolicy is
// Parallel, none while one of them is not ready (kubernetes/kubernetes#67250). A pod that crashes
// with an agent therefore stays when the template changes, until a user deletes it. Mainstay
// deletes no pods: such a pod may be starting slowly. The numbers in a status do not tell such pods
// from those that are being deleted. They only say when to read the pods.

// notReplaced is why such pods stay.
const notReplaced = "Kubernetes does not replace them (podManagementPolicy OrderedReady)"

// deletePods is what a user must do with the pods of a workload.
const deletePods = "its pods that do not become ready must be deleted: " + notReplaced

// mayKeepPods reports whether a workload may have pods that stay when its template changes.
func mayKeepPods(rolled *workload.Rolled) bool {
	return rolled.Ordered && rolled.Ready < rolled.Pods && (!rolled.Complete || rolled.Left > 0)
}

// keepsPods reports whether the pods of a workload show that it does not replace them when its
// template changes.
func (s *WorkloadAssessment) keepsPods() bool {
	return mayKeepPods(&s.rolled) && (!s.UnreplacedSince.IsZero() || !s.HangsSince.IsZero())
}

// isUnreplaced reports whether the pods of a workload show that one of another template stays. In a
// rollout, such a pod may be unready for a moment, and it is not what blocks the rollout while a
// pod with the agent is not ready either.
func (a *Assessment) isUnreplaced(s *WorkloadAssessment) bool {
	return mayKeepPods(&s.rolled) && s.rolled.Blocked == "" && !s.UnreplacedSince.IsZero() && s.HangsSince.IsZero() &&
		(s.rolled.Complete || a.now.Sub(s.UnreplacedSince) > time.Minute)
}

// progressOfUnreplaced returns the progress of a workload that does not replace a pod. It fails
// after the timeout, but not because of the agent.
func (a *Assessment) progressOfUnreplaced(s *WorkloadAssessment) progress {
	const message = "a pod that is not ready has another template: " + deletePods
	if a.now.Sub(latest(s.UnreplacedSince, s.grant.At)) > rollout.Timeout(a.agent.Spec.Rollout.Policy) {
		return progress{rollout.Failed, s.began(), instrv1.WorkloadTimeout, message}
	}
	return progress{rollout.Progressing, s.began(), instrv1.WorkloadBlocked, message}
}

// needsRevision reports whether pods of a workload that is no canary can only be replaced when its
// template changes: deleted now, they get the template again with which they do not become ready.
func (d *decider) needsRevision(s *WorkloadAssessment) bool {
	return s.Has && s.keepsPods() && s.UnreplacedSince.IsZero() && (d.isProven || d.isOnTrial(s))
}

// onRemoval returns what the message about a removal says in addition.
func (o *ObservedWorkload) onRemoval() string {
	if mayKeepPods(&o.Rolled) {
		return "; " + deletePods
	}
	return ""
}

// toDelete says of which workloads pods must be deleted, after a semicolon; "" if of none.
func (f *StatusInput) toDelete(indices []int) string {
	if len(indices) == 0 {
		return ""
	}
	return "; delete the pods of " + conditions.FirstFew(f.namesOf(indices), ", ") + " that do not become ready: " + notReplaced
}

// unreplaced returns the indices of the matched workloads in which pods of another template stay.
func (d *Decision) unreplaced() []int {
	var indices []int
	for _, reported := range d.Workloads {
		if reported.Unreplaced {
			indices = append(indices, reported.Index)
		}
	}
	return indices
}
