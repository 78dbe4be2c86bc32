package agentrollout

import (
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// A StatefulSet replaces its pods one after the other, and, unless its podManagementPolicy is
// Parallel, none while one of them is not ready (kubernetes/kubernetes#67250). A pod that crashes
// with an agent therefore stays when the agent is removed from the template, until a user deletes
// it. Mainstay deletes no pods: such a pod may be starting slowly.

// notReplaced is why such pods stay.
const notReplaced = "Kubernetes does not replace them (podManagementPolicy OrderedReady)"

// deletePods is what a user must do with the pods of a workload.
const deletePods = "its pods that do not become ready must be deleted: " + notReplaced

// hasUnreplaced reports whether pods of another template stay in a StatefulSet that was changed
// back.
func hasUnreplaced(rolled *workload.Rolled) bool {
	return rolled.Ordered && rolled.Left > 0 && rolled.Ready < rolled.Pods
}

// mayKeepPods reports whether pods may stay if the template is changed now.
func (o *ObservedWorkload) mayKeepPods() bool {
	return o.Rolled.Ordered && o.Rolled.Ready < o.Rolled.Pods && (!o.Rolled.Complete || o.Rolled.Left > 0)
}

// onRemoval returns what the message about a removal says in addition.
func (o *ObservedWorkload) onRemoval() string {
	if o.mayKeepPods() {
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
func (d *Decision) unreplaced(seen []ObservedWorkload) []int {
	var indices []int
	for _, reported := range d.Workloads {
		if hasUnreplaced(&seen[reported.Index].Rolled) {
			indices = append(indices, reported.Index)
		}
	}
	return indices
}
