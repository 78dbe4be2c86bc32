package agentrollout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// subject is an Instrumentation to summarize.
type subject struct {
	*StatusInput
	*counts
}

// rules are what may be said about an Instrumentation whose reconcile completed. The first that
// applies counts.
var rules = []summary.Rule[*subject]{
	summary.When(summary.Failed, api.ReasonRefused, stuck),
	summary.When(summary.UnderWay, instrv1.ReasonRestoring, deleting),
	summary.When(summary.Stalled, instrv1.ReasonCanaryFailed, canaryFails),
	summary.When(summary.Stalled, instrv1.ReasonCanaryFailed, canaryFailed),
	summary.When(summary.Failed, instrv1.ReasonRolloutFailed, broken),
	summary.When(summary.Failed, instrv1.ReasonNotInjected, notInjected),
	summary.When(summary.Failed, instrv1.ReasonOverruled, overruled),
	summary.When(summary.Degraded, api.ReasonImagePullFailed, unpulled),
	summary.When(summary.UnderWay, instrv1.ReasonRestoring, leaving),
	summary.When(summary.UnderWay, instrv1.ReasonNothingMatched, nothingMatched),
	summary.When(summary.UnderWay, instrv1.ReasonInjecting, injecting),
	summary.When(summary.UnderWay, instrv1.ReasonWaiting, waiting),
	summary.When(summary.Working, instrv1.ReasonInjected, injected),
}

// summarize returns the summary of the status.
func (s *subject) summarize() summary.Summary {
	if s.Failure != nil {
		return summary.OfFailure(*s.Failure)
	}
	return summary.First(s, rules)
}

// listed returns what is said about some workloads, followed by the first few of them; "" if there
// are none.
func listed(what string, workloads []string, separator string) string {
	if len(workloads) == 0 {
		return ""
	}
	return what + conditions.FirstFew(workloads, separator)
}

// stuck: the agent can't be removed from a workload.
func stuck(s *subject) string { return listed("the agent can't be removed from ", s.stuck, "; ") }

// deleting: the object is being deleted.
func deleting(s *subject) string { return summary.If(s.Deleting, "%s", s.leaving()) }

// canaryFails: the canaries of this revision have just failed.
func canaryFails(s *subject) string {
	return summary.If(s.Decision.Failure != "", "the revision failed on %s; it is being removed there", s.Decision.Failure)
}

// canaryFailed: the canaries of this revision have failed earlier.
func canaryFailed(s *subject) string {
	if s.Agent == nil || !s.Agent.HasFailed() {
		return ""
	}
	return fmt.Sprintf("the revision failed on %s; it was removed there, and no other workload gets it%s. "+
		"Change spec.agent or spec.matchers, or retry: %s", s.Agent.Because, s.toDelete(s.Decision.unreplaced()), retryCommand(s.Agent))
}

// broken: pods do not become ready with the agent.
func broken(s *subject) string { return listed("failing with the agent: ", s.broken, "; ") }

// notInjected: a workload can't be injected.
func notInjected(s *subject) string { return conditions.FirstFew(s.bare, "; ") }

// overruled: another Instrumentation takes precedence.
func overruled(s *subject) string { return conditions.FirstFew(s.overruled, "; ") }

// leaving: the agent is being removed from a workload.
func leaving(s *subject) string { return summary.If(s.Decision.Leaving > 0, "%s", s.leaving()) }

// unpulled: an image of pods with the agent can't be pulled, most often the agent's own.
func unpulled(s *subject) string {
	return listed(fmt.Sprintf("an image can't be pulled for %d of %d workloads: ", len(s.unpulled), s.matched), s.unpulled, "; ")
}

// nothingMatched: no workload is matched, most often because of a typing error. The workloads of a
// whole cluster are not listed: too many of them are of no interest.
func nothingMatched(s *subject) string {
	switch {
	case s.matched > 0:
		return ""
	case s.Identity.Kind == injection.KindCluster:
		return "no workload is matched: spec.namespaceSelector and spec.matchers match no workload of the cluster, or those that match opt out"
	case len(s.Seen) == 0:
		return "no workload is matched: this namespace has no Deployment, StatefulSet or DaemonSet"
	}
	var names []string
	for i := range s.Seen {
		names = append(names, s.Seen[i].String())
	}
	slices.Sort(names)
	return "no workload is matched: spec.matchers matches none of the workloads of this namespace, or they opt out: " +
		conditions.FirstFew(names, ", ")
}

// injecting: pods are being replaced.
func injecting(s *subject) string { return listed(s.progress()+"; being replaced: ", s.going, ", ") }

// waiting: workloads wait for the rollout.
func waiting(s *subject) string { return listed(s.progress()+"; waiting: ", s.waiting, ", ") }

// injected: all workloads run with the agent.
func injected(s *subject) string { return s.progress() + s.unseen() }

func (s *subject) progress() string {
	return fmt.Sprintf("%d of %d workloads run with the agent", s.injected, s.matched)
}

// unseen names the variables that the agent sets where the containers had none. The images may set
// them, which can't be seen, and then the image's value is lost. It returns "" if there is no such
// variable. The first workload with such a variable stands for all, because they have the same
// agent.
func (f *StatusInput) unseen() string {
	for _, reported := range f.Decision.Workloads {
		injected := injection.InjectedBy(f.Seen[reported.Index].Template.Annotations, f.Identity.ID())
		if injected == nil {
			continue
		}
		for _, part := range injected.Parts {
			if names := part.Absent(); len(names) > 0 {
				return fmt.Sprintf("; variables of images can't be seen: if an image sets %s, its value is replaced",
					conditions.FirstFew(names, ", "))
			}
		}
	}
	return ""
}

// leaving says from which workloads the agent is being removed.
func (f *StatusInput) leaving() string {
	if f.Decision.Leaving == 0 {
		return "the agent is removed from all workloads"
	}
	keeping := slices.DeleteFunc(slices.Clone(f.Decision.From), func(index int) bool { return !mayKeepPods(&f.Seen[index].Rolled) })
	return fmt.Sprintf("the agent is being removed from %d workloads: %s%s", f.Decision.Leaving,
		conditions.FirstFew(f.namesOf(f.Decision.From), ", "), f.toDelete(keeping))
}

// retryCommand returns the command that makes Mainstay try a failed revision again.
func retryCommand(agent *injection.Agent) string {
	command := "kubectl annotate " + strings.ToLower(agent.Kind) + " " + agent.Name + " " + instrv1.AnnotationFailed + "-"
	if agent.Namespace != "" {
		command += " -n " + agent.Namespace
	}
	return command
}
