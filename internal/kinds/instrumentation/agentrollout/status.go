package agentrollout

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// maxListed limits the workloads in the status; the schema's description states the same number.
const maxListed = 50

// StatusInput is what a status is computed from.
type StatusInput struct {
	// Identity says which Instrumentation it is. Agent is nil if its spec is invalid or it is being
	// deleted.
	Identity injection.Identity
	Agent    *injection.Agent
	// Generation is the object's generation; Deleting reports that it is being deleted.
	Generation int64
	Deleting   bool
	Seen       []ObservedWorkload
	Decision   Decision
	// Refused has, by index, why the API server refused the write of a workload.
	Refused map[int]string
	// Unmade has, by index, why a workload could not be written; the write will be retried.
	Unmade map[int]string
	// Failure says why the reconcile did not complete; nil if it did.
	Failure *plan.Failure
}

// counts sums up the workloads.
type counts struct {
	matched, injected, pending, failed int
	going, waiting, overruled          []string
	// broken do not become ready, bare can't be injected, and the agent can't be removed from stuck;
	// each entry includes the cause.
	broken, bare, stuck []string
	// unpulled have pods whose image can't be pulled; each entry includes the message.
	unpulled []string
	// violating have no agent, or an earlier one, because policies refuse its image; tolerated have
	// one that policies refuse.
	violating, tolerated []string
	listed               []Listed
}

// Listed is a workload in the status.
type Listed struct {
	// Index is the workload's index in the observed workloads.
	Index  int
	Status instrv1.WorkloadStatus
}

// News returns the failed workloads in the status that before does not contain in the same form.
func (f *StatusInput) News(before []instrv1.WorkloadStatus) []Listed {
	listed := f.add().listed
	return slices.DeleteFunc(listed[:min(len(listed), maxListed)], func(one Listed) bool {
		return one.Status.State != instrv1.StateFailed || slices.Contains(before, one.Status)
	})
}

// add returns the counts of the workloads by their state, and the list of those to report, sorted.
func (f *StatusInput) add() counts {
	s := counts{matched: len(f.Decision.Workloads)}
	for _, reported := range f.Decision.Workloads {
		if refusal, isRefused := f.Refused[reported.Index]; isRefused {
			reported.State, reported.Reason, reported.Message = instrv1.StateFailed, instrv1.WorkloadRefused, refusal
		}
		if failure, isUnmade := f.Unmade[reported.Index]; isUnmade {
			reported.State, reported.Reason, reported.Message, reported.Progressing = instrv1.StatePending, instrv1.WorkloadAsked,
				"could not be written, retrying: "+failure, false
		}
		s.note(f.nameOf(reported.Index), reported)
		if reported.State == "" {
			continue
		}
		s.listed = append(s.listed, f.listOne(reported.Index, reported))
	}
	for _, reported := range f.Decision.Tolerated {
		s.tolerated = append(s.tolerated, f.nameOf(reported.Index)+": "+reported.Message)
	}
	f.addStuck(&s)
	slices.SortStableFunc(s.listed, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Status.State, b.Status.State), cmp.Compare(a.Status.Namespace, b.Status.Namespace),
			cmp.Compare(a.Status.Name, b.Status.Name))
	})
	return s
}

// addStuck adds the workloads that are no longer matched, and from which the API server does not
// let us remove the agent.
func (f *StatusInput) addStuck(s *counts) {
	for _, index := range f.Decision.From {
		refusal, isRefused := f.Refused[index]
		if !isRefused || slices.ContainsFunc(f.Decision.Workloads, func(reported ReportedWorkload) bool { return reported.Index == index }) {
			continue
		}
		s.stuck = append(s.stuck, f.nameOf(index)+": "+refusal)
		s.listed = append(s.listed, f.listOne(index, ReportedWorkload{State: instrv1.StateFailed, Reason: instrv1.WorkloadRefused,
			Message: "the agent can't be removed: " + refusal}))
	}
}

// listOne returns the entry of a workload in status.workloads.
func (f *StatusInput) listOne(index int, reported ReportedWorkload) Listed {
	one := &f.Seen[index]
	status := instrv1.WorkloadStatus{
		Name: one.String(), State: reported.State, Reason: reported.Reason, Message: conditions.Truncate(reported.Message),
	}
	if f.Identity.Kind == injection.KindCluster {
		status.Namespace = one.Namespace
	}
	return Listed{index, status}
}

// nameOf returns a workload's name for a message.
func (f *StatusInput) nameOf(index int) string { return nameOf(f.Identity.Kind, &f.Seen[index]) }

// nameOf returns a workload's name for a message about an object of a kind. For a
// ClusterInstrumentation it includes the namespace.
func nameOf(kind string, one *ObservedWorkload) string {
	if kind == injection.KindCluster {
		return one.String() + " in " + one.Namespace
	}
	return one.String()
}

// namesOf returns the names of several workloads.
func (f *StatusInput) namesOf(indices []int) []string {
	var names []string
	for _, index := range indices {
		names = append(names, f.nameOf(index))
	}
	return names
}

// note counts one workload.
func (s *counts) note(name string, reported ReportedWorkload) {
	switch reported.State {
	case instrv1.StateFailed:
		s.failed++
		switch reported.Reason {
		case instrv1.WorkloadOverruled:
			s.overruled = append(s.overruled, name+": "+reported.Message)
		case instrv1.WorkloadMountPathTaken, instrv1.WorkloadVariableTaken, instrv1.WorkloadVariableUnknown, instrv1.WorkloadUnsupported,
			instrv1.WorkloadTooLarge, instrv1.WorkloadRefused:
			s.bare = append(s.bare, name+": "+reported.Message)
		case instrv1.WorkloadPolicyViolation:
			s.bare = append(s.bare, name+": "+reported.Message)
			s.violating = append(s.violating, name+": "+reported.Message)
		case instrv1.WorkloadCanaryFailed:
		default:
			s.broken = append(s.broken, name+": "+reported.Message)
		}
	case instrv1.StatePending:
		s.pending++
		if reported.Reason == api.ReasonImagePullFailed {
			s.unpulled = append(s.unpulled, name+": "+reported.Message)
		}
		if reported.Progressing {
			s.going = append(s.going, name)
		} else {
			s.waiting = append(s.waiting, fmt.Sprintf("%s (%s: %s)", reported.Reason, name, reported.Message))
		}
	default:
		s.injected++
	}
}

// Status returns the status of an Instrumentation. The reconciler adds times and the generation to
// its conditions.
func (f *StatusInput) Status() instrv1.InstrumentationStatus {
	s := f.add()
	slices.Sort(s.going)
	status := instrv1.InstrumentationStatus{
		ObservedGeneration: f.Generation,
		Matched:            count(s.matched), Injected: count(s.injected), Pending: count(s.pending), Failed: count(s.failed),
		Conditions: f.conditions(&s),
	}
	status.Phase = summary.Phase(status.Conditions)
	for _, one := range s.listed[:min(len(s.listed), maxListed)] {
		status.Workloads = append(status.Workloads, one.Status)
	}
	if f.Agent != nil {
		status.Revision = f.Agent.Revision
	}
	return status
}

func count(n int) int32 { return int32(n) } //nolint:gosec // etcd does not hold that many

// conditions returns the conditions of the summary, and Overruled and PolicyViolation where they
// apply. Progressing is True while pods are being replaced, even if something is wrong.
func (f *StatusInput) conditions(s *counts) []metav1.Condition {
	progressing := conditions.False(instrv1.ConditionProgressing, instrv1.ReasonSettled, "no pods are being replaced")
	switch {
	case len(s.going) > 0:
		progressing = conditions.True(instrv1.ConditionProgressing, instrv1.ReasonInjecting,
			"being replaced: "+conditions.FirstFew(s.going, ", "))
	case f.Decision.Leaving > 0:
		progressing = conditions.True(instrv1.ConditionProgressing, instrv1.ReasonRestoring, f.leaving())
	}
	all := (&subject{f, s}).summarize().Conditions(progressing)
	if len(s.overruled) > 0 {
		all = append(all, conditions.True(instrv1.ConditionOverruled, instrv1.ReasonOverruled, conditions.FirstFew(s.overruled, "; ")))
	}
	switch {
	case len(s.violating) > 0:
		all = append(all, conditions.True(api.ConditionPolicyViolation, api.ReasonPolicyViolation, conditions.FirstFew(s.violating, "; ")))
	case len(s.tolerated) > 0:
		all = append(all, conditions.True(api.ConditionPolicyViolation, api.ReasonTolerated,
			conditions.FirstFew(s.tolerated, "; ")+": tolerated, because it already runs"))
	}
	return all
}
