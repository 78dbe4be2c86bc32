package injection

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Seen is a workload as the cache has it.
type ObservedWorkload struct {
	Workload
	UID    types.UID
	Rolled workload.Rolled
	// Setting is that of its namespace.
	Context *NamespaceContext
}

// Standing is how one workload stands to one agent.
type WorkloadAssessment struct {
	// Index is its place among those that were seen.
	Index int
	// Verdict is what Compose would do.
	Status AgentStatus
	// Stale tells that Compose would change something of the agent's; Differs says what.
	Stale   bool
	Differs string
	// Has tells that something of the agent is in the template.
	Has bool
	// isUntouched tells that the workload has what the spec says since an earlier revision: what is new does not concern it.
	isUntouched bool
	grant       Grant
	// hasGrant tells that there is an annotation, whatever it says.
	hasGrant bool
	rolled   workload.Rolled
	// Trouble is what is wrong with pods that run the agent, where somebody has looked; nil if nothing is. ReadySince is since when the last of them
	// is ready; zero where nobody has looked.
	Problem    *workload.Problem
	ReadySince time.Time
}

// Assessment is how all workloads stand to one agent.
type Assessment struct {
	agent *Agent
	seen  []ObservedWorkload
	now   time.Time
	// Assessed are those of the workloads that the agent concerns.
	Assessed []WorkloadAssessment
}

// Assess compares workloads with what they should be. A nil agent is one that is no more: identity says which it was.
func Assess(identity Identity, agent *Agent, seen []ObservedWorkload, now time.Time) *Assessment {
	if agent == nil {
		agent = &Agent{Identity: identity, ID: identity.ID(), Spec: &instrv1.InstrumentationSpec{}}
	}
	assessment := &Assessment{agent: agent, seen: seen, now: now}
	for i := range seen {
		if standing, concerned := assessment.assess(i); concerned {
			assessment.Assessed = append(assessment.Assessed, standing)
		}
	}
	return assessment
}

// IsSettled tells that one workload is as it should be, for an agent; nil for one that is no more.
func IsSettled(identity Identity, agent *Agent, one ObservedWorkload, now time.Time) bool {
	return !slices.ContainsFunc(Assess(identity, agent, []ObservedWorkload{one}, now).Assessed,
		func(s WorkloadAssessment) bool { return s.Stale })
}

// look compares one workload.
func (a *Assessment) assess(index int) (WorkloadAssessment, bool) {
	one := &a.seen[index]
	_, hasGrant := one.Annotations[GrantKey(a.agent.ID)]
	had := of(Injected(one.Template.Annotations), a.agent.ID)
	isCovered := slices.ContainsFunc(one.Context.Agents, func(agent *Agent) bool { return agent.ID == a.agent.ID })
	if had == nil && !hasGrant && (!isCovered || len(a.agent.match(&one.Workload)) == 0) {
		return WorkloadAssessment{}, false
	}
	standing := WorkloadAssessment{Index: index, Has: had != nil, hasGrant: hasGrant, grant: GrantOf(one.Annotations, a.agent.ID).until(a.now),
		rolled: one.Rolled}
	composed := one.Workload
	composed.Template = one.Template.DeepCopy()
	verdicts := one.Context.Compose(&composed, nil)
	for i, agent := range one.Context.Agents {
		if agent.ID == a.agent.ID {
			standing.Status = verdicts[i]
		}
	}
	wanted := had
	if one.Template.Annotations[instrv1.AnnotationInjected] != composed.Template.Annotations[instrv1.AnnotationInjected] {
		wanted = of(Injected(composed.Template.Annotations), a.agent.ID)
	}
	standing.Differs = differs(one.Template, composed.Template, had, wanted)
	standing.Stale = standing.Differs != ""
	standing.isUntouched = standing.Status.State == In && !standing.Stale && had != nil && had.Revision != a.agent.Revision
	return standing, standing.Status.State != Unmatched || standing.Has || hasGrant
}

// Concerns tells whether the agent matches a workload, or is in it.
func (a *Agent) Concerns(w *Workload) bool {
	return of(Injected(w.Template.Annotations), a.ID) != nil || a.IsFor(w)
}

// situation is how far a workload is that has the agent as its spec says.
type progress struct {
	state rollout.State
	// since is when that began.
	since           time.Time
	reason, message string
}

// situation finds it. What it says of workloads that were long there is not laid to the agent: see isLaid.
func (a *Assessment) progressOf(s *WorkloadAssessment) progress {
	limit := rollout.Timeout(a.agent.Spec.Rollout.Policy)
	began := latest(s.rolled.Progressed, s.grant.At)
	switch {
	case s.Problem != nil && isFatal(s.Problem.Reason):
		return progress{rollout.Failed, began, s.Problem.Reason, s.Problem.Message}
	case s.rolled.Unseen:
		return progress{rollout.Progressing, began, instrv1.WorkloadRolling, "its controller has not looked at its last change yet"}
	case s.rolled.Complete:
		return progress{rollout.Done, latest(latest(s.rolled.Since, s.ReadySince), s.grant.At), "", ""}
	case s.rolled.Failed != "":
		return progress{rollout.Failed, began, instrv1.WorkloadTimeout, "its pods do not come up with the agent: " + s.rolled.Failed}
	case s.rolled.Blocked != "":
		return progress{rollout.Progressing, began, instrv1.WorkloadBlocked, s.rolled.Blocked}
	case a.isReplaced(s):
		return progress{rollout.Progressing, began, instrv1.WorkloadRolling, fmt.Sprintf("%d of its %d pods, which all have the agent, are ready",
			s.rolled.Ready, s.rolled.Pods)}
	case !began.IsZero() && a.now.Sub(began) > limit && a.isAttributable(s):
		return progress{rollout.Failed, began, instrv1.WorkloadTimeout,
			"its pods did not come up with the agent within " + limit.String() + a.details(s)}
	case s.Problem != nil:
		return progress{rollout.Progressing, began, s.Problem.Reason, s.Problem.Message}
	}
	return progress{rollout.Progressing, began, instrv1.WorkloadRolling, "its pods are being replaced"}
}

// isReplaced tells of a workload that does not remember that its rollout was over (a DaemonSet) that all its pods have the agent, and have had it for
// so long that what is not ready is so for another reason.
func (a *Assessment) isReplaced(s *WorkloadAssessment) bool {
	return s.rolled.Forgets && s.rolled.Pods > 0 && s.rolled.Updated == s.rolled.Pods && a.now.Sub(s.grant.At) > a.trial()
}

// trial is for how long what is wrong with a workload is laid to the agent.
func (a *Assessment) trial() time.Duration {
	return rollout.Timeout(a.agent.Spec.Rollout.Policy) + time.Minute + a.soak()
}

// soak is for how long a workload runs a revision until it has tried it.
func (a *Assessment) soak() time.Duration {
	if canary := a.agent.Spec.Rollout.Canary; canary != nil && canary.Soak != nil {
		return canary.Soak.Duration
	}
	return 0
}

// isLaid tells whether what is wrong with a workload is laid to the agent: it came so lately, or the rollout that brought it was never over.
// Later its owner may have changed it.
func (a *Assessment) isAttributable(s *WorkloadAssessment) bool {
	switch {
	case s.grant.At.IsZero():
		return false
	case !s.rolled.Progressed.IsZero():
		return s.rolled.Progressed.Sub(s.grant.At) <= a.trial()
	}
	return a.isOnTrial(s) // the workload does not tell since when its rollout is under way
}

// isOnTrial tells that the agent came so lately that what is wrong is laid to it.
func (a *Assessment) isOnTrial(s *WorkloadAssessment) bool { return a.now.Sub(s.grant.At) <= a.trial() }

func (a *Assessment) details(s *WorkloadAssessment) string {
	if s.Problem == nil {
		return ""
	}
	return ": " + s.Problem.Message
}

// isFatal tells that a trouble does not pass by itself.
func isFatal(reason string) bool { return reason == crashLoop || reason == configError }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// maxWatched is of how many workloads, beside canaries, the pods are looked at in one pass.
const maxWatched = 20

// Watched are the standings whose pods matter now: those that try the agent first, and some of those that are being replaced.
func (a *Assessment) Watched() []*WorkloadAssessment {
	var watched, going []*WorkloadAssessment
	canaries := a.canaries()
	for i := range a.Assessed {
		standing := &a.Assessed[i]
		if standing.Status.State != In || standing.Stale || standing.rolled.Blocked != "" {
			continue
		}
		switch {
		case canaries[standing.Index] && a.now.Sub(latest(standing.rolled.Since, standing.grant.At)) <= a.trial():
			watched = append(watched, standing)
		case !standing.rolled.Complete && a.isRecent(standing) && len(going) < maxWatched:
			going = append(going, standing)
		}
	}
	return append(watched, going...)
}

// isLately tells that something happened to a workload so lately that its pods are worth a look; or that it does not tell when.
func (a *Assessment) isRecent(s *WorkloadAssessment) bool {
	last := latest(s.rolled.Progressed, s.grant.At)
	return !a.isReplaced(s) && (last.IsZero() || a.now.Sub(last) <= a.trial())
}

// canaries are the workloads, by their places, that try a revision first: those that got it first, as many as the policy says, and with them those that
// got it at the same time; then those whose turn is next. What becomes of the others meanwhile does not change who tries it.
func (a *Assessment) canaries() map[int]bool {
	if !a.agent.isTried() {
		return nil
	}
	var units []rollout.Unit
	var at []*WorkloadAssessment
	for i := range a.Assessed {
		if s := &a.Assessed[i]; s.Status.State == In && !s.isUntouched || s.Status.State == Waiting && !a.isUnfitCanary(s) {
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
		isWith := place >= count && count > 0 && at[i].Status.State == In && whenIn(at[i]).Equal(whenIn(at[order[count-1]]))
		if place < count || isWith {
			first[at[i].Index] = true
		}
	}
	return first
}

// whenIn is when a workload that has the revision got it.
func whenIn(s *WorkloadAssessment) time.Time {
	if s.Status.State != In {
		return time.Time{}
	}
	return s.grant.At
}

// isOver tells that the revision has been tried: all others have it, too.
func (a *Assessment) isOver(canaries map[int]bool) bool {
	return !slices.ContainsFunc(a.Assessed, func(s WorkloadAssessment) bool {
		return s.Status.State == Waiting
	}) && slices.ContainsFunc(a.Assessed, func(s WorkloadAssessment) bool {
		return s.Status.State == In && !s.isUntouched && !canaries[s.Index]
	})
}

// isUnfit tells that a workload would try nothing, or was broken before the agent came. What an earlier revision did to it does not count.
func (a *Assessment) isUnfitCanary(s *WorkloadAssessment) bool {
	isBroken := !s.rolled.Complete && (!s.Has || !a.isOnTrial(s))
	return a.agent.isTried() && (isBroken || s.rolled.Pods == 0)
}

// unitOf is a workload as the rollout's policy names it.
func (a *Assessment) unitOf(s *WorkloadAssessment) rollout.Unit {
	one := &a.seen[s.Index]
	name := one.Name
	if a.agent.Kind == KindCluster {
		name = one.Namespace + "/" + name
	}
	return rollout.Unit{Kind: one.Kind, Name: name}
}
