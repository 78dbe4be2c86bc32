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
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	// pollUnderWay is how soon to look again at pods that are being replaced: nobody watches them.
	pollUnderWay = 2 * time.Second
	// pollBudget is how soon to ask again after a PodDisruptionBudget's refusal. The API server itself asks for as much.
	pollBudget = 10 * time.Second
	// pollLeft is how soon to look again at what only somebody else can change.
	pollLeft = time.Minute
	// comesBack is within which time a controller has made a pod anew. A pod that is missing for longer was scaled away.
	comesBack = 30 * time.Second
)

// Victim is a pod that is to be evicted.
type Victim struct {
	Name string
	UID  types.UID
}

// name is the pod's, for people.
func (v Victim) name() string { return "Pod/" + v.Name }

// Evictions is what to do about the pods of a monitor, and what there is to say about them.
type Evictions struct {
	// Record has to be written before anything is evicted, unless it is already.
	Record Record
	// Evict are the pods that go now. Instead are those that wait only for them: one of them goes in the place of each that can't.
	Evict, Instead []Victim
	// Matched is how many pods are selected, and UpToDate how many of them run the present content.
	Matched, UpToDate int
	// Skipped are older pods that do not go, or not now.
	Skipped []configv1.Skipped
	// Restarting names pods that go, are going, or have come and are not ready; Failed those that do not become ready.
	Restarting, Failed []string
	// Waiting is how many of the skipped will go by and by, and Left how many will not.
	Waiting, Left int
	// PutBack tells that the source is not as its AppConfig made it.
	PutBack bool
	// Flapping tells that pods were evicted again and again, each time soon after the last.
	Flapping bool
	// Again is after how long to look again; 0 means that nothing changes by time alone.
	RequeueAfter time.Duration
}

// Rest tells whether nobody has to look at the pods, and what there is to say then: nothing can be compared, or all has been
// done.
func Rest(spec *configv1.ConfigMonitorSpec, source workload.Source, record Record, now time.Time) (Evictions, bool) {
	e := Evictions{Record: record, Matched: record.Pods}
	if source.State != workload.Present {
		return e, true
	}
	if source.Declared != "" && source.Declared != source.All() {
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

// DecideEvictions says which pods go now. The record tells for which content pods were evicted last:
//
//	what the source holds       the record    then
//	what the record tells       -             those of the pods go that are older than the content, as many at a time as may
//	something else, and no pod
//	  is older than it          -             it is recorded
//	something else              of an earlier it is recorded, once cooldown and debounce are over and the window is open
//	something else              none          the same; only the source tells when its data changed last, to the second
//
// Changes that are taken back before they are recorded leave no trace.
func DecideEvictions(spec *configv1.ConfigMonitorSpec, source workload.Source, record Record, all []corev1.Pod, now time.Time) Evictions {
	e := Evictions{Record: record}
	if !record.isFor(spec, &source) || record.Hash != contentOf(spec, &source) {
		next := record.next(spec, &source, present(all))
		sorted := sortPods(spec, next, all)
		if len(sorted.evictable) > 0 {
			if reason, message, until := record.holds(spec, &source, now); until > 0 {
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
	e.choose(spec, sortPods(spec, e.Record, all), now)
	e.notice(spec, now)
	return e
}

// next is the record of the content that the source has.
//
// Where nothing is known of an earlier content, a pod counts as younger that was created in the second of the change: most often all
// of them were made together. Where the source has changed since it was looked at, such a pod is older if it is there.
// If the source does not tell of a later change than the one that is recorded (its managed fields are gone, or both came within
// one second), no pod that is there can be known to run it.
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

// begin notes that pods are evicted for a content.
func (r Record) begin(before Record, spec *configv1.ConfigMonitorSpec, now time.Time) Record {
	r.Began, r.Streak = new(now.UTC().Truncate(time.Millisecond)), 1
	if before.Began != nil && now.Sub(*before.Began) < workload.InCloseSuccession(spec.Cooldown.Duration) {
		r.Streak = before.Streak + 1
	}
	return r
}

// holds tells why no pod may go yet for another content than the recorded one, and for how long; 0 if nothing holds it.
func (r Record) holds(spec *configv1.ConfigMonitorSpec, source *workload.Source, now time.Time) (reason, message string,
	until time.Duration) {
	var last time.Time
	for _, at := range []*time.Time{r.Began, r.At} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	cooldown := spec.Cooldown.Duration
	if r.Streak >= workload.FlappingFrom {
		cooldown = max(cooldown, workload.DefaultCooldown)
	}
	if end := last.Add(cooldown); !last.IsZero() && end.After(now) {
		return configv1.SkippedCooldown, "pods were evicted a moment ago: cooling down until " + clock(end), end.Sub(now)
	}
	if r.Began != nil && r.isFor(spec, source) {
		if end := r.Began.Add(spec.Debounce.Duration); end.After(now) {
			return configv1.SkippedDebounce, "further changes are collected until " + clock(end), end.Sub(now)
		}
	}
	return closed(spec.Window, now)
}

func clock(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// closed tells for how long a window stays closed; 0 if it is open. One that never opens is looked at each minute.
func closed(window *rolloutv1.Window, now time.Time) (reason, message string, until time.Duration) {
	open, change, err := rollout.Open(window, now)
	switch {
	case err == nil && open:
		return "", "", 0
	case err != nil || change == 0:
		return string(rollout.OutsideWindow), "waits for the maintenance window, which never opens", pollLeft
	default:
		return string(rollout.OutsideWindow), "waits for the maintenance window, which opens " + now.Add(change).UTC().Format("2006-01-02 15:04 MST"), change
	}
}

// count notes how many pods there are, and what is never evicted.
func (e *Evictions) count(sorted pods) {
	e.Matched, e.UpToDate = sorted.running, sorted.current
	e.Skipped, e.Left = slices.Clone(sorted.left), len(sorted.left)
}

// wait notes pods that do not go now.
func (e *Evictions) wait(those []pod, reason, message string) {
	for _, p := range those {
		e.Skipped = append(e.Skipped, configv1.Skipped{Name: p.name(), Reason: reason, Message: message})
		e.Waiting++
	}
	slices.SortFunc(e.Skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
}

// look asks for another look in some time, unless one comes sooner.
func (e *Evictions) requeueIn(in time.Duration) {
	if e.RequeueAfter == 0 || in < e.RequeueAfter {
		e.RequeueAfter = in
	}
}

// choose says which pods go now for the content that is recorded.
func (e *Evictions) choose(spec *configv1.ConfigMonitorSpec, sorted pods, now time.Time) {
	e.count(sorted)
	busy := e.busy(sorted, now)
	underWay := e.Record.Began != nil && (len(sorted.terminating) > 0 || busy > 0)
	if underWay {
		e.Restarting = slices.Concat(sorted.terminating, sorted.unready)
		e.requeueIn(e.fail(sorted, now))
	}
	going := sorted.evictable
	if reason, message, until := closed(spec.Window, now); until > 0 && len(going) > 0 {
		e.wait(going, reason, message)
		e.requeueIn(until)
		going = nil
	}
	if limit := spec.MaxParallel; limit != nil && len(going) > 0 {
		free := min(max(int(*limit)-busy, 0), len(going))
		e.wait(going[free:], string(rollout.WaitingForOthers), fmt.Sprintf("waits its turn: at most %d pods are restarted at one time", *limit))
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

// busy is how many pods are being replaced: they are missing, or have come and are not ready.
func (e *Evictions) busy(sorted pods, now time.Time) int {
	if e.Record.Began == nil {
		return 0
	}
	missing := max(0, e.Record.Pods-sorted.running)
	if e.Record.At == nil || now.Sub(*e.Record.At) >= comesBack {
		missing = min(missing, len(sorted.terminating))
	}
	return missing + len(sorted.unready)
}

// fail notes pods that do not become ready in time, and says how soon to look again: after that time it is more seldom, also at those
// that do not end.
func (e *Evictions) fail(sorted pods, now time.Time) time.Duration {
	since := *e.Record.Began
	if e.Record.At != nil && e.Record.At.After(since) {
		since = *e.Record.At
	}
	timeout := rollout.Timeout(rolloutv1.Policy{})
	if now.Sub(since) < timeout {
		return pollUnderWay
	}
	if len(sorted.unready) > 0 {
		e.Failed = []string{fmt.Sprintf("%s: not ready %s after pods were evicted", conditions.FirstFew(sorted.unready, ", "), timeout)}
	}
	return pollLeft
}

// notice tells whether the source flaps, and comes back when that ends.
func (e *Evictions) notice(spec *configv1.ConfigMonitorSpec, now time.Time) {
	if e.Record.Streak < workload.FlappingFrom || e.Record.Began == nil {
		return
	}
	if end := e.Record.Began.Add(workload.InCloseSuccession(spec.Cooldown.Duration)); end.After(now) {
		e.Flapping = true
		e.requeueIn(end.Sub(now))
	}
}

// victims are pods, as one evicts them.
func victims(of []pod) []Victim {
	var all []Victim
	for _, p := range of {
		all = append(all, Victim{Name: p.Name, UID: p.UID})
	}
	return all
}

// HeldByBudget notes that a PodDisruptionBudget keeps a victim from going.
func (e *Evictions) BlockedByBudget(victim Victim, why string) {
	e.blocked(victim, configv1.SkippedDisruptionBudget, why, pollBudget)
}

// HeldByFailure notes that a victim could not be evicted. why are the API server's words.
func (e *Evictions) BlockedByFailure(victim Victim, why string) {
	e.blocked(victim, configv1.SkippedEvictionFailed, why, pollLeft)
}

// HeldByOthers notes that nobody has tried to evict a victim, because of what became of others.
func (e *Evictions) BlockedByOthers(victim Victim, why string) {
	e.blocked(victim, string(rollout.WaitingForOthers), why, pollBudget)
}

// held notes that a victim does not go now, and why.
func (e *Evictions) blocked(victim Victim, reason, why string, again time.Duration) {
	e.Restarting = slices.DeleteFunc(e.Restarting, func(other string) bool { return other == victim.name() })
	e.Skipped = append(e.Skipped, configv1.Skipped{Name: victim.name(), Reason: reason, Message: why})
	slices.SortFunc(e.Skipped, func(a, b configv1.Skipped) int { return cmp.Compare(a.Name, b.Name) })
	e.Waiting++
	if len(e.Restarting) == 0 && e.RequeueAfter == pollUnderWay {
		e.RequeueAfter = 0
	}
	e.requeueIn(again)
}

// Replace names who goes in the place of one that can't; false if nobody waits for it.
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

// addEvictions sums up what becomes of the pods.
func addEvictions(observed Observed) totals {
	e := observed.Evictions
	s := totals{
		unit: unitPod, matched: e.Matched, upToDate: e.UpToDate, restarts: e.Record.Evicted,
		restarting: e.Restarting, failed: e.Failed, waiting: e.Waiting, left: e.Left, skipped: e.Skipped,
		putBack: e.PutBack, flapping: e.Flapping, again: e.RequeueAfter,
	}
	if e.Record.At != nil {
		s.lastRestart = *e.Record.At
	}
	return s
}
