package postgresql

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// nearlyFull is from how many percent on a volume is a problem.
const nearlyFull = 85

// storage says how the volumes are: full, refused to grow, growing, or well.
func (s *subject) storage() metav1.Condition {
	is := func(reason, format string, values ...any) metav1.Condition {
		return conditions.False(databasev1.ConditionStorageHealthy, reason, fmt.Sprintf(format, values...))
	}
	for _, instance := range s.instances {
		if instance.Report.Full >= nearlyFull {
			return is(databasev1.ReasonNearlyFull, "the volume of %s is %d %% full: increase spec.storage", instance.Pod.Name, instance.Report.Full)
		}
	}
	size := s.db.Spec.Storage
	for ordinal := range int(s.db.Spec.Replicas) {
		claim := s.observed.volume(s.db, ordinal)
		if claim == nil {
			continue
		}
		asked, has := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage()
		if refusal := s.refusal(VolumeName(s.db.Name, ordinal)); refusal != "" && asked.Cmp(size) < 0 {
			return is(databasev1.ReasonCantGrow, "the volume of %s can't grow from %s to %s: %s", PodName(s.db.Name, ordinal), asked, size.String(),
				refusal)
		}
		if claim.Status.Phase == corev1.ClaimBound && has.Cmp(size) < 0 {
			return is(databasev1.ReasonResizing, "the volume of %s has %s, and will have %s", PodName(s.db.Name, ordinal), has, size.String())
		}
	}
	return conditions.True(databasev1.ConditionStorageHealthy, databasev1.ReasonEnoughSpace, "no volume is nearly full")
}

// refusal returns why the API server has refused to change a claim; "" if it has not. The first
// refusal of all children is known.
func (s *subject) refusal(claim string) string {
	failure := s.result.Failure
	if failure == nil || failure.Transient || !strings.Contains(failure.Message, "PersistentVolumeClaim "+s.db.Namespace+"/"+claim+":") {
		return ""
	}
	return failure.Message
}
