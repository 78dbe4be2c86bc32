package configmonitor

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observed is what decisions about a monitor depend on.
type Observed struct {
	// Now is when it was read.
	Now time.Time
	// Source is the watched source.
	Source workload.Source
	// Snapshot is the namespace, with the strategy Rollout.
	Snapshot workload.Snapshot
	// Causes are what keeps rollouts of the workloads from making progress, with the strategy Rollout;
	// nil while it has not been read.
	Causes workload.Causes
	// Unasked reports that the creation times of pod templates are needed and not known yet.
	Unasked bool
	// Pods are the selected pods, with the strategy Evict; nil while they are not read.
	Pods *[]corev1.Pod
	// Unreadable says why the pods can't be read; nil if they can, or were not read.
	Unreadable *plan.Failure
}

// maxSkipped limits the entries of status.skipped; the schema's description states the same number.
const maxSkipped = 20

// lookUnasked is how soon to read when pod templates were created. The workload controller reads it
// too, and stamps the workloads, except blocked ones: only for these it must be read again.
const lookUnasked = 2 * time.Second

// soonest is the minimum time after which the status is computed again without an event.
const soonest = time.Second

// Status returns the status of a defaulted monitor, and when it changes with time alone (0: never).
// It does not read the previous status. The reconciler adds times and the generation to the
// conditions.
func Status(monitor *configv1.ConfigMonitor, observed Observed, decided Decision, result plan.Result) (configv1.ConfigMonitorStatus,
	time.Duration) {
	sum := add(monitor, observed, decided)
	about := &subject{totals: sum, monitor: monitor, source: SourceOf(&monitor.Spec), seen: &observed.Source}
	status := configv1.ConfigMonitorStatus{
		ObservedGeneration: monitor.Generation,
		Source:             about.source.String(),
		Restarts:           sum.restarts,
		Matched:            count(sum.matched),
		UpToDate:           count(sum.upToDate),
		Skipped:            sum.skipped[:min(len(sum.skipped), maxSkipped)],
		LastRestart:        toTime(sum.lastRestart),
		Conditions:         about.conditions(cmp.Or(result.Failure, decided.Failure)),
	}
	status.Phase = summary.Phase(status.Conditions)
	if observed.Source.State == workload.Present {
		status.LastChange = toTime(observed.Source.Changed)
	}
	if sum.requeueAfter > 0 {
		sum.requeueAfter = max(sum.requeueAfter, soonest)
	}
	return status, sum.requeueAfter
}

func count(n int) int32 { return int32(n) } //nolint:gosec // etcd does not hold that many

// toTime returns a time as in the API, in whole seconds; nil for the zero time.
func toTime(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	return new(metav1.NewTime(at.UTC().Truncate(time.Second)))
}

// The units that are counted.
const (
	unitWorkload = "workload"
	unitPod      = "pod"
)

// totals sums up either strategy.
type totals struct {
	// unit is what is counted.
	unit              string
	matched, upToDate int
	restarts          int64
	lastRestart       time.Time
	// there names the workloads of the namespace, with the strategy Rollout, sorted by name.
	there []string
	// restarting, failed, refused and blocked name what is being restarted, did not become ready, may
	// not restart, or does not start restarting; all but the first with the cause.
	restarting []string
	// cause is what is wrong with the pods of the first of broken, which makes no progress; broken are
	// named with the cause.
	cause  *workload.Problem
	broken []string
	// due is to be restarted now, by the workload controller.
	due []string
	// starting names the workloads whose pods are replaced or started by their owner.
	starting []string
	failed   []string
	refused  []string
	blocked  []string
	// waiting is the number of skipped ones that will be restarted later, left the number of those
	// that will not.
	waiting, left int
	skipped       []configv1.Skipped
	// putBack reports that the source was edited and its owner is reverting it.
	putBack bool
	// isFlapping reports that the source changes too often.
	isFlapping   bool
	requeueAfter time.Duration
}

func add(monitor *configv1.ConfigMonitor, observed Observed, decided Decision) totals {
	if decided.Evictions != nil {
		return addEvictions(decided.Evictions)
	}
	return addTargets(monitor, observed, decided.Restarts)
}

// addTargets sums up the workloads that the monitor's demand applies to. A workload counts as up to
// date once it is stamped: from then on no change is missed, however soon it comes.
func addTargets(monitor *configv1.ConfigMonitor, observed Observed, restarts workload.RestartPlan) totals {
	s := totals{unit: unitWorkload}
	origin, source := workload.OriginOf(Kind, monitor.Name), SourceOf(&monitor.Spec)
	s.requeueAfter = restarts.RequeueAfter
	due := dueIn(restarts)
	for i := range observed.Snapshot.Targets {
		s.there = append(s.there, observed.Snapshot.Targets[i].Ref.String())
	}
	for _, status := range restarts.Statuses {
		if observed.Snapshot.Demands[status.Demand].Origin != origin {
			continue
		}
		target := &observed.Snapshot.Targets[status.Target]
		seen := target.Stamp.Sources[source.String()]
		s.matched++
		s.restarts += seen.Restarts
		if seen.At != nil && seen.At.After(s.lastRestart) {
			s.lastRestart = *seen.At
		}
		s.isFlapping = s.isFlapping || status.Flapping
		if _, stamped := target.Stamp.Sources[source.String()]; status.State == workload.UpToDate && !stamped {
			status.State, status.Reason = workload.Waiting, configv1.SkippedBaseline
			status.Message = "the content that its pods were started with is being recorded"
		}
		s.blame(target.Ref.String(), &status, observed.Causes)
		isRolling := status.State == workload.Rolling && status.Reason == workload.ReasonRolling
		switch {
		case isRolling && due[status.Target]:
			s.due = append(s.due, target.Ref.String())
		case isRolling && status.IsOwners:
			s.starting = append(s.starting, target.Ref.String())
		default:
			s.note(target.Ref.String(), status)
		}
	}
	_, look := restarts.Suspects(&observed.Snapshot, origin, observed.Now)
	s.requeueAfter = requeue.Sooner(s.requeueAfter, look)
	if observed.Unasked {
		s.requeueAfter = requeue.Sooner(s.requeueAfter, lookUnasked)
	}
	slices.SortStableFunc(s.skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

// blame adds what is wrong with the pods of a workload to its status.
func (s *totals) blame(name string, status *workload.TargetStatus, causes workload.Causes) {
	cause, known := causes[status.Target]
	if !known || status.State != workload.Rolling && status.State != workload.Failed {
		return
	}
	status.Message += causes.Detail(status.Target)
	if status.State == workload.Rolling {
		s.broken = append(s.broken, name+": "+status.Message)
		if s.cause == nil {
			s.cause = &cause
		}
	}
}

// dueIn returns the targets that are to be restarted now.
func dueIn(restarts workload.RestartPlan) map[int]bool {
	due := map[int]bool{}
	for _, patch := range restarts.Patches {
		due[patch.Target] = patch.RestartedFor != ""
	}
	return due
}

// note counts one workload.
func (s *totals) note(name string, status workload.TargetStatus) {
	skip := func() {
		s.skipped = append(s.skipped, configv1.Skipped{Name: name, Reason: status.Reason, Message: status.Message})
	}
	switch status.State {
	case workload.UpToDate:
		s.upToDate++
	case workload.Failed:
		s.failed = append(s.failed, name+": "+status.Message)
	case workload.Waiting:
		if status.Reason == workload.ReasonRefused {
			s.refused = append(s.refused, name+": "+status.Message)
		}
		s.waiting++
		skip()
	case workload.Rolling:
		if status.Reason == workload.ReasonBlocked {
			s.blocked = append(s.blocked, name+": "+status.Message)
			skip()
			return
		}
		s.restarting = append(s.restarting, name)
	case workload.Left:
		// A condition reports absent sources and those that may not be read: they are the same for all.
		s.putBack = s.putBack || status.Reason == workload.ReasonEditedByHand
	}
}
