package configmonitor

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observed is what the report rests on.
type Observed struct {
	// Now is when it was read.
	Now time.Time
	// Source is what is watched.
	Source workload.Source
	// Snapshot is the namespace, with the strategy Rollout.
	Snapshot workload.Snapshot
	// Unasked tells that nobody has asked yet when the pods were made of workloads for which it matters.
	Unasked bool
	// Evictions is what became of the pods, with the strategy Evict; nil with Rollout.
	Evictions *Evictions
	// Failure is what kept pods from being evicted; nil if nothing did.
	Failure *plan.Failure
}

// maxSkipped is how many are named in the status; the schema's text says so.
const maxSkipped = 20

// lookUnasked is how soon to ask when pods were made. The controller of the workloads asks too, and then writes it down, but for those
// workloads that are held back: only these need be asked for.
const lookUnasked = 2 * time.Second

// soonest is the least time after which the status is computed anew without an event.
const soonest = time.Second

// Status is what a defaulted monitor has to say of itself, and after how long time alone changes it (0: never). It does not
// read the status that is there. Conditions come without times and generation: the loop adds them.
func Status(monitor *configv1.ConfigMonitor, observed Observed, result plan.Result) (configv1.ConfigMonitorStatus, time.Duration) {
	sum := add(monitor, observed)
	failure := cmp.Or(result.Failure, observed.Failure)
	judged := summarize(monitor, observed, sum, failure)
	status := configv1.ConfigMonitorStatus{
		ObservedGeneration: monitor.Generation,
		Source:             workload.SourceOfMonitor(&monitor.Spec).String(),
		Restarts:           sum.restarts,
		Matched:            count(sum.matched),
		UpToDate:           count(sum.upToDate),
		Skipped:            sum.skipped[:min(len(sum.skipped), maxSkipped)],
		LastRestart:        toTime(sum.lastRestart),
		Conditions:         judged.conditions(sum),
	}
	if observed.Source.State == workload.Present {
		status.LastChange = toTime(observed.Source.Changed)
	}
	if sum.again > 0 {
		sum.again = max(sum.again, soonest)
	}
	return status, sum.again
}

func count(n int) int32 { return int32(n) } //nolint:gosec // etcd does not hold that many

// toTime is a time as the API has it, to the second; nil for none.
func toTime(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.UTC().Truncate(time.Second)))
}

// What is counted.
const (
	unitWorkload = "workload"
	unitPod      = "pod"
)

// sum is what both strategies come to.
type totals struct {
	// unit is what is counted.
	unit              string
	matched, upToDate int
	restarts          int64
	lastRestart       time.Time
	// restarting, failed and blocked name those that are under way, came to nothing, or do not begin; each with what there
	// is to say.
	restarting []string
	failed     []string
	blocked    []string
	// waiting are those of skipped that time or others will let go, left those that stay as they are.
	waiting, left int
	skipped       []configv1.Skipped
	// putBack tells that the source is not as its AppConfig made it.
	putBack  bool
	flapping bool
	again    time.Duration
}

func add(monitor *configv1.ConfigMonitor, observed Observed) totals {
	if observed.Evictions != nil {
		return addEvictions(observed)
	}
	return addTargets(monitor, observed)
}

// addVerdicts sums up what becomes of the workloads because of the monitor's demand. A workload counts as up to date once that is written
// down on it: from then on no change is missed, however soon it comes.
func addTargets(monitor *configv1.ConfigMonitor, observed Observed) totals {
	s := totals{unit: unitWorkload}
	origin, source := workload.OriginOf(Kind, monitor.Name), workload.SourceOfMonitor(&monitor.Spec)
	decided := workload.Decide(observed.Snapshot, observed.Now)
	s.again = decided.RequeueAfter
	for _, verdict := range decided.Statuses {
		if observed.Snapshot.Demands[verdict.Demand].Origin != origin {
			continue
		}
		target := &observed.Snapshot.Targets[verdict.Target]
		seen := target.Stamp.Sources[source.String()]
		s.matched++
		s.restarts += seen.Restarts
		if seen.At != nil && seen.At.After(s.lastRestart) {
			s.lastRestart = *seen.At
		}
		s.flapping = s.flapping || verdict.Flapping
		if _, stamped := target.Stamp.Sources[source.String()]; verdict.State == workload.UpToDate && !stamped {
			verdict.State, verdict.Reason = workload.Waiting, configv1.SkippedBaseline
			verdict.Message = "it is being written down with which content its pods were started"
		}
		s.note(target.Ref.String(), verdict)
	}
	if observed.Unasked {
		s.requeueIn(lookUnasked)
	}
	slices.SortStableFunc(s.skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// look asks for another look in some time, unless one comes sooner.
func (s *totals) requeueIn(in time.Duration) {
	if s.again == 0 || in < s.again {
		s.again = in
	}
}

// note sorts one workload in.
func (s *totals) note(name string, verdict workload.TargetStatus) {
	skip := func() {
		s.skipped = append(s.skipped, configv1.Skipped{Name: name, Reason: verdict.Reason, Message: verdict.Message})
	}
	switch verdict.State {
	case workload.UpToDate:
		s.upToDate++
	case workload.Failed:
		s.failed = append(s.failed, name+": "+verdict.Message)
	case workload.Waiting:
		s.waiting++
		skip()
	case workload.Rolling:
		if verdict.Reason == workload.ReasonBlocked {
			s.blocked = append(s.blocked, name+": "+verdict.Message)
			skip()
			return
		}
		s.restarting = append(s.restarting, name)
	case workload.Left:
		// Absent sources, and those that may not be read, are told by a condition: it is the same for all.
		s.putBack = s.putBack || verdict.Reason == workload.ReasonEditedByHand
	}
}
