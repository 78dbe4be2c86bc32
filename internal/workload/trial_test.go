package workload

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestOnTrial: a container that kept exiting has to run for longer than the last time, at least a
// minute and at most ten, until it counts as well.
func TestOnTrial(t *testing.T) {
	for name, test := range map[string]struct {
		restarts     int32
		lasted, runs time.Duration
		left         time.Duration
	}{
		"just started again":            {2, 12 * time.Second, 5 * time.Second, 55 * time.Second},
		"almost":                        {2, 12 * time.Second, time.Minute - time.Second, time.Second},
		"for a minute":                  {2, 12 * time.Second, time.Minute, 0},
		"it ran for longer before that": {5, 4 * time.Minute, 3 * time.Minute, time.Minute},
		"it ran for days before that":   {5, 70 * time.Hour, 9 * time.Minute, time.Minute},
		"and is well again":             {5, 70 * time.Hour, 10 * time.Minute, 0},
		"a single exit":                 {1, 12 * time.Second, 5 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			started := noon.Add(-test.runs)
			status := upAgain(test.restarts, 1)
			status.Ready, status.State.Running.StartedAt = true, metav1.NewTime(started)
			ended := status.LastTerminationState.Terminated
			ended.StartedAt, ended.FinishedAt = metav1.NewTime(started.Add(-time.Second-test.lasted)), metav1.NewTime(started.Add(-time.Second))
			evidence := Evidence{Now: noon}
			evidence.Pods = append(evidence.Pods, healthy(), pod(status))
			problem, left := evidence.OnTrial()
			if left != test.left {
				t.Errorf("%s left, want %s", left, test.left)
			}
			const want = "1 of 2 pods: container webapp keeps exiting: Error, exit code 1" + keepsExiting
			if (problem != nil) != (test.left > 0) || problem != nil && problem.Message != want {
				t.Errorf("got %v", problem)
			}
			if found := FindProblem(evidence); found != nil {
				t.Errorf("it serves: %v", found)
			}
		})
	}
}
