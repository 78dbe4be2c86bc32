package workloadcontroller

import (
	"sync"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/metrics"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// rolling measures how long a change takes to reach the last pod of a workload. Nothing depends on
// it: its content is lost with the process, and then those restarts are not measured.
type rolling struct {
	mutex sync.Mutex
	// since is when the source changed that a workload was restarted for, by namespace.
	since map[string]map[workload.TargetRef]time.Time
}

func newRolling() *rolling {
	return &rolling{since: map[string]map[workload.TargetRef]time.Time{}}
}

// restarted records a restart for a change. If several follow before the pods are ready, the first
// one counts.
func (r *rolling) restarted(namespace string, target workload.TargetRef, changed time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.since[namespace] == nil {
		r.since[namespace] = map[workload.TargetRef]time.Time{}
	}
	if _, rolls := r.since[namespace][target]; !rolls {
		r.since[namespace][target] = changed
	}
}

// observe measures the workloads that have become ready, and forgets those that no longer exist.
func (r *rolling) observe(namespace string, snapshot workload.Snapshot, plan workload.RestartPlan, now time.Time) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	of := r.since[namespace]
	if len(of) == 0 {
		return
	}
	states := map[workload.TargetRef]workload.State{}
	for _, status := range plan.Statuses {
		ref := snapshot.Targets[status.Target].Ref
		if worse := states[ref]; worse == "" || worse == workload.UpToDate {
			states[ref] = status.State
		}
	}
	for target, changed := range of {
		switch states[target] {
		case workload.UpToDate:
			metrics.RolledOut(namespace, now.Sub(changed))
			delete(of, target)
		case "":
			delete(of, target)
		}
	}
	if len(of) == 0 {
		delete(r.since, namespace)
	}
}
