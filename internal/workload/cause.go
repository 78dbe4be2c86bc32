package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// Causes are what keeps the rollouts of targets from making progress, by the targets' index.
type Causes map[int]Problem

// Detail returns ": " and what is wrong with the pods of a target; empty if nothing is known.
func (c Causes) Detail(target int) string {
	if cause, known := c[target]; known {
		return ": " + cause.Message
	}
	return ""
}

const (
	// rolloutPatience is how long a rollout may make no progress before the pods are read. Images are
	// pulled, and containers become ready, in less.
	rolloutPatience = 30 * time.Second
	// lookDue is how soon to look at a target that is to be restarted now: whether the API server lets
	// it. No event says that it does not.
	lookDue = 2 * time.Second
	// lookRefused is how soon to look at one whose restart was refused: for the next answer.
	lookRefused = time.Minute
	// maxSuspects limits how many targets' pods are read in one reconcile of an object.
	maxSuspects = 3
)

// Suspects returns the targets of one origin whose pods are worth reading, by their index: those of
// rollouts that have made no progress for a time, or have failed. requeueAfter is when there will
// be more, or when to read them again, since a status of a workload does not change when its pods
// begin to fail, nor when a restart is refused; 0 means never. The pauses double, as those of
// Evidence.RequeueAfter. Where nothing rolls out, there is nothing to read.
func (p RestartPlan) Suspects(snapshot *Snapshot, origin string, now time.Time) (targets []int, requeueAfter time.Duration) {
	for _, status := range p.Statuses {
		if snapshot.Demands[status.Demand].Origin != origin {
			continue
		}
		if status.Reason == ReasonRefused {
			requeueAfter = requeue.Sooner(requeueAfter, lookRefused)
			continue
		}
		isRolling := status.State == Rolling && status.Reason == ReasonRolling || status.State == Failed
		if !isRolling || slices.Contains(targets, status.Target) {
			continue
		}
		if p.isDue(status.Target) {
			requeueAfter = requeue.Sooner(requeueAfter, lookDue)
			continue
		}
		age := now.Sub(snapshot.Targets[status.Target].changed())
		if age < rolloutPatience {
			requeueAfter = requeue.Sooner(requeueAfter, rolloutPatience-age)
			continue
		}
		requeueAfter = requeue.Sooner(requeueAfter, pause(age, rolloutPatience))
		if len(targets) < maxSuspects {
			targets = append(targets, status.Target)
		}
	}
	return targets, requeueAfter
}

// isDue reports whether a target is to be restarted now: its pods are those from before.
func (p RestartPlan) isDue(target int) bool {
	return slices.ContainsFunc(p.Patches, func(patch TargetPatch) bool { return patch.Target == target && patch.RestartedFor != "" })
}

// changed returns when the rollout of a target last changed, as far as is known.
func (t *Target) changed() time.Time {
	at := later(t.Created, t.Rolled.Progressed)
	if t.Stamp.RestartedAt != nil {
		at = later(at, *t.Stamp.RestartedAt)
	}
	return at
}

// Cause returns what is wrong with the pods of a target, in a bounded text; nil if nothing is.
func (t *Target) Cause(pods []corev1.Pod, now time.Time) *Problem {
	evidence := Evidence{Pods: pods, Now: now}
	if t.Stamp.RestartedAt != nil {
		evidence.Changed = *t.Stamp.RestartedAt
	}
	for i := range pods {
		evidence.Containers = append(evidence.Containers, slices.Concat(pods[i].Spec.InitContainers, pods[i].Spec.Containers)...)
	}
	problem := FindProblem(evidence)
	if problem != nil {
		problem.Message = short(problem.Message)
	}
	return problem
}
