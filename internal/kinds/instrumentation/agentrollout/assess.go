package agentrollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// ObservedWorkload is a workload as read from the cache.
type ObservedWorkload struct {
	injection.Workload
	UID    types.UID
	Rolled workload.Rolled
	// Context is the context of its namespace.
	Context *injection.NamespaceContext
}

// WorkloadAssessment compares one workload with what one agent wants.
type WorkloadAssessment struct {
	// Index is the workload's index in the observed workloads.
	Index int
	// Status is what Compose would do.
	Status injection.AgentStatus
	// Stale reports that Compose would change something that belongs to the agent; Differs says what.
	Stale   bool
	Differs string
	// Has reports that the template contains something of the agent.
	Has bool
	// isUntouched reports that the new revision changes nothing here: the workload matches the spec,
	// but its record names an earlier revision.
	isUntouched bool
	grant       injection.Grant
	// hasGrant reports that a grant annotation exists, whatever its value.
	hasGrant bool
	rolled   workload.Rolled
	// Problem is what is wrong with pods that run the agent. FirstSince is when the first of these
	// pods was created, ReadySince when the last of them became ready. HangsSince is since when none
	// of them was created or became ready, although one of them is not ready. They are zero where
	// that is not so, or where the pods have not been read.
	Problem                            *workload.Problem
	FirstSince, ReadySince, HangsSince time.Time
	// UnreplacedSince is since when a pod of a StatefulSet that has another record than the template
	// is not ready; zero if there is none, or the pods have not been read. It counts only if
	// isUnreplaced.
	UnreplacedSince time.Time
}

// Assessment compares all workloads with what one agent wants.
type Assessment struct {
	agent *injection.Agent
	seen  []ObservedWorkload
	now   time.Time
	// Assessed are the workloads that the agent matches or is in.
	Assessed []WorkloadAssessment
	// LastRemovals are the removals that were written last; the zero value means none. They survive
	// no restart, after which there is one additional attempt.
	LastRemovals Removals
}

// Assess compares workloads with their desired state. The agent is nil if the Instrumentation no
// longer exists; identity then says which one it was.
func Assess(identity injection.Identity, agent *injection.Agent, seen []ObservedWorkload, now time.Time) *Assessment {
	if agent == nil {
		agent = &injection.Agent{Identity: identity, ID: identity.ID(), Spec: &instrv1.InstrumentationSpec{}}
	}
	assessment := &Assessment{agent: agent, seen: seen, now: now}
	for i := range seen {
		if assessed, concerned := assessment.assess(i); concerned {
			assessment.Assessed = append(assessment.Assessed, assessed)
		}
	}
	return assessment
}

// IsSettled reports whether one workload has its desired state for an agent. The agent is nil if
// the Instrumentation no longer exists.
func IsSettled(identity injection.Identity, agent *injection.Agent, one ObservedWorkload, now time.Time) bool {
	return !slices.ContainsFunc(Assess(identity, agent, []ObservedWorkload{one}, now).Assessed,
		func(s WorkloadAssessment) bool { return s.Stale })
}

// assess compares one workload. It returns false if the agent does not concern the workload.
func (a *Assessment) assess(index int) (WorkloadAssessment, bool) {
	one := &a.seen[index]
	_, hasGrant := one.Annotations[injection.GrantKey(a.agent.ID)]
	had := injection.InjectedBy(one.Template.Annotations, a.agent.ID)
	isCovered := slices.ContainsFunc(one.Context.Agents, func(agent *injection.Agent) bool { return agent.ID == a.agent.ID })
	if had == nil && !hasGrant && (!isCovered || !a.agent.IsFor(&one.Workload)) {
		return WorkloadAssessment{}, false
	}
	assessed := WorkloadAssessment{Index: index, Has: had != nil, hasGrant: hasGrant, rolled: one.Rolled,
		grant: withoutFuture(injection.GrantOf(one.Annotations, a.agent.ID), a.now)}
	composed := one.Workload
	composed.Template = one.Template.DeepCopy()
	statuses := one.Context.Compose(&composed, nil)
	for i, agent := range one.Context.Agents {
		if agent.ID == a.agent.ID {
			assessed.Status = statuses[i]
		}
	}
	assessed.Differs = injection.Differs(one.Template, composed.Template, had, a.agent.ID)
	assessed.Stale = assessed.Differs != ""
	assessed.isUntouched = assessed.Status.State == injection.In && !assessed.Stale && had != nil && had.Revision != a.agent.Revision
	return assessed, assessed.Status.State != injection.Unmatched || assessed.Has || hasGrant
}

// progress is how far the rollout of an injected agent has come in one workload.
type progress struct {
	state rollout.State
	// since is when that state began.
	since           time.Time
	reason, message string
}

// progressOf returns the progress of a workload. A Failed state counts against the agent only if
// isAttributable.
func (a *Assessment) progressOf(s *WorkloadAssessment) progress {
	limit, began := a.timeoutOf(s), s.began()
	switch {
	case s.isCrashing():
		return progress{rollout.Failed, began, s.Problem.Reason, s.Problem.Message}
	case s.rolled.Unseen:
		return progress{rollout.Progressing, began, instrv1.WorkloadRolling, "its controller has not observed the last change yet"}
	case a.isUnreplaced(s):
		return a.progressOfUnreplaced(s)
	case s.rolled.Complete:
		return progress{rollout.Done, a.completeSince(s), "", ""}
	case s.rolled.Failed != "":
		return progress{rollout.Failed, began, instrv1.WorkloadTimeout, "its pods do not become ready with the agent: " + s.rolled.Failed}
	case s.rolled.Blocked != "":
		return progress{rollout.Progressing, began, instrv1.WorkloadBlocked, s.rolled.Blocked}
	case a.isReplaced(s):
		return progress{rollout.Progressing, began, instrv1.WorkloadRolling, fmt.Sprintf("all pods have the agent, %d of %d are ready",
			s.rolled.Ready, s.rolled.Pods)}
	case !began.IsZero() && a.now.Sub(began) > limit && a.isAttributable(s):
		return progress{rollout.Failed, began, instrv1.WorkloadTimeout,
			"its pods did not become ready with the agent within " + limit.String() + a.details(s)}
	case a.hangs(s):
		return progress{rollout.Failed, s.HangsSince, instrv1.WorkloadTimeout, "one of its pods is not ready with the agent, and there was " +
			"no progress for " + rollout.Timeout(a.agent.Spec.Rollout.Policy).String() + a.details(s)}
	case s.Problem != nil:
		return progress{rollout.Progressing, began, s.Problem.Reason, s.Problem.Message}
	}
	return progress{rollout.Progressing, began, instrv1.WorkloadRolling, "its pods are being replaced"}
}

// began returns when a workload made its last progress that is known, at the earliest when it got
// the agent. The first pod with the agent may be created much later, once a user has deleted a pod.
func (s *WorkloadAssessment) began() time.Time {
	if s.rolled.Progressed.IsZero() {
		return latest(s.grant.At, s.FirstSince)
	}
	return latest(s.grant.At, s.rolled.Progressed)
}

// completeSince returns since when a complete workload runs the agent. That pods became ready
// counts only soon after the rollout: later they have been restarted.
func (a *Assessment) completeSince(s *WorkloadAssessment) time.Time {
	since := latest(s.rolled.Since, s.grant.At)
	if a.isRecent(s) {
		return latest(since, s.ReadySince)
	}
	return since
}

// isRecent reports whether a workload got the agent, or completed its rollout, so recently that its
// pods are read if it is a canary.
func (a *Assessment) isRecent(s *WorkloadAssessment) bool {
	return a.now.Sub(latest(s.rolled.Since, s.grant.At)) <= a.trial(s)
}

// isReplaced reports, for a workload that does not remember the end of its rollout (a DaemonSet),
// whether all its pods have had the agent for so long that an unready pod has another cause.
func (a *Assessment) isReplaced(s *WorkloadAssessment) bool {
	return s.rolled.Forgets && s.rolled.Pods > 0 && s.rolled.Updated == s.rolled.Pods && a.now.Sub(s.grant.At) > a.trial(s)
}

// hangs reports, for a StatefulSet, whether its pods show that it hangs. Its own status does not
// say since when. While the agent is on trial, each of its pods has the timeout.
func (a *Assessment) hangs(s *WorkloadAssessment) bool {
	return s.isSilent() && !s.HangsSince.IsZero() && a.now.Sub(s.HangsSince) > rollout.Timeout(a.agent.Spec.Rollout.Policy) && !a.isOnTrial(s)
}

// isSilent reports whether a workload is complete or not for good, but does not say when it made
// progress: a StatefulSet. Only its pods show that its rollout has failed.
func (s *WorkloadAssessment) isSilent() bool {
	return !s.rolled.Forgets && s.rolled.Progressed.IsZero()
}

// timeoutOf returns how long a workload may take after its last progress that is known. One that
// does not say when it made progress (a StatefulSet or DaemonSet) may take the timeout for each of
// its pods.
func (a *Assessment) timeoutOf(s *WorkloadAssessment) time.Duration {
	timeout, pods := rollout.Timeout(a.agent.Spec.Rollout.Policy), time.Duration(max(1, s.rolled.Updated))
	switch {
	case !s.rolled.Progressed.IsZero():
		return timeout
	case timeout > forEver/pods:
		return forEver
	}
	return timeout * pods
}

// forEver is longer than any rollout. Other durations can be added to it.
const forEver = 100 * 365 * 24 * time.Hour

// trial is for how long after its injection a failure of a workload is attributed to the agent.
func (a *Assessment) trial(s *WorkloadAssessment) time.Duration {
	return a.timeoutOf(s) + time.Minute + a.soak()
}

// podTrial is for how long after the last pod became ready a crash is attributed to the agent.
func (a *Assessment) podTrial() time.Duration {
	return rollout.Timeout(a.agent.Spec.Rollout.Policy) + time.Minute + a.soak()
}

// soak is how long a canary must run a revision before others follow.
func (a *Assessment) soak() time.Duration {
	if canary := a.agent.Spec.Rollout.Canary; canary != nil && canary.Soak != nil {
		return canary.Soak.Duration
	}
	return 0
}

// isAttributable reports whether a failure may be blamed on the agent: it began soon after the
// injection. A later failure may come from a change by the workload's owner, and one of pods that
// do not have the agent as desired proves nothing.
func (a *Assessment) isAttributable(s *WorkloadAssessment) bool {
	switch {
	case s.grant.At.IsZero(), a.isUnreplaced(s) && !s.isCrashing():
		return false
	case !s.rolled.Progressed.IsZero():
		return s.rolled.Progressed.Sub(s.grant.At) <= a.trial(s)
	}
	return a.isOnTrial(s) || a.hasHungSinceTrial(s) // the workload does not say when its rollout began
}

// hasHungSinceTrial reports whether a workload hangs since its first pod with the agent was created
// within the trial: its pods have the time of one from then on.
func (a *Assessment) hasHungSinceTrial(s *WorkloadAssessment) bool {
	return !s.rolled.Complete && !s.isCrashing() && !s.FirstSince.IsZero() && s.FirstSince.Sub(s.grant.At) <= a.trial(s) &&
		a.now.Sub(s.FirstSince) <= a.trial(s)
}

// isOnTrial reports whether the agent was injected so recently that a failure is attributed to it.
// The trial of many pods is long. Once all are replaced, it ends earlier for those that crash:
// podTrial after the last of them became ready, or was created.
func (a *Assessment) isOnTrial(s *WorkloadAssessment) bool {
	isReplaced, last := s.rolled.Complete || s.rolled.Updated == s.rolled.Pods, latest(latest(s.ReadySince, s.HangsSince), s.grant.At)
	if isReplaced && s.isCrashing() && !s.ReadySince.IsZero() && a.now.Sub(last) > a.podTrial() {
		return false
	}
	return a.now.Sub(s.grant.At) <= a.trial(s)
}

func (a *Assessment) details(s *WorkloadAssessment) string {
	if s.Problem == nil {
		return ""
	}
	return ": " + s.Problem.Message
}

// isCrashing reports whether pods that run the agent have a problem that does not go away by
// itself.
func (s *WorkloadAssessment) isCrashing() bool {
	return s.Problem != nil && (s.Problem.Reason == api.ReasonCrashLoop || s.Problem.Reason == api.ReasonContainerConfigError)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// maxWatched limits how many workloads, in addition to canaries, have their pods read in one
// reconcile.
const maxWatched = 20

// Watched returns the workloads whose pods are to be read now: recent canaries, and up to
// maxWatched of those whose pods are being replaced, the most recent ones first. Where a workload
// does not have the revision, its pods are read if they may keep it from replacing them.
func (a *Assessment) Watched() []*WorkloadAssessment {
	var watched, going, slow []*WorkloadAssessment
	canaries := a.canaries()
	for i := range a.Assessed {
		assessed := &a.Assessed[i]
		state := assessed.Status.State
		if (state == injection.Waiting || state == injection.Failed) && mayKeepPods(&assessed.rolled) {
			slow = append(slow, assessed)
		}
		if state != injection.In || assessed.Stale || assessed.rolled.Blocked != "" && assessed.rolled.Updated == 0 {
			continue
		}
		switch poll := a.pollOf(assessed); {
		case canaries[assessed.Index] && a.isRecent(assessed):
			watched = append(watched, assessed)
		case poll == pollProblem:
			going = append(going, assessed)
		case poll > 0:
			slow = append(slow, assessed)
		}
	}
	going = append(going, slow...)
	return append(watched, going[:min(len(going), maxWatched)]...)
}

// pollOf returns how soon to read the pods of a workload again that is being replaced. It returns 0
// where only an event can bring news, so that its pods are not worth reading.
func (a *Assessment) pollOf(s *WorkloadAssessment) time.Duration {
	last := latest(s.rolled.Progressed, s.grant.At)
	switch {
	case s.rolled.Complete && mayKeepPods(&s.rolled):
		return pollSlowly // no event reports that a user has deleted the pods
	case s.rolled.Complete, a.isReplaced(s), s.rolled.Blocked != "" && (s.rolled.Updated == 0 || !a.isOnTrial(s)):
		return 0 // a rollout that is blocked halfway may have broken the pods that it has replaced
	case last.IsZero():
		return pollSlowly // it may stay so for ever: the start is unknown
	case a.now.Sub(last) <= a.podTrial():
		return pollProblem
	case a.now.Sub(last) <= a.trial(s), s.isSilent():
		return pollSlowly // each of its pods has the timeout, or only they show that it fails
	}
	return 0
}

// pollOfTrial returns how soon to read pods again while workloads wait; 0 if no pods are read.
// Failures are to be found soon until all pods have been ready for a while.
func (a *Assessment) pollOfTrial() time.Duration {
	poll := time.Duration(0)
	for _, s := range a.Watched() {
		last := latest(latest(s.rolled.Since, s.ReadySince), latest(s.rolled.Progressed, s.grant.At))
		if s.Status.State == injection.In && a.now.Sub(last) <= a.podTrial() {
			return pollProblem
		}
		poll = pollSlowly
	}
	return poll
}

// canaries returns the indices of the workloads that get a revision first. These are the workloads
// that got it first, as many as the policy says, with all that got it at the same time; then the
// next in the rollout order. Later changes to other workloads do not change the set.
func (a *Assessment) canaries() map[int]bool {
	if !a.agent.HasCanaries() {
		return nil
	}
	var units []rollout.Unit
	var at []*WorkloadAssessment
	for i := range a.Assessed {
		if s := &a.Assessed[i]; s.Status.State == injection.In && !s.isUntouched || s.Status.State == injection.Waiting && !a.isUnfitCanary(s) {
			units, at = append(units, a.unitOf(s)), append(at, s)
		}
	}
	policy := a.agent.Spec.Rollout.Policy
	order := rollout.Order(units, policy)
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Or(cmp.Compare(at[y].Status.State, at[x].Status.State), whenIn(at[x]).Compare(whenIn(at[y])))
	})
	first := map[int]bool{}
	count := rollout.Canaries(policy, len(units))
	for place, i := range order {
		isWith := place >= count && count > 0 && at[i].Status.State == injection.In && whenIn(at[i]).Equal(whenIn(at[order[count-1]]))
		if place < count || isWith {
			first[at[i].Index] = true
		}
	}
	return first
}

// whenIn returns when a workload got the revision; zero if it does not have it.
func whenIn(s *WorkloadAssessment) time.Time {
	if s.Status.State != injection.In {
		return time.Time{}
	}
	return s.grant.At
}

// isTrialOver reports whether the canary phase has ended: no workload waits, and others than
// canaries have the revision.
func (a *Assessment) isTrialOver(canaries map[int]bool) bool {
	return a.hasSpread(canaries) && !slices.ContainsFunc(a.Assessed, func(s WorkloadAssessment) bool {
		return s.Status.State == injection.Waiting
	})
}

// hasSpread reports whether others than canaries have the revision. These got it once the rollouts
// of all canaries were complete.
func (a *Assessment) hasSpread(canaries map[int]bool) bool {
	return slices.ContainsFunc(a.Assessed, func(s WorkloadAssessment) bool {
		return s.Status.State == injection.In && !s.isUntouched && !canaries[s.Index]
	})
}

// isUnfitCanary reports whether a workload would prove nothing as a canary: it has no pods, or was
// broken before the agent was injected. What an earlier revision broke does not count. Without the
// agent, the pods of a complete rollout may have failed since; with it, another revision may be
// what they need, unless its pods would not be replaced.
func (a *Assessment) isUnfitCanary(s *WorkloadAssessment) bool {
	isBroken := s.keepsPods() || !s.rolled.Complete && (!s.Has || !a.isOnTrial(s)) || !s.Has && s.rolled.Ready < s.rolled.Pods
	return a.agent.HasCanaries() && (isBroken || s.rolled.Pods == 0)
}

// unitOf returns the workload under the name that the rollout policy uses.
func (a *Assessment) unitOf(s *WorkloadAssessment) rollout.Unit {
	one := &a.seen[s.Index]
	name := one.Name
	if a.agent.Kind == injection.KindCluster {
		name = one.Namespace + "/" + name
	}
	return rollout.Unit{Kind: one.Kind, Name: name}
}
