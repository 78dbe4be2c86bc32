package injection

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Seen is a workload as the cache has it.
type Seen struct {
	Workload
	UID    types.UID
	Rolled workload.Rolled
	// Setting is that of its namespace.
	Setting *Setting
}

// Standing is how one workload stands to one agent.
type Standing struct {
	// Index is its place among those that were seen.
	Index int
	// Verdict is what Compose would do.
	Verdict Verdict
	// Stale tells that Compose would change something.
	Stale bool
	// Has tells that something of the agent is in the template.
	Has   bool
	grant Grant
	// hasGrant tells that there is an annotation, whatever it says.
	hasGrant bool
	rolled   workload.Rolled
	// Trouble is what is wrong with pods that run the agent, where somebody has looked; nil if nothing is.
	Trouble *workload.Trouble
}

// Assessment is how all workloads stand to one agent.
type Assessment struct {
	agent *Agent
	seen  []Seen
	now   time.Time
	// Standings are those of the workloads that the agent concerns.
	Standings []Standing
}

// Assess compares workloads with what they should be. A nil agent is one that is no more: identity says which it was.
func Assess(identity Identity, agent *Agent, seen []Seen, now time.Time) *Assessment {
	if agent == nil {
		agent = &Agent{Identity: identity, ID: identity.ID(), Spec: &instrv1.InstrumentationSpec{}}
	}
	assessment := &Assessment{agent: agent, seen: seen, now: now}
	for i := range seen {
		if standing, concerned := assessment.look(i); concerned {
			assessment.Standings = append(assessment.Standings, standing)
		}
	}
	return assessment
}

// look compares one workload.
func (a *Assessment) look(index int) (Standing, bool) {
	one := &a.seen[index]
	_, hasGrant := one.Annotations[GrantKey(a.agent.ID)]
	had := of(Injected(one.Template.Annotations), a.agent.ID)
	if had == nil && !hasGrant && len(a.agent.match(&one.Workload)) == 0 {
		return Standing{}, false
	}
	standing := Standing{Index: index, Has: had != nil, hasGrant: hasGrant, grant: GrantOf(one.Annotations, a.agent.ID), rolled: one.Rolled}
	composed := one.Workload
	composed.Template = one.Template.DeepCopy()
	verdicts := one.Setting.Compose(&composed, nil)
	for i, agent := range one.Setting.Agents {
		if agent.ID == a.agent.ID {
			standing.Verdict = verdicts[i]
		}
	}
	standing.Stale = !equality.Semantic.DeepEqual(composed.Template, one.Template)
	return standing, standing.Verdict.State != Unmatched || standing.Has || hasGrant
}

// Concerns tells whether the agent matches a workload, or is in it.
func (a *Agent) Concerns(w *Workload) bool {
	return of(Injected(w.Template.Annotations), a.ID) != nil || len(a.match(w)) > 0
}

// state is how far a workload is that has the agent as its spec says.
func (a *Assessment) state(s *Standing) (rollout.State, time.Time, string, string) {
	limit := rollout.Timeout(a.agent.Spec.Rollout.Policy)
	began := latest(s.rolled.Progressed, s.grant.At)
	switch {
	case s.Trouble != nil && isFatal(s.Trouble.Reason):
		return rollout.Failed, began, s.Trouble.Reason, s.Trouble.Message
	case s.rolled.Complete:
		return rollout.Done, latest(s.rolled.Since, s.grant.At), "", ""
	case s.rolled.Failed != "":
		return rollout.Failed, began, instrv1.WorkloadTimeout, "its pods do not come up with the agent: " + s.rolled.Failed
	case s.rolled.Blocked != "":
		return rollout.Going, began, instrv1.WorkloadBlocked, s.rolled.Blocked
	case !began.IsZero() && a.now.Sub(began) > limit:
		return rollout.Failed, began, instrv1.WorkloadTimeout, "its pods did not come up with the agent within " + limit.String() + a.details(s)
	case s.Trouble != nil:
		return rollout.Going, began, s.Trouble.Reason, s.Trouble.Message
	}
	return rollout.Going, began, instrv1.WorkloadRolling, "its pods are being replaced"
}

func (a *Assessment) details(s *Standing) string {
	if s.Trouble == nil {
		return ""
	}
	return ": " + s.Trouble.Message
}

// isFatal tells that a trouble does not pass by itself.
func isFatal(reason string) bool { return reason == crashLoop || reason == configError }

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// maxWatched is of how many workloads the pods are looked at in one pass.
const maxWatched = 20

// Watched are the standings whose pods matter now: those that are being replaced and, while canaries try the agent, those that are done.
func (a *Assessment) Watched() []*Standing {
	var watched []*Standing
	rollout := a.agent.Spec.Rollout
	for i := range a.Standings {
		standing := &a.Standings[i]
		if standing.Verdict.State != In || standing.Stale || len(watched) == maxWatched {
			continue
		}
		isTrying := false
		if rollout.Strategy == instrv1.RolloutCanary && rollout.Canary != nil && rollout.Canary.Soak != nil {
			isTrying = a.now.Sub(latest(standing.rolled.Since, standing.grant.At)) <= rollout.Canary.Soak.Duration
		}
		if !standing.rolled.Complete && standing.rolled.Blocked == "" || isTrying {
			watched = append(watched, standing)
		}
	}
	return watched
}
