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
	kinds := storageKinds(s.db)
	for _, instance := range s.instances {
		for i, full := range []int{instance.Report.Full, instance.Report.FullLog} {
			if i < len(kinds) && full >= nearlyFull {
				return is(databasev1.ReasonNearlyFull, "%s%s is %d %% full: increase %s", kinds[i].what, instance.Pod.Name, full, kinds[i].field)
			}
		}
	}
	for ordinal := range int(s.db.Spec.Replicas) {
		for _, kind := range kinds {
			if reason, message := s.grows(kind, ordinal); reason != "" {
				return is(reason, "%s", message)
			}
		}
	}
	return conditions.True(databasev1.ConditionStorageHealthy, databasev1.ReasonEnoughSpace, "no volume is nearly full")
}

// grows says that a volume does not have the desired size, and why; "" if it has.
func (s *subject) grows(kind storageKind, ordinal int) (reason, message string) {
	name := kind.claim(s.db.Name, ordinal)
	claim := s.observed.claim(s.db, name)
	if claim == nil {
		return "", ""
	}
	asked, has, of := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage(), kind.what+PodName(s.db.Name, ordinal)
	if refusal := s.refusal(name); refusal != "" && asked.Cmp(kind.size) < 0 {
		return databasev1.ReasonCantGrow, fmt.Sprintf("%s can't grow from %s to %s: %s", of, asked, kind.size.String(), refusal)
	}
	if claim.Status.Phase == corev1.ClaimBound && has.Cmp(kind.size) < 0 {
		return databasev1.ReasonResizing, fmt.Sprintf("%s has %s, and will have %s", of, has, kind.size.String())
	}
	return "", ""
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
