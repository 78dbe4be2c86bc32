package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// state returns a Rolled in short.
func (r Rolled) state() string {
	switch {
	case r.Complete:
		return "complete"
	case r.Failed != "":
		return "failed"
	case r.Blocked != "":
		return "blocked"
	default:
		return "under way"
	}
}

func TestRolledOfDeployment(t *testing.T) {
	progressing := func(reason string) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason}}
	}
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		paused bool
		want   string
	}{
		"nothing is known": {appsv1.DeploymentStatus{}, false, "under way"},
		"rolled out": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3,
			Conditions: progressing("NewReplicaSetAvailable")}, false, "complete"},
		"of an earlier generation": {appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3,
			Conditions: progressing("NewReplicaSetAvailable")}, false, "under way"},
		"being scaled up": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, AvailableReplicas: 2,
			Conditions: progressing("NewReplicaSetAvailable")}, false, "complete"},
		"a pod was lost later": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2,
			Conditions: progressing("NewReplicaSetAvailable")}, false, "complete"},
		"rolling": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1,
			Conditions: progressing("ReplicaSetUpdated")}, false, "under way"},
		"its deadline has passed": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 4, UpdatedReplicas: 1,
			Conditions: progressing("ProgressDeadlineExceeded")}, false, "failed"},
		"an earlier deadline passed": {appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 4, UpdatedReplicas: 1,
			Conditions: progressing("ProgressDeadlineExceeded")}, false, "under way"},
		"paused": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, Conditions: progressing("DeploymentPaused")},
			true, "blocked"},
		"paused, up to date": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3,
			Conditions: progressing("DeploymentPaused")}, true, "complete"},
		"paused, of an earlier generation": {appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3,
			AvailableReplicas: 3, Conditions: progressing("DeploymentPaused")}, true, "blocked"},
		"paused, a pod is not available": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3,
			AvailableReplicas: 2, Conditions: progressing("DeploymentPaused")}, true, "blocked"},
		"without a deadline, rolled": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 3},
			false, "complete"},
		"without a deadline, rolling": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 3, UpdatedReplicas: 3, AvailableReplicas: 2},
			false, "under way"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(3)), Paused: test.paused}, Status: test.status}
			if diff := cmp.Diff(test.want, RolledOfDeployment(deployment).state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestRolledWithoutPods: a Deployment that is scaled to 0 has nothing to roll out, whatever became
// of its last rollout.
func TestRolledWithoutPods(t *testing.T) {
	progressing := func(reason string) []appsv1.DeploymentCondition {
		return []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: reason}}
	}
	for name, test := range map[string]struct {
		status appsv1.DeploymentStatus
		want   string
	}{
		"after a rollout":            {appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: progressing("NewReplicaSetAvailable")}, "complete"},
		"in the middle of one":       {appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: progressing("ReplicaSetUpdated")}, "complete"},
		"after one that failed":      {appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: progressing("ProgressDeadlineExceeded")}, "complete"},
		"while kubectl pauses it":    {appsv1.DeploymentStatus{ObservedGeneration: 2, Conditions: progressing("DeploymentPaused")}, "complete"},
		"before it has been scaled":  {appsv1.DeploymentStatus{ObservedGeneration: 1, Conditions: progressing("ReplicaSetUpdated")}, "under way"},
		"while old pods are stopped": {appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, Conditions: progressing("ReplicaSetUpdated")}, "under way"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 2},
				Spec: appsv1.DeploymentSpec{Replicas: new(int32(0)), Paused: name == "while kubectl pauses it"}, Status: test.status}
			if got := RolledOfDeployment(deployment).state(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRolledOfStatefulSet(t *testing.T) {
	for name, test := range map[string]struct {
		status appsv1.StatefulSetStatus
		update appsv1.StatefulSetUpdateStrategy
		want   string
	}{
		"rolled out": {appsv1.StatefulSetStatus{CurrentRevision: "b", UpdateRevision: "b", Replicas: 3},
			appsv1.StatefulSetUpdateStrategy{}, "complete"},
		"being scaled up": {appsv1.StatefulSetStatus{CurrentRevision: "b", UpdateRevision: "b", Replicas: 1},
			appsv1.StatefulSetUpdateStrategy{}, "complete"},
		"rolling": {appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b", Replicas: 3, UpdatedReplicas: 1},
			appsv1.StatefulSetUpdateStrategy{}, "under way"},
		"as far as its partition lets": {appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b", Replicas: 3, UpdatedReplicas: 1},
			withPartition(2), "blocked"},
		"within its partition, rolling": {appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b", Replicas: 3}, withPartition(2),
			"under way"},
		"its pods were not deleted": {appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b", Replicas: 3, UpdatedReplicas: 2},
			onDelete(), "blocked"},
		"its pods were deleted": {appsv1.StatefulSetStatus{CurrentRevision: "a", UpdateRevision: "b", Replicas: 3, UpdatedReplicas: 3},
			onDelete(), "complete"},
	} {
		t.Run(name, func(t *testing.T) {
			set := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3)), UpdateStrategy: test.update}, Status: test.status}
			if diff := cmp.Diff(test.want, RolledOfStatefulSet(set).state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLeftOfStatefulSet: pods with another template are left when a StatefulSet was changed back.
func TestLeftOfStatefulSet(t *testing.T) {
	for _, test := range []struct {
		name             string
		observed         int64
		current, update  string
		pods, ofTemplate int32
		want             int32
	}{
		{"rolled out", 2, "b", "b", 3, 3, 0},
		{"rolling", 2, "a", "b", 3, 2, 0},
		{"changed back", 2, "a", "a", 3, 2, 1},
		{"changed back, not observed", 1, "a", "a", 3, 2, 0},
		{"a pod is to be created", 2, "b", "b", 2, 2, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(3))},
				Status: appsv1.StatefulSetStatus{ObservedGeneration: test.observed, CurrentRevision: test.current, UpdateRevision: test.update,
					Replicas: test.pods, CurrentReplicas: test.ofTemplate}}
			if got := RolledOfStatefulSet(set); got.Left != test.want || !got.Ordered {
				t.Errorf("%d are left, wanted %d, and it is ordered: %t", got.Left, test.want, got.Ordered)
			}
			set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
			if RolledOfStatefulSet(set).Ordered {
				t.Error("a parallel one is ordered")
			}
		})
	}
}

func withPartition(partition int32) appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}

func onDelete() appsv1.StatefulSetUpdateStrategy {
	return appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
}

func TestRolledOfDaemonSet(t *testing.T) {
	for name, test := range map[string]struct {
		status appsv1.DaemonSetStatus
		want   string
	}{
		"rolled out": {appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 3},
			"complete"},
		"rolling": {appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 2, NumberAvailable: 3},
			"under way"},
		"the last one is not there": {appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberAvailable: 2},
			"under way"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, RolledOfDaemonSet(&appsv1.DaemonSet{Status: test.status}).state()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
