package database

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// IsCarriedOut reports whether it is certain that the volumes are as the spec says: those of an
// object that exists, is not paused, and is Ready for its present generation. One that is not Ready
// may have been refused something. Nothing of one that is being deleted is changed, so its spec may
// be newer than what was done.
func IsCarriedOut(object metav1.Object, isPaused bool, observedGeneration int64, status []metav1.Condition) bool {
	if object.GetUID() == "" || object.GetDeletionTimestamp() != nil || isPaused || observedGeneration != object.GetGeneration() {
		return false
	}
	ready := meta.FindStatusCondition(status, conditions.Ready)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == object.GetGeneration()
}
