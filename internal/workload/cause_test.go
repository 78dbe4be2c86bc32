package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSuspects: pods are read only where a rollout has made no progress for a time, and then less
// and less often.
func TestSuspects(t *testing.T) {
	rolling := func(ago time.Duration) Target {
		target := web("a", flags("A", "1"))
		target.Rolled, target.Stamp.RestartedAt = Rolled{Pods: 2, Updated: 1, Ready: 2}, new(noon.Add(-ago))
		return target
	}
	with := func(target Target, change func(*Target)) []Target {
		change(&target)
		return []Target{target}
	}
	type answer struct {
		Targets      []int
		RequeueAfter time.Duration
	}
	for name, test := range map[string]struct {
		targets []Target
		origin  string
		want    answer
	}{
		"at rest":           {targets: []Target{web("a", flags("A", "1"))}},
		"just begun":        {targets: []Target{rolling(10 * time.Second)}, want: answer{nil, 20 * time.Second}},
		"no progress":       {targets: []Target{rolling(40 * time.Second)}, want: answer{[]int{0}, 40 * time.Second}},
		"for long":          {targets: []Target{rolling(9 * time.Minute)}, want: answer{[]int{0}, 9 * time.Minute}},
		"failed for hours":  {targets: []Target{rolling(9 * time.Hour)}, want: answer{[]int{0}, 10 * time.Minute}},
		"of another origin": {targets: []Target{rolling(time.Minute)}, origin: "AppConfig/x"},
		"its deadline has passed": {targets: with(rolling(time.Minute), func(t *Target) { t.Rolled.Failed = "too late" }),
			want: answer{[]int{0}, time.Minute}},
		"some progress": {targets: with(rolling(time.Minute), func(t *Target) { t.Rolled.Progressed = noon.Add(-10 * time.Second) }),
			want: answer{nil, 20 * time.Second}},
		"by its owner": {targets: with(rolling(0), func(t *Target) { t.Stamp.RestartedAt, t.Rolled.Progressed = nil, noon.Add(-time.Minute) }),
			want: answer{[]int{0}, time.Minute}},
		"paused": {targets: with(rolling(time.Minute), func(t *Target) { t.Rolled.Blocked = "paused" })},
		"to be restarted": {targets: with(rolling(time.Minute), func(t *Target) { t.Stamp = web("a", flags("A", "0")).Stamp }),
			want: answer{nil, 2 * time.Second}},
		"its restart was refused": {targets: with(rolling(time.Minute), func(t *Target) {
			t.Stamp, t.Refusal = web("a", flags("A", "0")).Stamp, Refusal{Message: "no", At: noon}
		}), want: answer{nil, time.Minute}},
		"more than enough": {targets: []Target{rolling(time.Minute), rolling(time.Minute), rolling(time.Minute), rolling(time.Minute)},
			want: answer{[]int{0, 1, 2}, time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			demand, origin := watching(), "ConfigMonitor/flags"
			if test.origin != "" {
				origin = test.origin
			}
			snapshot := Snapshot{Targets: test.targets, Demands: []Demand{demand}, Sources: map[SourceRef]Source{demand.Source: flags("A", "1")}}
			restarts := Decide(snapshot, noon)
			targets, requeueAfter := restarts.Suspects(&snapshot, origin, noon)
			if diff := cmp.Diff(test.want, answer{targets, requeueAfter}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestCause: what is wrong with new pods is found with the probes that they have themselves.
func TestCause(t *testing.T) {
	target := web("a")
	target.Stamp.RestartedAt = new(noon.Add(-time.Minute))
	unready := pod(corev1.ContainerStatus{Name: "webapp", State: corev1.ContainerState{
		Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-50 * time.Second))}}})
	unready.Spec.Containers = []corev1.Container{{Name: "webapp", ReadinessProbe: &corev1.Probe{}}}
	for want, pods := range map[string][]corev1.Pod{
		"": nil,
		"PodsNotReady: 1 of 1 pods: container webapp does not pass its readiness probe": {unready},
		"ImagePullFailed: 1 of 2 pods: image shop:9 of container webapp can't be pulled: there is no manifest for it": {unready,
			pod(waiting("ErrImagePull", "there is no manifest for it"))},
	} {
		got := ""
		if problem := target.Cause(pods, noon); problem != nil {
			got = problem.Reason + ": " + problem.Message
		}
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
