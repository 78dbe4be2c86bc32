package agentrollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// GrantWrite is a grant annotation to be written on a workload.
type GrantWrite struct {
	// Index is the workload's index in the observed workloads.
	Index int
	// Grant is the grant to write; nil deletes the annotation.
	Grant *injection.Grant
	// Reason and Message are those of the event that reports the write.
	Reason, Message string
}

// Reasons of events on workloads.
const (
	EventInjected = "AgentInjected"
	EventRestored = "AgentRemoved"
	EventHealed   = "AgentUpdated"
)

// ReportedWorkload is a matched workload, as the status reports it.
type ReportedWorkload struct {
	Index int
	// State is empty where the workload runs with the agent as desired.
	State           instrv1.WorkloadState
	Reason, Message string
	// Progressing reports that its pods are being replaced. Unreplaced reports that a pod that is not
	// ready has another template, and must be deleted by a user.
	Progressing, Unreplaced bool
}

// Decision says what to do for one agent.
type Decision struct {
	// Writes are the grants to write. There are none while Failure is to be recorded first. While
	// ClearsFailure is to be done first, Writes only delete grants.
	Writes []GrantWrite
	// Failure says how the revision failed on its canaries. It is recorded on the Instrumentation.
	Failure string
	// ClearsFailure reports that the recorded failure is to be deleted from the Instrumentation:
	// without canaries it does not count. It must not count again when the spec has canaries again,
	// because the revision may run everywhere by then.
	ClearsFailure bool
	// Workloads are all matched workloads.
	Workloads []ReportedWorkload
	// Tolerated are the workloads in which an image stays that policies refuse; their messages name
	// the rules.
	Tolerated []ReportedWorkload
	// Leaving is the number of workloads from which the agent is to be removed; From are their
	// indices.
	Leaving int
	From    []int
	// Removals are those among Writes, to be passed to the next assessment as LastRemovals.
	Removals Removals
	// RequeueAfter is when the decision changes with time alone; 0 means never.
	RequeueAfter time.Duration
}

// decider collects a Decision.
type decider struct {
	*Assessment
	Decision
	// first are the canaries, by the workloads' indices: others wait for them, and they can fail the
	// revision.
	first map[int]bool
	units []rollout.Unit
	// at are the assessments of the units, by the same index.
	at []*WorkloadAssessment
	// isProven reports that all canaries have soaked, and only workloads that were deferred are left.
	isProven bool
}

const (
	// pollProblem is how soon to read pods again that are being replaced.
	pollProblem = 5 * time.Second
	// pollSlowly is the interval where the replacement may never end.
	pollSlowly = time.Minute
	// maxWrites limits the workloads written in one reconcile, so that a changed spec does not wait
	// behind thousands of writes for the previous one.
	maxWrites = 500
	// pollMore is how soon the remaining writes follow.
	pollMore = 500 * time.Millisecond
	// contested is the number of attempts without effect after which a workload is reported as failed.
	contested = 4
	// pollAnswer is how soon to check whether deleting a grant had an effect.
	pollAnswer = firstRetry
)

// Decide decides which workloads to write to, and returns the state of all. It returns an error for
// a rollout window that Validate would refuse.
func (a *Assessment) Decide() (Decision, error) {
	d := &decider{Assessment: a, first: a.canaries()}
	for i := range a.Assessed {
		s := &a.Assessed[i]
		d.decideAlone(s)
		if s.Status.Tolerated != "" {
			d.Tolerated = append(d.Tolerated, ReportedWorkload{Index: s.Index, Message: s.Status.Tolerated})
		}
	}
	if d.failed() {
		d.Writes = nil
		d.reportWaiting("the revision failed on a canary")
		return d.Decision, nil
	}
	d.deferUnhealthy()
	if err := d.grantNext(); err != nil {
		return d.Decision, err
	}
	d.limitWrites()
	if d.ClearsFailure = d.agent.Failed != "" && !d.agent.HasCanaries(); d.ClearsFailure {
		d.Writes = slices.DeleteFunc(d.Writes, func(write GrantWrite) bool { return write.Grant != nil })
	}
	d.skipRepeated()
	slices.SortStableFunc(d.Workloads, func(x, y ReportedWorkload) int { return cmp.Compare(x.State, y.State) })
	return d.Decision, nil
}

// limitWrites postpones the grants beyond maxWrites to the next reconcile. skipRepeated limits the
// removals.
func (d *decider) limitWrites() {
	grants := 0
	d.Writes = slices.DeleteFunc(d.Writes, func(write GrantWrite) bool {
		if write.Grant != nil {
			grants++
		}
		return write.Grant != nil && grants > maxWrites
	})
	if grants > maxWrites {
		d.requeueIn(pollMore)
	}
}

// decideAlone decides on one workload as far as that does not depend on the others.
func (d *decider) decideAlone(s *WorkloadAssessment) {
	switch s.Status.State {
	case injection.Unmatched:
		d.removeAgent(s)
	case injection.Refused, injection.Overruled:
		if s.Has { // a grant without effect stays: once deleted, it would be written again
			d.removeAgent(s)
		}
		d.report(s, instrv1.StateFailed, s.Status.Refusal.Reason, s.Status.Refusal.Message)
	case injection.Violating:
		if s.Stale { // not everything that it keeps is in it, or fits any more
			d.grant(s, injection.Kept)
		}
		d.report(s, instrv1.StateFailed, s.Status.Refusal.Reason, s.Status.Refusal.Message)
	case injection.Failed:
		if s.Stale || s.hasGrant && s.grant.Revision == d.agent.Revision {
			d.write(s, nil, EventRestored, fmt.Sprintf("the failed revision of %s is removed: "+
				"the workload has the agent that it had before, or none%s", d.agent, d.seen[s.Index].onRemoval()))
			d.requeueIn(pollAnswer)
		}
		if d.isUnreplaced(s) {
			d.requeueIn(pollSlowly) // no event reports that a user has deleted the pods
		}
		d.report(s, instrv1.StateFailed, instrv1.WorkloadCanaryFailed, d.withoutRevision(s))
	case injection.Waiting:
		d.addUnit(s, rollout.Pending, time.Time{})
	case injection.In:
		d.decideInjected(s)
	case injection.Retained: // an invalid agent gets no decision
	}
}

// decideInjected decides on a workload that has the agent, or may have it at once.
func (d *decider) decideInjected(s *WorkloadAssessment) {
	if s.Stale {
		d.requestUpdate(s)
		return
	}
	now := d.progressOf(s)
	switch {
	case s.isUntouched: // not part of the rollout
	case now.state == rollout.Failed && !d.isAttributable(s) && d.isOnlyTried(s):
		d.addUnit(s, rollout.Suspended, now.since) // it has not shown that the revision is good
	case d.delaysNone(s, now):
		d.addUnit(s, rollout.Done, now.since)
	case now.reason == instrv1.WorkloadBlocked:
		d.addUnit(s, rollout.Suspended, now.since) // a user may leave it so for ever
	default:
		d.addUnit(s, now.state, now.since)
	}
	switch now.state {
	case rollout.Done:
		d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index})
	case rollout.Failed:
		d.report(s, instrv1.StateFailed, now.reason, now.message)
		if d.pollOf(s) > 0 {
			d.requeueIn(pollSlowly)
		}
	default:
		d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: instrv1.StatePending, Reason: now.reason, Message: now.message,
			Progressing: true})
		d.requeueIn(d.pollOf(s))
	}
}

// delaysNone reports whether a workload that is not done is no reason to delay others.
func (d *decider) delaysNone(s *WorkloadAssessment, now progress) bool {
	switch now.state {
	case rollout.Failed:
		return !d.isAttributable(s)
	case rollout.Progressing:
		return d.isReplaced(s) || d.isUnreplaced(s) && d.first[s.Index] && d.hasSpread(d.first)
	default:
		return false
	}
}

// isOnlyTried reports whether a workload is a canary of a revision that no other workload has: the
// rollout that injected the agent may never have completed.
func (d *decider) isOnlyTried(s *WorkloadAssessment) bool {
	return d.first[s.Index] && !s.grant.At.IsZero() && !d.hasSpread(d.first)
}

// requestUpdate requests that the webhook compose a workload that is not as desired.
func (d *decider) requestUpdate(s *WorkloadAssessment) {
	isRetry := s.grant.Revision == d.agent.Revision
	switch {
	case isRetry && s.grant.Attempts >= contested && d.now.Sub(s.grant.At) <= 2*lastRetry:
		d.addUnit(s, rollout.Failed, s.grant.At)
		d.report(s, instrv1.StateFailed, instrv1.WorkloadAsked, fmt.Sprintf("requested %d times, but %s is not as desired: "+
			"the webhook does not answer, or another webhook reverts it", s.grant.Attempts, s.Differs))
	case isRetry:
		d.addUnit(s, rollout.Progressing, s.grant.At)
		d.report(s, instrv1.StatePending, instrv1.WorkloadAsked, fmt.Sprintf("requested, but %s is not as desired: "+
			"the webhook does not answer, or another webhook reverts it", s.Differs))
	default:
		d.addUnit(s, rollout.Progressing, d.now)
		d.reportRequested(s)
	}
	d.grant(s, d.agent.Revision)
}

// removeAgent requests the removal of the agent from a workload.
func (d *decider) removeAgent(s *WorkloadAssessment) {
	if !s.Has && !s.hasGrant {
		return
	}
	if s.Has {
		d.Leaving++
		d.From = append(d.From, s.Index)
	}
	d.requeueIn(pollAnswer)
	d.write(s, nil, EventRestored, fmt.Sprintf("%s is removed: the pod template is as its owner wrote it%s", d.agent,
		d.seen[s.Index].onRemoval()))
}

// grant writes a grant, unless the last one was written recently and has had no effect yet.
func (d *decider) grant(s *WorkloadAssessment, revision string) {
	if wait := due(s.grant, revision, d.now); wait > 0 {
		d.requeueIn(wait)
		return
	}
	next := after(s.grant, revision, d.now)
	reason, message := EventInjected, fmt.Sprintf("%s is injected", d.agent)
	if s.Has {
		reason, message = EventHealed, fmt.Sprintf("%s is updated", d.agent)
	}
	d.write(s, &next, reason, message)
	d.requeueIn(due(next, revision, d.now))
}

func (d *decider) write(s *WorkloadAssessment, grant *injection.Grant, reason, message string) {
	d.Writes = append(d.Writes, GrantWrite{Index: s.Index, Grant: grant, Reason: reason, Message: message})
}

func (d *decider) report(s *WorkloadAssessment, state instrv1.WorkloadState, reason, message string) {
	d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: state, Reason: reason, Message: message,
		Unreplaced: d.isUnreplaced(s)})
}

// reportRequested reports a workload that is written to for the first time. The result is known
// after the write.
func (d *decider) reportRequested(s *WorkloadAssessment) {
	d.Workloads = append(d.Workloads, ReportedWorkload{Index: s.Index, State: instrv1.StatePending, Reason: instrv1.WorkloadAsked,
		Message: "being injected", Progressing: true})
}

// withoutRevision describes a workload that does not get a failed revision.
func (d *decider) withoutRevision(s *WorkloadAssessment) string {
	message := "runs without the agent: this revision failed on a canary"
	if s.Has && !s.Stale {
		message = "keeps the agent that it has: the new revision failed on a canary"
	}
	if d.isUnreplaced(s) {
		message += "; " + deletePods
	}
	return message
}

// addUnit adds a workload to the units of the rollout.
func (d *decider) addUnit(s *WorkloadAssessment, state rollout.State, since time.Time) {
	unit := d.unitOf(s)
	unit.State, unit.Since = state, since
	d.units = append(d.units, unit)
	d.at = append(d.at, s)
}

// failed reports whether the revision failed on a canary, and sets d.Failure.
func (d *decider) failed() bool {
	if !d.agent.HasCanaries() || d.agent.HasFailed() {
		return false
	}
	failed := -1
	for i, unit := range d.units {
		// A stale workload does not run the revision as specified: its failure proves nothing.
		if unit.State == rollout.Failed && !d.at[i].Stale && d.first[d.at[i].Index] && failed < 0 {
			failed = i
		}
	}
	if failed < 0 || d.isTrialOver(d.first) {
		return false
	}
	for _, reported := range d.Workloads {
		if reported.Index == d.at[failed].Index {
			// The failed pods and their logs are deleted together with the agent.
			message := strings.ReplaceAll(reported.Message, workload.SeeLogs, "")
			d.Failure = fmt.Sprintf("%s: %s: %s", nameOf(d.agent.Kind, &d.seen[reported.Index]), reported.Reason, message)
		}
	}
	return true
}

// deferUnhealthy postpones workloads that are broken or have no pods until all others have the
// revision and the canaries have soaked, because their state says nothing about the revision. After
// that they need no trial.
func (d *decider) deferUnhealthy() {
	var units []rollout.Unit
	var at, deferred []*WorkloadAssessment
	isOpen := false
	for i, unit := range d.units {
		if unit.State == rollout.Pending && d.isUnfitCanary(d.at[i]) {
			deferred = append(deferred, d.at[i])
			continue
		}
		isOpen = isOpen || unit.State != rollout.Done
		units, at = append(units, unit), append(at, d.at[i])
	}
	if len(deferred) == 0 {
		return
	}
	if slices.ContainsFunc(deferred, func(s *WorkloadAssessment) bool { return s.keepsPods() || s.rolled.Complete && s.rolled.Pods > 0 }) {
		d.requeueIn(pollSlowly) // no event reports that its pods are ready again
	}
	soaking := d.soaking(units, at)
	if !isOpen && soaking <= 0 {
		d.isProven = len(units) > 0
		for _, s := range deferred {
			if s.rolled.Pods == 0 || d.needsRevision(s) {
				units, at = append(units, d.pending(s)), append(at, s)
			} else {
				message := "waiting until its pods are available: otherwise their failure would be blamed on the agent"
				if d.isUnreplaced(s) {
					message += "; " + deletePods
				}
				d.report(s, instrv1.StatePending, string(rollout.WaitingForCanary), message)
			}
		}
		d.units, d.at = units, at
		return
	}
	d.requeueIn(soaking)
	if soaking > 0 {
		d.requeueIn(d.pollOfTrial())
	}
	d.units, d.at = units, at
	for _, s := range deferred {
		d.report(s, instrv1.StatePending, string(rollout.WaitingForCanary),
			"waiting until all others have the agent: its pods were not all available, or it has no pods")
	}
}

// pending returns a workload as a unit that waits.
func (d *decider) pending(s *WorkloadAssessment) rollout.Unit {
	unit := d.unitOf(s)
	unit.State = rollout.Pending
	return unit
}

// soaking returns how long the canaries among some units still have to soak.
func (d *decider) soaking(units []rollout.Unit, at []*WorkloadAssessment) time.Duration {
	var last time.Time
	for i := range units {
		if units[i].State == rollout.Done && d.first[at[i].Index] {
			last = latest(last, units[i].Since)
		}
	}
	if last.IsZero() {
		return 0
	}
	return last.Add(d.soak()).Sub(d.now)
}

// reportWaiting reports all waiting workloads with a message.
func (d *decider) reportWaiting(message string) {
	for i, unit := range d.units {
		if unit.State == rollout.Pending {
			d.report(d.at[i], instrv1.StatePending, string(rollout.RolloutFailed), message)
		}
	}
}

// grantNext grants the revision to the workloads that the rollout policy selects now.
func (d *decider) grantNext() error {
	policy := d.agent.Spec.Rollout.Policy
	if d.isProven {
		policy.Canary = nil
	}
	for i := range d.units {
		d.units[i].Canary = d.first[d.at[i].Index] // otherwise one that is earlier in the order would replace them
	}
	answer, err := rollout.Next(d.units, policy, d.now)
	if err != nil {
		return err
	}
	for _, index := range answer.Go {
		d.reportRequested(d.at[index])
		d.grant(d.at[index], d.agent.Revision)
	}
	for index, assessed := range d.at {
		blocker, isBlocked := answer.Blocked[index]
		if !isBlocked {
			continue
		}
		d.report(assessed, instrv1.StatePending, string(blocker.Reason), blocker.Message)
		if assessed.Stale {
			d.grant(assessed, injection.Kept)
		}
	}
	d.requeueIn(answer.RequeueAfter)
	hasTrial := false
	for _, blocker := range answer.Blocked {
		hasTrial = hasTrial || blocker.Reason != rollout.RolloutFailed
	}
	if hasTrial {
		d.requeueIn(d.pollOfTrial())
	}
	return nil
}
