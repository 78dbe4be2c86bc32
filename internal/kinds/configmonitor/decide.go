package configmonitor

import (
	"slices"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Decision is what to do for a monitor.
type Decision struct {
	// Restarts is the plan of the namespace, with the strategy Rollout. The workload controller
	// carries it out; the monitor only reports it.
	Restarts workload.RestartPlan
	// ReadPods asks for the selected pods, with the strategy Evict: nothing is decided without them.
	ReadPods bool
	// Evictions is what to do about the pods, with the strategy Evict, and what became of it once it
	// was carried out; nil with Rollout.
	Evictions *Evictions
	// Failure is why pods could not be evicted; nil if nothing failed.
	Failure *plan.Failure
}

// Decide decides by the first row that applies:
//
//	strategy   observed                           decision
//	Rollout    -                                  the restarts of the namespace
//	Evict      the spec is invalid                nothing
//	Evict      there is nothing to compare, or    what to report (see Rest)
//	             everything is done
//	Evict      the pods are not read yet          read them
//	Evict      the pods can't be read             nothing, and the failure
//	Evict      the pods                           the evictions (see DecideEvictions)
func Decide(monitor *configv1.ConfigMonitor, observed Observed) Decision {
	if monitor.Spec.Strategy != configv1.StrategyEvict {
		return Decision{Restarts: workload.Decide(observed.Snapshot, observed.Now)}
	}
	if len(Validate(monitor)) > 0 {
		return Decision{Evictions: &Evictions{}}
	}
	record := ParseRecord(monitor.Annotations[configv1.AnnotationEvicted])
	if atRest, rests := Rest(&monitor.Spec, observed.Source, record, observed.Now); rests {
		return Decision{Evictions: &atRest}
	}
	switch {
	case observed.Unreadable != nil:
		return Decision{Evictions: &Evictions{Record: record}, Failure: observed.Unreadable}
	case observed.Pods == nil:
		return Decision{ReadPods: true, Evictions: &Evictions{Record: record}}
	}
	evictions := DecideEvictions(&monitor.Spec, observed.Source, record, *observed.Pods, observed.Now)
	return Decision{Evictions: &evictions}
}

// Suspects returns the targets of the monitor whose pods are worth reading, by their index in the
// snapshot.
func (d Decision) Suspects(monitor *configv1.ConfigMonitor, observed *Observed) []int {
	suspects, _ := d.Restarts.Suspects(&observed.Snapshot, workload.OriginOf(Kind, monitor.Name), observed.Now)
	return suspects
}

// AskedTargets returns the targets of the monitor whose pods' start has to be read before it is
// known whether they run the present content, by their index in the snapshot.
func (d Decision) AskedTargets(monitor *configv1.ConfigMonitor, snapshot *workload.Snapshot) []int {
	var asked []int
	origin := workload.OriginOf(Kind, monitor.Name)
	for _, status := range d.Restarts.Statuses {
		if snapshot.Demands[status.Demand].Origin == origin && slices.Contains(d.Restarts.Ask, status.Target) {
			asked = append(asked, status.Target)
		}
	}
	return asked
}
