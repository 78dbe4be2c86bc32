package database

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

// Storage says how the volumes are: full, refused to grow, growing, or well.
func (s *Subject) Storage() metav1.Condition {
	is := func(reason, format string, values ...any) metav1.Condition {
		return conditions.False(databasev1.ConditionStorageHealthy, reason, fmt.Sprintf(format, values...))
	}
	volumes, resizing := s.Database.Volumes, ""
	for ordinal := range int(s.Database.Replicas) {
		for _, volume := range volumes {
			switch reason, message := s.grows(volume, ordinal); {
			case reason == databasev1.ReasonCantGrow:
				return is(reason, "%s", message)
			case reason != "" && resizing == "":
				resizing = message
			}
		}
	}
	for _, instance := range s.Instances {
		for i, full := range []int{instance.Report.Full, instance.Report.FullLog} {
			if i < len(volumes) && full >= nearlyFull {
				return is(databasev1.ReasonNearlyFull, "%s%s is %d %% full: %s", volumes[i].What, instance.Pod.Name, full, volumes[i].remedy(full))
			}
		}
	}
	if resizing != "" {
		return is(databasev1.ReasonResizing, "%s", resizing)
	}
	return conditions.True(databasev1.ConditionStorageHealthy, databasev1.ReasonEnoughSpace, "no volume is nearly full")
}

// remedy is what helps against a volume that is so full, in percent.
func (v Volume) remedy(full int) string {
	switch {
	case v.Growth == nil:
		return "increase " + v.Field
	case full < int(v.Growth.From):
		return fmt.Sprintf("it grows automatically from %d %% on, or increase %s", v.Growth.From, v.Field)
	case v.Size.Cmp(v.Growth.Limit) >= 0:
		return fmt.Sprintf("it has reached spec.autoGrow.limit, %s: increase that", v.Growth.Limit.String())
	case !v.GrowsAt.IsZero():
		return "it grows at " + v.GrowsAt.Format("15:04:05 UTC") + ", ten minutes after it last grew, or increase " + v.Field
	}
	return "it grows automatically, to " + v.Size.String()
}

// grows says that a volume does not have the desired size, and why; "" if it has.
func (s *Subject) grows(volume Volume, ordinal int) (reason, message string) {
	name := volume.Claim(s.Database.Name, ordinal)
	claim := s.Observed.Claim(s.Database, name)
	if claim == nil {
		return "", ""
	}
	asked, has, of := claim.Spec.Resources.Requests.Storage(), claim.Status.Capacity.Storage(), volume.What+PodName(s.Database.Name, ordinal)
	if refusal := s.refusal(name); refusal != "" && asked.Cmp(volume.Size) < 0 {
		return databasev1.ReasonCantGrow, fmt.Sprintf("%s can't grow from %s to %s: %s", of, asked, volume.Size.String(), refusal)
	}
	if claim.Status.Phase == corev1.ClaimBound && has.Cmp(volume.Size) < 0 {
		return databasev1.ReasonResizing, fmt.Sprintf("%s has %s, and will have %s", of, has, volume.Size.String())
	}
	return "", ""
}

// refusal returns why the API server has refused to change a claim; "" if it has not. The first
// refusal of all children is known.
func (s *Subject) refusal(claim string) string {
	failure := s.Result.Failure
	if failure == nil || failure.Transient || !strings.Contains(failure.Message, "PersistentVolumeClaim "+s.Database.Namespace+"/"+claim+":") {
		return ""
	}
	return failure.Message
}
