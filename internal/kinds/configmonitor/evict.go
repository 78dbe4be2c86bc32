package configmonitor

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// pollUnderWay is how soon to read pods again that are being replaced: they are not watched.
	pollUnderWay = 2 * time.Second
	// pollBudget is how soon to try again after a PodDisruptionBudget's refusal. The API server itself
	// asks for that delay.
	pollBudget = 10 * time.Second
	// pollLeft is how soon to read again what only other clients can change.
	pollLeft = time.Minute
	// comesBack is the time within which a controller recreates a pod. A pod that is missing for
	// longer was scaled away.
	comesBack = 30 * time.Second
)

// MaxFailed limits the failed evictions in one pass: if a right is missing, or the network, they
// all fail. It also limits for how many pods that a PodDisruptionBudget protects others are tried:
// the budget may protect them all, and for each attempt the API server reads the pod and the
// budgets.
const MaxFailed = 10

// Victim is a pod to be evicted.
type Victim struct {
	Name string
	UID  types.UID
}

// name returns the pod's name for messages.
func (v Victim) name() string { return "Pod/" + v.Name }

// Evictions is what to do about the pods of a monitor, and what to report about them.
type Evictions struct {
	// Record must be written before anything is evicted, unless it is stored already.
	Record Record
	// Evict are the pods to evict now. Instead are pods that wait only for those: one of them takes
	// the place of each that can't be evicted.
	Evict, Instead []Victim
	// Matched is the number of selected pods, and UpToDate the number of them that run the present
	// content.
	Matched, UpToDate int
	// Skipped are older pods that are not evicted, or not now.
	Skipped []configv1.Skipped
	// Restarting names pods that are evicted, are terminating, or were recreated and are not ready
	// yet; Failed those that do not become ready.
	Restarting, Failed []string
	// Waiting is the number of skipped pods that will be evicted later, and Left the number of those
	// that will not.
	Waiting, Left int
	// PutBack reports that the source was edited and its owner is reverting it.
	PutBack bool
	// Flapping reports that pods were evicted repeatedly in close succession.
	Flapping bool
	// RequeueAfter is when to reconcile again; 0 means that nothing changes with time alone.
	RequeueAfter time.Duration
}

// Rest reports whether the pods need not be read, and what to report in that case: nothing can be
// compared, or everything is done.
func Rest(spec *configv1.ConfigMonitorSpec, source workload.Source, record Record, now time.Time) (Evictions, bool) {
	e := Evictions{Record: record, Matched: record.Pods}
	if source.State != workload.Present {
		return e, true
	}
	if source.IsEdited() {
		e.PutBack = true
		return e, true
	}
	if !record.Done || !record.isFor(spec, &source) || record.Hash != contentOf(spec, &source) {
		return Evictions{}, false
	}
	e.UpToDate = record.Pods
	e.notice(spec, now)
	return e, true
}

// DecideEvictions decides which pods to evict now. The record says for which content pods were
// evicted last:
//
//	present content      record      result
//	equals the record's  -           the pods that are older than the content are evicted, as
//	                                 many at a time as allowed
//	differs, and no pod
//	  is older than it   -           it is recorded
//	differs              of earlier  it is recorded, once cooldown and debounce are over and the
//	                     content     window is open
//	differs              none        the same; only the source says when its data last changed,
//	                                 in whole seconds
//
// Changes that are reverted before they are recorded have no effect.
func DecideEvictions(spec *configv1.ConfigMonitorSpec, source workload.Source, record Record, all []corev1.Pod, now time.Time) Evictions {
	e := Evictions{Record: record}
	if !record.isFor(spec, &source) || record.Hash != contentOf(spec, &source) {
		next := record.next(spec, &source, present(all))
		sorted := sortPods(spec, next, all)
		if len(sorted.evictable) > 0 {
			if reason, message, until := record.blockedUntil(spec, &source, now); until > 0 {
				e.count(sorted)
				e.wait(sorted.evictable, reason, message)
				e.requeueIn(until)
				e.notice(spec, now)
				return e
			}
			next = next.begin(record, spec, now)
		}
		next.Pods = sorted.running
		e.Record = next
	}
	sorted := sortPods(spec, e.Record, all)
	// Pods that have come since count as well: for each of them, one more could be missing otherwise.
	e.Record.Pods = max(e.Record.Pods, sorted.running)
	e.choose(spec, sorted, now)
	e.notice(spec, now)
	return e
}

// next returns the record of the present content of the source.
//
// If no earlier content is known, a pod that was created in the second of the change counts as
// younger: usually all were created together. If the source has changed since it was last read,
// such a pod counts as older if it exists. If the source's change time is not later than the
// recorded one (its managed fields are gone, or both changes came within one second), no existing
// pod is known to run the content.
func (r Record) next(spec *configv1.ConfigMonitorSpec, source *workload.Source, running []*corev1.Pod) Record {
	next := Record{Of: watched(spec), Hash: contentOf(spec, source), Changed: source.Changed.UTC().Truncate(time.Second), Evicted: r.Evicted,
		At: r.At}
	if !r.isFor(spec, source) {
		return next
	}
	if !next.Changed.After(r.Changed) {
		next.Changed = r.Changed
		if youngest := newest(running); youngest.After(next.Changed) {
			next.Changed = youngest.UTC()
		}
	}
	next.Same = createdAt(running, next.Changed)
	return next
}

// begin records that pods are evicted for a content.
func (r Record) begin(before Record, spec *configv1.ConfigMonitorSpec, now time.Time) Record {
	r.Began, r.Streak = new(now.UTC().Truncate(time.Millisecond)), 1
	if before.Began != nil && now.Sub(*before.Began) < workload.InCloseSuccession(spec.Cooldown.Duration) {
		r.Streak = before.Streak + 1
	}
	return r
}

// blockedUntil returns why no pod may be evicted yet for a content other than the recorded one, and
// for how long; 0 if nothing blocks it.
func (r Record) blockedUntil(spec *configv1.ConfigMonitorSpec, source *workload.Source, now time.Time) (reason, message string,
	until time.Duration) {
	last := r.latest()
	cooldown := spec.Cooldown.Duration
	if r.Streak >= workload.FlappingFrom {
		cooldown = max(cooldown, workload.DefaultCooldown)
	}
	if end := last.Add(cooldown); !last.IsZero() && end.After(now) {
		return configv1.SkippedCooldown, "cooling down after the last evictions until " + clock(end), end.Sub(now)
	}
	if r.Began != nil && r.isFor(spec, source) {
		if end := r.Began.Add(spec.Debounce.Duration); end.After(now) {
			return configv1.SkippedDebounce, "collecting further changes until " + clock(end), end.Sub(now)
		}
	}
	return closed(spec.Window, now)
}

func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// closed returns for how long a window stays closed, and why that matters; 0 if it is open.
func closed(window *rolloutv1.Window, now time.Time) (reason, message string, until time.Duration) {
	message, until = rollout.Closed(window, now)
	if until == 0 {
		return "", "", 0
	}
	return string(rollout.OutsideWindow), message, until
}

// count counts the pods, and adds those that are never evicted.
func (e *Evictions) count(sorted pods) {
	e.Matched, e.UpToDate = sorted.running, sorted.current
	e.Skipped, e.Left = slices.Clone(sorted.left), len(sorted.left)
}

// wait adds pods that are not evicted now.
func (e *Evictions) wait(those []pod, reason, message string) {
	for _, p := range those {
		e.Skipped = append(e.Skipped, configv1.Skipped{Name: p.name(), Reason: reason, Message: message})
		e.Waiting++
	}
	slices.SortFunc(e.Skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
}

// requeueIn requeues after a time, unless a requeue is due sooner.
func (e *Evictions) requeueIn(in time.Duration) {
	e.RequeueAfter = requeue.Sooner(e.RequeueAfter, in)
}

// choose chooses the pods to evict now for the recorded content.
func (e *Evictions) choose(spec *configv1.ConfigMonitorSpec, sorted pods, now time.Time) {
	e.count(sorted)
	busy := e.busy(sorted, now)
	underWay := e.Record.Began != nil && (len(sorted.terminating) > 0 || busy > 0)
	if underWay {
		e.Restarting = slices.Concat(sorted.terminating, sorted.unready)
		e.requeueIn(e.fail(sorted, now))
	}
	going := inTurns(sorted.evictable, spec.MaxParallel, now)
	if reason, message, until := closed(spec.Window, now); until > 0 && len(going) > 0 {
		e.wait(going, reason, message)
		e.requeueIn(until)
		going = nil
	}
	if limit := spec.MaxParallel; limit != nil && len(going) > 0 {
		free := min(max(int(*limit)-busy, 0), len(going))
		e.wait(going[free:], string(rollout.WaitingForOthers), fmt.Sprintf("waiting: at most %d pods are restarted at a time "+
			"(maxParallel)", *limit))
		if free > 0 {
			e.Instead = victims(going[free:])
		}
		going = going[:free]
	}
	e.Evict = victims(going)
	for _, p := range going {
		e.Restarting = append(e.Restarting, p.name())
		e.requeueIn(pollUnderWay)
	}
	switch {
	case len(sorted.evictable) == 0 && !underWay && e.Left == 0 && sorted.running > 0:
		e.Record.Done, e.Record.Pods, e.Record.Same = true, sorted.running, nil
	case e.RequeueAfter == 0:
		e.requeueIn(pollLeft)
	}
}

// busy returns how many pods are being replaced: they are missing, or were recreated and are not
// ready yet.
func (e *Evictions) busy(sorted pods, now time.Time) int {
	if e.Record.Began == nil {
		return 0
	}
	missing := max(0, e.Record.Pods-sorted.running)
	if now.Sub(e.Record.latest()) >= comesBack {
		missing = min(missing, len(sorted.terminating))
	}
	return missing + len(sorted.unready)
}

// fail adds pods that do not become ready in time, and returns how soon to read again: less often
// after that time, also for pods that do not terminate.
func (e *Evictions) fail(sorted pods, now time.Time) time.Duration {
	timeout := rollout.Timeout(rolloutv1.Policy{})
	if now.Sub(e.Record.latest()) < timeout {
		return pollUnderWay
	}
	if len(sorted.unready) > 0 {
		e.Failed = []string{fmt.Sprintf("%s: not ready %s after pods were evicted", conditions.FirstFew(sorted.unready, ", "), timeout)}
	}
	return pollLeft
}

// notice sets Flapping, and requeues for when that ends.
func (e *Evictions) notice(spec *configv1.ConfigMonitorSpec, now time.Time) {
	if e.Record.Streak < workload.FlappingFrom || e.Record.Began == nil {
		return
	}
	if end := e.Record.Began.Add(workload.InCloseSuccession(spec.Cooldown.Duration)); end.After(now) {
		e.Flapping = true
		e.requeueIn(end.Sub(now))
	}
}

// victims returns pods as victims.
func victims(of []pod) []Victim {
	var all []Victim
	for _, p := range of {
		all = append(all, Victim{Name: p.Name, UID: p.UID})
	}
	return all
}

// BlockedByBudget records that a PodDisruptionBudget does not allow the eviction.
func (e *Evictions) BlockedByBudget(victim Victim, why string) {
	e.blocked(victim, configv1.SkippedDisruptionBudget, why, pollBudget)
}

// BlockedByFailure records that a victim could not be evicted. why is the API server's message.
func (e *Evictions) BlockedByFailure(victim Victim, why string) {
	e.blocked(victim, configv1.SkippedEvictionFailed, why, pollLeft)
}

// BlockedByOthers records that the eviction of a victim was not tried because of other evictions.
func (e *Evictions) BlockedByOthers(victim Victim, why string) {
	e.blocked(victim, string(rollout.WaitingForOthers), why, pollBudget)
}

// BlockedByBudgets records that no more evictions are tried in this pass, because
// PodDisruptionBudgets have forbidden too many: neither those of rest, nor those of Instead. All of
// these and the forbidden ones get the same reason and message: each pass tries others, and the
// status must not change each time. The next pass is after pollBudget, even while other pods are
// being replaced.
func (e *Evictions) BlockedByBudgets(rest []Victim, why string) {
	waits := map[string]bool{}
	for _, victim := range rest {
		waits[victim.name()] = true
		e.Skipped = append(e.Skipped, configv1.Skipped{Name: victim.name()})
		e.Waiting++
	}
	e.Restarting = slices.DeleteFunc(e.Restarting, func(name string) bool { return waits[name] })
	for _, victim := range e.Instead {
		waits[victim.name()] = true
	}
	for i := range e.Skipped {
		skipped := &e.Skipped[i]
		if waits[skipped.Name] || skipped.Reason == configv1.SkippedDisruptionBudget {
			skipped.Reason, skipped.Message = configv1.SkippedDisruptionBudget, why
		}
	}
	slices.SortFunc(e.Skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	if e.RequeueAfter == pollUnderWay {
		e.RequeueAfter = pollBudget
	}
}

// blocked records that a victim is not evicted now, and why.
func (e *Evictions) blocked(victim Victim, reason, why string, after time.Duration) {
	e.Restarting = slices.DeleteFunc(e.Restarting, func(other string) bool { return other == victim.name() })
	e.Skipped = append(e.Skipped, configv1.Skipped{Name: victim.name(), Reason: reason, Message: why})
	slices.SortFunc(e.Skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	e.Waiting++
	if len(e.Restarting) == 0 && e.RequeueAfter == pollUnderWay {
		e.RequeueAfter = 0
	}
	e.requeueIn(after)
}

// Replace returns the pod that takes the place of one that can't be evicted; false if none waits.
func (e *Evictions) Replace() (Victim, bool) {
	if len(e.Instead) == 0 {
		return Victim{}, false
	}
	next := e.Instead[0]
	e.Instead = e.Instead[1:]
	e.Skipped = slices.DeleteFunc(e.Skipped, func(skipped configv1.Skipped) bool { return skipped.Name == next.name() })
	e.Waiting--
	e.Restarting = append(e.Restarting, next.name())
	e.requeueIn(pollUnderWay)
	return next, true
}

// addEvictions sums up the evictions.
func addEvictions(e *Evictions) totals {
	s := totals{
		unit: unitPod, matched: e.Matched, upToDate: e.UpToDate, restarts: e.Record.Evicted,
		restarting: e.Restarting, failed: e.Failed, waiting: e.Waiting, left: e.Left, skipped: e.Skipped,
		putBack: e.PutBack, isFlapping: e.Flapping, requeueAfter: e.RequeueAfter,
	}
	if e.Record.At != nil {
		s.lastRestart = *e.Record.At
	}
	return s
}
