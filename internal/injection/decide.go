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
type Write struct {
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
type Told struct {
	Index int
	// State is empty where the workload runs with the agent as it should.
	State           instrv1.WorkloadState
	Reason, Message string
	// Going tells that its pods are being replaced.
	Going bool
}

// Decision is what is to be done for one agent.
type Decision struct {
	// Writes are to be made. There are none where Failure is to be written first.
	Writes []Write
	// Failure says that the revision failed where it was tried, and how: this is written on the Instrumentation.
	Failure string
	// Workloads are all that are matched.
	Workloads []Told
	// Leaving is in how many workloads something is that is to be taken out, From are their places.
	Leaving int
	From    []int
	// Again is after how long time alone changes the decision; 0: never.
	Again time.Duration
}

// deciding is a Decision on its way.
type deciding struct {
	*Assessment
	Decision
	units []rollout.Unit
	// at are, of the units, the standings, and pending those that wait for a grant.
	at []*Standing
}

const (
	// pollTrouble is how soon to look at pods again that are being replaced.
	pollTrouble = 5 * time.Second
	// pollSlowly is the same where there is no end to it.
	pollSlowly = time.Minute
	// pollAnswer is how soon to look whether a write that takes a grant off had an effect.
	pollAnswer = firstRetry
)

// Decide says which workloads are written to, and how all of them are. The error is that of a window that Validate refuses.
func (a *Assessment) Decide() (Decision, error) {
	d := &deciding{Assessment: a}
	for i := range a.Standings {
		d.sort(&a.Standings[i])
	}
	if d.failed() {
		d.Writes = nil
		return d.Decision, nil
	}
	if err := d.gate(); err != nil {
		return d.Decision, err
	}
	slices.SortStableFunc(d.Workloads, func(x, y Told) int { return cmp.Compare(x.State, y.State) })
	return d.Decision, nil
}

// sort decides on one workload as far as that does not depend on the others.
func (d *deciding) sort(s *Standing) {
	switch s.Verdict.State {
	case Unmatched:
		d.takeOut(s)
	case Refused, Overruled:
		if s.Has { // a grant without effect stays: taken off, it would be written again when its turn comes
			d.takeOut(s)
		}
		d.tell(s, instrv1.StateFailed, s.Verdict.Refusal.Reason, s.Verdict.Refusal.Message)
	case Failed:
		if s.Stale || s.hasGrant && s.grant.Revision == d.agent.Revision {
			d.write(s, nil, EventRestored, fmt.Sprintf("%s is taken out: its canaries failed", d.agent))
			d.again(pollAnswer)
		}
		d.tell(s, instrv1.StateFailed, instrv1.WorkloadCanaryFailed, withoutRevision(s))
	case Waiting:
		d.unit(s, rollout.Pending, time.Time{})
	case In:
		d.bring(s)
	}
}

// bring decides on a workload that has the agent, or may have it at once.
func (d *deciding) bring(s *Standing) {
	if s.Stale {
		d.unit(s, rollout.Going, d.now)
		if s.grant.Revision == d.agent.Revision {
			d.tell(s, instrv1.StatePending, instrv1.WorkloadAsked, "it was asked for, and is not as it should be: the webhook does not answer, or somebody undoes what it does")
		} else {
			d.asked(s)
		}
		d.grant(s, d.agent.Revision)
		return
	}
	state, since, reason, message := d.state(s)
	d.unit(s, state, since)
	switch state {
	case rollout.Done:
		d.Workloads = append(d.Workloads, Told{Index: s.Index})
	case rollout.Failed:
		d.tell(s, instrv1.StateFailed, reason, message)
	default:
		d.Workloads = append(d.Workloads, Told{Index: s.Index, State: instrv1.StatePending, Reason: reason, Message: message, Going: true})
		d.again(d.pollOf(s))
	}
}

// pollOf is how soon to look at the pods of a workload again that is being replaced; 0 where only an event can bring anything new.
func (d *deciding) pollOf(s *Standing) time.Duration {
	switch {
	case s.rolled.Blocked != "":
		return 0
	case latest(s.rolled.Progressed, s.grant.At).IsZero():
		return pollSlowly // it may stay so for ever: nobody knows since when it is
	}
	return pollTrouble
}

// takeOut has the agent taken out of a workload in which there is something of it.
func (d *deciding) takeOut(s *Standing) {
	if !s.Has && !s.hasGrant {
		return
	}
	if s.Has {
		d.Leaving++
		d.From = append(d.From, s.Index)
	}
	d.again(pollAnswer)
	d.write(s, nil, EventRestored, fmt.Sprintf("%s is taken out: the pod template is as its owner wrote it", d.agent))
}

// grant writes a grant, unless one was written a moment ago that had no effect yet.
func (d *deciding) grant(s *Standing, revision string) {
	if wait := s.grant.due(revision, d.now); wait > 0 {
		d.again(wait)
		return
	}
	next := s.grant.next(revision, d.now)
	reason, message := EventInjected, fmt.Sprintf("%s is injected", d.agent)
	if s.Has {
		reason, message = EventHealed, fmt.Sprintf("%s is brought up to date", d.agent)
	}
	d.write(s, &next, reason, message)
	d.again(next.due(revision, d.now))
}

func (d *deciding) write(s *Standing, grant *Grant, reason, message string) {
	d.Writes = append(d.Writes, Write{Index: s.Index, Grant: grant, Reason: reason, Message: message})
}

func (d *deciding) tell(s *Standing, state instrv1.WorkloadState, reason, message string) {
	d.Workloads = append(d.Workloads, Told{Index: s.Index, State: state, Reason: reason, Message: message})
}

// asked tells of a workload that it is written to for the first time: what comes of it is known in a moment.
func (d *deciding) asked(s *Standing) {
	d.Workloads = append(d.Workloads, Told{Index: s.Index, State: instrv1.StatePending, Reason: instrv1.WorkloadAsked, Message: "it is being injected", Going: true})
}

// withoutRevision says how a workload is that does not get a revision which failed.
func withoutRevision(s *Standing) string {
	if s.Has && !s.Stale {
		return "it keeps the agent that it has: the new revision failed where it was tried first"
	}
	return "it runs without the agent: this revision failed where it was tried first"
}

func (d *deciding) again(in time.Duration) {
	if in > 0 && (d.Again == 0 || in < d.Again) {
		d.Again = in
	}
}

// unit adds a workload to those that the rollout's policy is asked about.
func (d *deciding) unit(s *Standing, state rollout.State, since time.Time) {
	one := &d.seen[s.Index]
	name := one.Name
	if d.agent.Kind == KindCluster {
		name = one.Namespace + "/" + name
	}
	d.units = append(d.units, rollout.Unit{Kind: one.Kind, Name: name, State: state, Since: since})
	d.at = append(d.at, s)
}

// failed tells whether the revision failed where it was tried first, and notes how.
func (d *deciding) failed() bool {
	policy := &d.agent.Spec.Rollout
	if policy.Strategy != instrv1.RolloutCanary || d.agent.HasFailed() {
		return false
	}
	begun := 0
	for i := range d.units {
		if d.units[i].State != rollout.Pending {
			begun++
		}
	}
	var first *Told
	for i := range d.Workloads {
		if told := &d.Workloads[i]; told.State == instrv1.StateFailed && d.isOnTrial(told.Index) && first == nil {
			first = told
		}
	}
	if first == nil || begun > rollout.Canaries(policy.Policy, len(d.units)) {
		return false
	}
	// The pods, and their logs, go with the agent: not to be looked for.
	message := strings.ReplaceAll(first.Message, workload.SeeLogs, "")
	d.Failure = fmt.Sprintf("%s: %s: %s", d.agent.nameOf(&d.seen[first.Index]), first.Reason, message)
	return true
}

// isOnTrial tells that a workload takes part in the rollout, and was given the revision so lately that what is wrong with its pods is laid to it:
// later its owner may have changed it.
func (d *deciding) isOnTrial(index int) bool {
	policy := &d.agent.Spec.Rollout.Policy
	trial := rollout.Timeout(*policy)
	if policy.Canary != nil && policy.Canary.Soak != nil {
		trial += policy.Canary.Soak.Duration
	}
	return slices.ContainsFunc(d.at, func(s *Standing) bool { return s.Index == index && d.now.Sub(s.grant.At) <= trial })
}

// gate grants the revision to those whose turn it is.
func (d *deciding) gate() error {
	answer, err := rollout.Next(d.units, d.agent.Spec.Rollout.Policy, d.now)
	if err != nil {
		return err
	}
	for _, index := range answer.Go {
		d.asked(d.at[index])
		d.grant(d.at[index], d.agent.Revision)
	}
	for index, standing := range d.at {
		hold, isHeld := answer.Held[index]
		if !isHeld {
			continue
		}
		d.tell(standing, instrv1.StatePending, string(hold.Reason), hold.Message)
		if standing.Stale {
			d.grant(standing, kept)
		}
	}
	d.again(answer.Again)
	if len(answer.Held) > 0 && d.agent.Spec.Rollout.Strategy == instrv1.RolloutCanary {
		d.again(pollTrouble)
	}
	return nil
}
