package injection

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// maxTold is how many workloads the status names; the schema's text says so.
const maxTold = 50

// Facts are what a status is made of.
type StatusInput struct {
	// Agent is the Instrumentation; nil if its spec can't be carried out, or it is being deleted: Identity then says which it is.
	Agent    *Agent
	Identity Identity
	// Generation is that of the object, Deleting tells that it is being deleted.
	Generation int64
	Deleting   bool
	Seen       []ObservedWorkload
	Decision   Decision
	// Refused says, of workloads by their places, why the API server did not let them be written.
	Refused map[int]string
	// Unmade says, of workloads that could not be written and will be tried again, why.
	Unmade map[int]string
	// Failure is why not all was done; nil if it was.
	Failure *plan.Failure
}

// sum is what the workloads come to.
type counts struct {
	matched, injected, pending, failed int
	going, waiting, overruled          []string
	// broken do not come up, bare can't be injected, and stuck are those that the agent can't be taken out of; each with why.
	broken, bare, stuck []string
	listed              []Listed
}

// Listed is a workload that the status names.
type Listed struct {
	// Index is its place among those that were seen.
	Index  int
	Status instrv1.WorkloadStatus
}

// News are those of the workloads that the status names which have failed, and of which that was not told before.
func (f *StatusInput) News(before []instrv1.WorkloadStatus) []Listed {
	listed := f.add().listed
	return slices.DeleteFunc(listed[:min(len(listed), maxTold)], func(one Listed) bool {
		return one.Status.State != instrv1.StateFailed || slices.Contains(before, one.Status)
	})
}

func (f *StatusInput) add() counts {
	s := counts{matched: len(f.Decision.Workloads)}
	for _, told := range f.Decision.Workloads {
		if refusal, isRefused := f.Refused[told.Index]; isRefused {
			told.State, told.Reason, told.Message = instrv1.StateFailed, instrv1.WorkloadRefused, refusal
		}
		if failure, isUnmade := f.Unmade[told.Index]; isUnmade {
			told.State, told.Reason, told.Message, told.Progressing = instrv1.StatePending, instrv1.WorkloadAsked,
				"it could not be written, and is tried again: "+failure, false
		}
		s.note(f.nameOf(told.Index), told)
		if told.State == "" {
			continue
		}
		s.listed = append(s.listed, f.listOne(told.Index, told))
	}
	f.addStuck(&s)
	slices.SortStableFunc(s.listed, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Status.State, b.Status.State), cmp.Compare(a.Status.Namespace, b.Status.Namespace),
			cmp.Compare(a.Status.Name, b.Status.Name))
	})
	return s
}

// addStuck adds the workloads that are not matched any more, and that the API server does not let us take the agent out of.
func (f *StatusInput) addStuck(s *counts) {
	for _, index := range f.Decision.From {
		refusal, isRefused := f.Refused[index]
		if !isRefused || slices.ContainsFunc(f.Decision.Workloads, func(told ReportedWorkload) bool { return told.Index == index }) {
			continue
		}
		s.stuck = append(s.stuck, f.nameOf(index)+": "+refusal)
		s.listed = append(s.listed, f.listOne(index, ReportedWorkload{State: instrv1.StateFailed, Reason: instrv1.WorkloadRefused,
			Message: "the agent can't be taken out: " + refusal}))
	}
}

// listOne is a workload in status.workloads.
func (f *StatusInput) listOne(index int, told ReportedWorkload) Listed {
	one := &f.Seen[index]
	status := instrv1.WorkloadStatus{Name: one.String(), State: told.State, Reason: told.Reason, Message: told.Message}
	if f.identity().Kind == KindCluster {
		status.Namespace = one.Namespace
	}
	return Listed{index, status}
}

// nameOf is a workload's name in a message.
func (f *StatusInput) nameOf(index int) string { return f.identity().nameOf(&f.Seen[index]) }

// nameOf is a workload's name in a message about an Instrumentation: one of the cluster has workloads in several namespaces.
func (i Identity) nameOf(one *ObservedWorkload) string {
	if i.Kind == KindCluster {
		return one.String() + " in " + one.Namespace
	}
	return one.String()
}

// identity is that of the Instrumentation, by whichever of the fields says it.
func (f *StatusInput) identity() Identity {
	if f.Agent != nil {
		return f.Agent.Identity
	}
	return f.Identity
}

// namesOf are the names of several workloads.
func (f *StatusInput) namesOf(indices []int) []string {
	var names []string
	for _, index := range indices {
		names = append(names, f.nameOf(index))
	}
	return names
}

// note counts one workload.
func (s *counts) note(name string, told ReportedWorkload) {
	switch told.State {
	case instrv1.StateFailed:
		s.failed++
		switch told.Reason {
		case instrv1.WorkloadOverruled:
			s.overruled = append(s.overruled, name+": "+told.Message)
		case instrv1.WorkloadMountPathTaken, instrv1.WorkloadVariableTaken, instrv1.WorkloadVariableUnknown, instrv1.WorkloadUnsupported,
			instrv1.WorkloadTooLarge, instrv1.WorkloadRefused:
			s.bare = append(s.bare, name+": "+told.Message)
		case instrv1.WorkloadCanaryFailed:
		default:
			s.broken = append(s.broken, name+": "+told.Message)
		}
	case instrv1.StatePending:
		s.pending++
		if told.Progressing {
			s.going = append(s.going, name)
		} else {
			s.waiting = append(s.waiting, fmt.Sprintf("%s (%s: %s)", told.Reason, name, told.Message))
		}
	default:
		s.injected++
	}
}

// Status is what there is to say of an Instrumentation. Conditions come without times and generation: the loop adds them.
func (f *StatusInput) Status() instrv1.InstrumentationStatus {
	s := f.add()
	slices.Sort(s.going)
	status := instrv1.InstrumentationStatus{
		ObservedGeneration: f.Generation,
		Matched:            count(s.matched), Injected: count(s.injected), Pending: count(s.pending), Failed: count(s.failed),
		Conditions: f.conditions(&s),
	}
	for _, one := range s.listed[:min(len(s.listed), maxTold)] {
		status.Workloads = append(status.Workloads, one.Status)
	}
	if f.Agent != nil {
		status.Revision = f.Agent.Revision
	}
	return status
}

func count(n int) int32 { return int32(n) } //nolint:gosec // etcd does not hold that many

// judge finds what there is to say. The first row that applies counts:
//
//	what is the case                                severity  reason
//	the spec can't be carried out                   Stalled   InvalidSpec
//	the API server refused something                Failed    Refused
//	a call failed and is tried again                Unknown   ReconcileFailed
//	it can't be taken out of a workload             Failed    Refused
//	it is being deleted                             UnderWay  Restoring
//	the canaries of this revision failed            Stalled   CanaryFailed
//	pods do not come up with the agent              Failed    RolloutFailed
//	a workload can't be injected                    Failed    NotInjected
//	another Instrumentation comes first             Failed    Overruled
//	it is being taken out of some workload          UnderWay  Restoring
//	no workload is matched                          Working   NothingMatched
//	pods are being replaced                         UnderWay  Injecting
//	workloads wait for their turn                   UnderWay  Waiting
//	none of these                                   Working   Injected
func (f *StatusInput) summarize(s *counts) summary.Summary {
	progress := fmt.Sprintf("%d of %d workloads run with the agent", s.injected, s.matched)
	switch {
	case f.Failure != nil:
		return summary.OfFailure(*f.Failure)
	case len(s.stuck) > 0:
		return summary.Of(summary.Failed, api.ReasonRefused, "it can't be taken out of %s", conditions.FirstFew(s.stuck, "; "))
	case f.Deleting:
		return summary.Of(summary.UnderWay, instrv1.ReasonRestoring, "%s", f.leaving())
	case f.Decision.Failure != "":
		return summary.Of(summary.Stalled, instrv1.ReasonCanaryFailed, "the revision failed on %s; it is being taken out there",
			f.Decision.Failure)
	case f.Agent != nil && f.Agent.HasFailed():
		return summary.Of(summary.Stalled, instrv1.ReasonCanaryFailed,
			"the revision failed on %s; it was taken out there, and nothing else gets it. "+
				"Change spec.agent or spec.matchers, or try it again: %s", f.Agent.Because, f.Agent.tryAgain())
	case len(s.broken) > 0:
		return summary.Of(summary.Failed, instrv1.ReasonRolloutFailed, "with the agent, %s", conditions.FirstFew(s.broken, "; "))
	case len(s.bare) > 0:
		return summary.Of(summary.Failed, instrv1.ReasonNotInjected, "%s", conditions.FirstFew(s.bare, "; "))
	case len(s.overruled) > 0:
		return summary.Of(summary.Failed, instrv1.ReasonOverruled, "%s", conditions.FirstFew(s.overruled, "; "))
	case f.Decision.Leaving > 0:
		return summary.Of(summary.UnderWay, instrv1.ReasonRestoring, "%s", f.leaving())
	case s.matched == 0:
		return summary.Of(summary.Working, instrv1.ReasonNothingMatched, "no workload is matched")
	case len(s.going) > 0:
		return summary.Of(summary.UnderWay, instrv1.ReasonInjecting, "%s; being replaced: %s", progress, conditions.FirstFew(s.going, ", "))
	case len(s.waiting) > 0:
		return summary.Of(summary.UnderWay, instrv1.ReasonWaiting, "%s; waiting: %s", progress, conditions.FirstFew(s.waiting, ", "))
	}
	return summary.Of(summary.Working, instrv1.ReasonInjected, "%s%s", progress, f.unseen())
}

// unseen says which variables the agent has set where the containers had none: their images may have some, which nobody can see, and which count no
// more. It is empty where there is none. The first workload that has such a variable stands for all: they have the same agent.
func (f *StatusInput) unseen() string {
	for _, told := range f.Decision.Workloads {
		injection := of(Injected(f.Seen[told.Index].Template.Annotations), f.identity().ID())
		if injection == nil {
			continue
		}
		for _, part := range injection.Parts {
			if names := part.absent(); len(names) > 0 {
				return fmt.Sprintf("; what is set in an image can't be seen: where one sets %s, its value is replaced",
					conditions.FirstFew(names, ", "))
			}
		}
	}
	return ""
}

// leaving says what the agent is being taken out of.
func (f *StatusInput) leaving() string {
	if f.Decision.Leaving == 0 {
		return "it is taken out of all workloads"
	}
	return fmt.Sprintf("it is being taken out of %d workloads: %s", f.Decision.Leaving, conditions.FirstFew(f.namesOf(f.Decision.From), ", "))
}

// tryAgain is the command that has a failed revision tried again.
func (a *Agent) tryAgain() string {
	command := "kubectl annotate " + strings.ToLower(a.Kind) + " " + a.Name + " " + instrv1.AnnotationFailed + "-"
	if a.Namespace != "" {
		command += " -n " + a.Namespace
	}
	return command
}

// conditions are those of the verdict, and Overruled where it is so. Progressing is True while pods are being replaced, whatever else is the matter.
func (f *StatusInput) conditions(s *counts) []metav1.Condition {
	progressing := conditions.False(instrv1.ConditionProgressing, instrv1.ReasonSettled, "nothing is on its way")
	switch {
	case len(s.going) > 0:
		progressing = conditions.True(instrv1.ConditionProgressing, instrv1.ReasonInjecting,
			"being replaced: "+conditions.FirstFew(s.going, ", "))
	case f.Decision.Leaving > 0:
		progressing = conditions.True(instrv1.ConditionProgressing, instrv1.ReasonRestoring, f.leaving())
	}
	all := f.summarize(s).Conditions(progressing)
	if len(s.overruled) > 0 {
		all = append(all, conditions.True(instrv1.ConditionOverruled, instrv1.ReasonOverruled, conditions.FirstFew(s.overruled, "; ")))
	}
	return all
}
