package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

const (
	// shortestTrial is how long a container that has kept exiting must at least run before it counts
	// as well again.
	shortestTrial = time.Minute
	// longestTrial is the time after which the kubelet forgets a container's back-off
	// (MaxContainerBackOff doubled, pkg/kubelet/kubelet.go).
	longestTrial = 10 * time.Minute
)

// OnTrial returns the problem of pods that are ready, but have a container that kept exiting and
// has not run for long since, and when that is over. Otherwise a container that is ready for some
// time between two exits would be reported well and crashing in turns. It returns nil and 0 if
// there is none. FindProblem does not return such a problem, since the pods serve.
func (e Evidence) OnTrial() (*Problem, time.Duration) {
	counts, living := map[Problem]int{}, 0
	var left time.Duration
	for i := range e.Pods {
		pod := &e.Pods[i]
		if !isLiving(pod) {
			continue
		}
		living++
		for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			until := trialUntil(&status)
			if !until.After(e.Now) {
				continue
			}
			left = requeue.Sooner(left, until.Sub(e.Now))
			counts[*crashLoop(&status, status.LastTerminationState.Terminated, e.Notes[status.Name])]++
			break
		}
	}
	return mostImportant(counts, living), left
}

// trialUntil returns when a container that kept exiting has run for longer than the last time, and
// so counts as well again; zero if it is not running, or has exited only once.
func trialUntil(status *corev1.ContainerStatus) time.Time {
	ended := status.LastTerminationState.Terminated
	if status.State.Running == nil || ended == nil || status.RestartCount < 2 {
		return time.Time{}
	}
	lasted := ended.FinishedAt.Sub(ended.StartedAt.Time)
	return status.State.Running.StartedAt.Add(min(max(lasted, shortestTrial), longestTrial))
}
