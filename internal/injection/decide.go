package injection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

const (
	crashLoop   = api.ReasonCrashLoop
	configError = api.ReasonContainerConfigError
)

// Write is one annotation that is to be written on a workload.
type GrantWrite struct {
	// Index is the workload's place among those that were seen.
	Index int
	// Grant is what is written; nil takes it off.
	Grant *Grant
	// Reason and Message are the event that tells it.
	Reason, Message string
}

// Events on workloads.
const (
	EventInjected = "AgentInjected"
	EventRestored = "AgentRemoved"
	EventHealed   = "AgentUpdated"
)

// Told is one workload that is matched.
type ReportedWorkload struct {
	Index int
	// State is empty where the workload runs with the agent as it should.
	State           instrv1.WorkloadState
	Reason, Message string
	// Going tells that its pods are being replaced.
	Progressing bool
}

// Decision is what is to be done for one agent.
type Decision struct {
	// Writes are to be made. There are none where Failure is to be written first; and where Forgives is to be done first, none that bring anything.
	Writes []GrantWrite
	// Failure says that the revision failed where it was tried, and how: this is written on the Instrumentation.
	Failure string
	// Forgives tells that what is noted of a failure is to be taken off the Instrumentation: without canaries it does not count. It must not count
	// again when there are canaries again: the revision may run everywhere then.
	ClearsFailure bool
	// Workloads are all that are matched.
	Workloads []ReportedWorkload
	// Leaving is in how many workloads something is that is to be taken out, From are their places.
	Leaving int
	From    []int
	// Again is after how long time alone changes the decision; 0: never.
	RequeueAfter time.Duration
}

// deciding is a Decision on its way.
type decider struct {
	*Assessment
	Decision
	units []rollout.Unit
	// at are, of the units, the standings, and pending those that wait for a grant.
	at []*WorkloadAssessment
	// isProven tells that all that try the revision first have done so, and only those are left that try nothing.
	isProven bool
}

const (
	// pollTrouble is how soon to look at pods again that are being replaced.
	pollTrouble = 5 * time.Second
	// pollSlowly is the same where there is no end to it.
	pollSlowly = time.Minute
	// MaxWrites is how many workloads are written to in one pass: a changed spec must not wait behind thousands of writes for the former one.
	MaxWrites = 500
	// PollMore is how soon the rest is written.
	PollMore = 500 * time.Millisecond
	// contested is how many attempts without effect it takes until that is told as a failure.
	contested = 4
	// pollAnswer is how soon to look whether a write that takes a grant off had an effect.
	pollAnswer = firstRetry
)

// Decide says which workloads are written to, and how all of them are. The error is that of a window that Validate refuses.
func (a *Assessment) Decide() (Decision, error) {
	d := &decider{Assessment: a}
	for i := range a.Assessed {
		d.decideAlone(&a.Assessed[i])
	}
	if d.failed() {
		d.Writes = nil
		d.reportWaiting("the revision has failed where it is tried first")
		return d.Decision, nil
	}
	d.deferUnhealthy()
	if err := d.grantNext(); err != nil {
		return d.Decision, err
	}
	d.limitWrites()
	if d.ClearsFailure = d.agent.hasStaleFailure(); d.ClearsFailure {
		d.Writes = slices.DeleteFunc(d.Writes, func(write GrantWrite) bool { return write.Grant != nil })
	}
	slices.SortStableFunc(d.Workloads, func(x, y ReportedWorkload) int { return cmp.Compare(x.State, y.State) })
	return d.Decision, nil
}

// cut leaves what is too much for one pass to the next. What takes something out is cut where it is known which was tried in vain.
func (d *decider) limitWrites() {
	grants := 0
	d.Writes = slices.DeleteFunc(d.Writes, func(write GrantWrite) bool {
		if write.Grant != nil {
			grants++
		}
		return write.Grant != nil && grants > MaxWrites
	})
	if grants > MaxWrites {
		d.requeueIn(PollMore)
	}
}

// sort decides on one workload as far as that does not depend on the others.
func (d *decider) decideAlone(s *WorkloadAssessment) {
	switch s.Status.State {
	case Unmatched:
		d.removeAgent(s)
	case Refused, Overruled:
		if s.Has { // a grant without effect stays: taken off, it would be written again when its turn comes
			d.removeAgent(s)
		}
		d.report(s, instrv1.StateFailed, s.Status.Refusal.Reason, s.Status.Refusal.Message)
	case Failed:
		if s.Stale || s.hasGrant && s.grant.Revision == d.agent.Revision {
			d.write(s, nil, EventRestored, fmt.Sprintf("what %s tried is taken out, as it failed: the workload has what it had before", d.agent))
			d.requeueIn(pollAnswer)
		}
		d.report(s, instrv1.StateFailed, instrv1.WorkloadCanaryFailed, withoutRevision(s))
	case Waiting:
		d.addUnit(s, rollout.Pending, time.Time{})
	case In:
		d.decideInjected(s)
	case Retained: // nobody decides for what is invalid
	}
}

// bring decides on a workload that has the agent, or may have it at once.
func (d *decider) decideInjected(s *WorkloadAssessment) {
	if s.Stale {
		d.requestUpdate(s)
		return
	}
	now := d.progressOf(s)
	switch {
	case s.isUntouched: // it has no part in the rollout
	case now.state == rollout.Failed && !d.isAttributable(s), now.state == rollout.Progressing && d.isReplaced(s):
		d.addUnit(s, rollout.Done, now.since) // no ground to hold others up
	default:
		d.addUnit(s, now.state, now.since)
	}
	switch now.state {
	case rollout.Done:
		d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index})
	case rollout.Failed:
		d.report(s, instrv1.StateFailed, now.reason, now.message)
	default:
		d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: instrv1.StatePending, Reason: now.reason, Message: now.message,
			Progressing: true})
		d.requeueIn(d.pollOf(s))
	}
}

// ask has a workload composed that is not as it should be.
func (d *decider) requestUpdate(s *WorkloadAssessment) {
	again := s.grant.Revision == d.agent.Revision
	switch {
	case again && s.grant.Attempts >= contested && d.now.Sub(s.grant.At) <= 2*lastRetry:
		d.addUnit(s, rollout.Failed, s.grant.At)
		d.report(s, instrv1.StateFailed, instrv1.WorkloadAsked, fmt.Sprintf("it was asked for %d times, and %s is not as it should be: "+
			"the webhook does not answer, or another webhook undoes what it does", s.grant.Attempts, s.Differs))
	case again:
		d.addUnit(s, rollout.Progressing, s.grant.At)
		d.report(s, instrv1.StatePending, instrv1.WorkloadAsked, fmt.Sprintf("it was asked for, and %s is not as it should be: "+
			"the webhook does not answer, or another webhook undoes what it does", s.Differs))
	default:
		d.addUnit(s, rollout.Progressing, d.now)
		d.reportRequested(s)
	}
	d.grant(s, d.agent.Revision)
}

// pollOf is how soon to look at the pods of a workload again that is being replaced; 0 where only an event can bring anything new.
func (d *decider) pollOf(s *WorkloadAssessment) time.Duration {
	switch {
	case s.rolled.Blocked != "", !d.isRecent(s):
		return 0
	case latest(s.rolled.Progressed, s.grant.At).IsZero():
		return pollSlowly // it may stay so for ever: nobody knows since when it is
	}
	return pollTrouble
}

// takeOut has the agent taken out of a workload in which there is something of it.
func (d *decider) removeAgent(s *WorkloadAssessment) {
	if !s.Has && !s.hasGrant {
		return
	}
	if s.Has {
		d.Leaving++
		d.From = append(d.From, s.Index)
	}
	d.requeueIn(pollAnswer)
	d.write(s, nil, EventRestored, fmt.Sprintf("%s is taken out: the pod template is as its owner wrote it", d.agent))
}

// grant writes a grant, unless one was written a moment ago that had no effect yet.
func (d *decider) grant(s *WorkloadAssessment, revision string) {
	if wait := s.grant.Due(revision, d.now); wait > 0 {
		d.requeueIn(wait)
		return
	}
	next := s.grant.Next(revision, d.now)
	reason, message := EventInjected, fmt.Sprintf("%s is injected", d.agent)
	if s.Has {
		reason, message = EventHealed, fmt.Sprintf("%s is brought up to date", d.agent)
	}
	d.write(s, &next, reason, message)
	d.requeueIn(next.Due(revision, d.now))
}

func (d *decider) write(s *WorkloadAssessment, grant *Grant, reason, message string) {
	d.Writes = append(d.Writes, GrantWrite{Index: s.Index, Grant: grant, Reason: reason, Message: message})
}

func (d *decider) report(s *WorkloadAssessment, state instrv1.WorkloadState, reason, message string) {
	d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: state, Reason: reason, Message: message})
}

// asked tells of a workload that it is written to for the first time: what comes of it is known in a moment.
func (d *decider) reportRequested(s *WorkloadAssessment) {
	d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: instrv1.StatePending, Reason: instrv1.WorkloadAsked,
		Message: "it is being injected", Progressing: true})
}

// withoutRevision says how a workload is that does not get a revision which failed.
func withoutRevision(s *WorkloadAssessment) string {
	if s.Has && !s.Stale {
		return "it keeps the agent that it has: the new revision failed where it was tried first"
	}
	return "it runs without the agent: this revision failed where it was tried first"
}

func (d *decider) requeueIn(in time.Duration) {
	if in > 0 && (d.RequeueAfter == 0 || in < d.RequeueAfter) {
		d.RequeueAfter = in
	}
}

// unit adds a workload to those that the rollout's policy is asked about.
func (d *decider) addUnit(s *WorkloadAssessment, state rollout.State, since time.Time) {
	unit := d.unitOf(s)
	unit.State, unit.Since = state, since
	d.units = append(d.units, unit)
	d.at = append(d.at, s)
}

// failed tells whether the revision failed where it was tried first, and notes how.
func (d *decider) failed() bool {
	if !d.agent.isTried() || d.agent.HasFailed() {
		return false
	}
	canaries, first := d.canaries(), -1
	for i, unit := range d.units {
		// What is stale does not run the revision as it is: that says nothing of it.
		if unit.State == rollout.Failed && !d.at[i].Stale && canaries[d.at[i].Index] && first < 0 {
			first = i
		}
	}
	if first < 0 || d.isOver(canaries) {
		return false
	}
	for _, told := range d.Workloads {
		if told.Index == d.at[first].Index {
			// The pods, and their logs, go with the agent: not to be looked for.
			message := strings.ReplaceAll(told.Message, workload.SeeLogs, "")
			d.Failure = fmt.Sprintf("%s: %s: %s", d.agent.nameOf(&d.seen[told.Index]), told.Reason, message)
		}
	}
	return true
}

// bench leaves those out that would try nothing, or were broken before, until all others have the revision, and those that try it first have done so:
// what happens to them says nothing of it. Then they need no trial.
func (d *decider) deferUnhealthy() {
	var units []rollout.Unit
	var at, benched []*WorkloadAssessment
	isOpen := false
	for i, unit := range d.units {
		if unit.State == rollout.Pending && d.isUnfitCanary(d.at[i]) {
			benched = append(benched, d.at[i])
			continue
		}
		isOpen = isOpen || unit.State != rollout.Done
		units, at = append(units, unit), append(at, d.at[i])
	}
	if len(benched) == 0 {
		return
	}
	soaking := d.soaking(units, at)
	if !isOpen && soaking <= 0 {
		d.isProven = len(units) > 0
		for _, s := range benched {
			if s.rolled.Pods == 0 {
				units, at = append(units, d.pending(s)), append(at, s)
			} else {
				d.report(s, instrv1.StatePending, string(rollout.WaitingForCanary),
					"waits until its pods are available: what is wrong with them would be laid to the agent")
			}
		}
		d.units, d.at = units, at
		return
	}
	d.requeueIn(soaking)
	if soaking > 0 && len(d.Watched()) > 0 {
		d.requeueIn(pollTrouble)
	}
	d.units, d.at = units, at
	for _, s := range benched {
		d.report(s, instrv1.StatePending, string(rollout.WaitingForCanary),
			"waits until all others have the agent: its pods were not all available, or it has none")
	}
}

// pending is a workload that waits for its turn.
func (d *decider) pending(s *WorkloadAssessment) rollout.Unit {
	unit := d.unitOf(s)
	unit.State = rollout.Pending
	return unit
}

// soaking is for how long those of some units that try the revision first have to go on.
func (d *decider) soaking(units []rollout.Unit, at []*WorkloadAssessment) time.Duration {
	canaries := d.canaries()
	var last time.Time
	for i := range units {
		if units[i].State == rollout.Done && canaries[at[i].Index] {
			last = latest(last, units[i].Since)
		}
	}
	if last.IsZero() {
		return 0
	}
	return last.Add(d.soak()).Sub(d.now)
}

// sit tells of all that wait that they do.
func (d *decider) reportWaiting(message string) {
	for i, unit := range d.units {
		if unit.State == rollout.Pending {
			d.report(d.at[i], instrv1.StatePending, string(rollout.RolloutFailed), message)
		}
	}
}

// gate grants the revision to those whose turn it is.
func (d *decider) grantNext() error {
	policy := d.agent.Spec.Rollout.Policy
	if d.isProven {
		policy.Canary = nil
	}
	answer, err := rollout.Next(d.units, policy, d.now)
	if err != nil {
		return err
	}
	for _, index := range answer.Go {
		d.reportRequested(d.at[index])
		d.grant(d.at[index], d.agent.Revision)
	}
	for index, standing := range d.at {
		hold, isHeld := answer.Held[index]
		if !isHeld {
			continue
		}
		d.report(standing, instrv1.StatePending, string(hold.Reason), hold.Message)
		if standing.Stale {
			d.grant(standing, kept)
		}
	}
	d.requeueIn(answer.Again)
	isTried := false
	for _, hold := range answer.Held {
		isTried = isTried || hold.Reason != rollout.RolloutFailed
	}
	if isTried && len(d.Watched()) > 0 {
		d.requeueIn(pollTrouble)
	}
	return nil
}
