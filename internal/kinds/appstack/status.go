package appstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// Status returns the status of a defaulted AppStack, given what was observed, decided and written,
// without the times that WaitingSince sets.
func Status(stack *platformv1.AppStack, observed Observed, decided Decision, result plan.Result) platformv1.AppStackStatus {
	about := &subject{stack: stack, observed: observed, result: result}
	about.reportAll(decided)
	one := about.summarize()
	status := platformv1.AppStackStatus{
		ObservedGeneration: stack.Generation,
		ComponentSummary:   fmt.Sprintf("%d/%d", about.ready, len(stack.Spec.Components)),
		Components:         about.reported(),
		Conditions:         append(one.Conditions(about.progressing(one)), about.waiting(), about.paused()),
	}
	if first := about.first(platformv1.ComponentWaiting); first != nil && len(first.WaitsFor) > 0 {
		status.Waiting = fmt.Sprintf("%s: %s", first.Name, conditions.FirstFew(first.WaitsFor, ", "))
	}
	status.Phase = about.phase(one)
	return status
}

// subject is an AppStack to summarize.
type subject struct {
	stack    *platformv1.AppStack
	observed Observed
	result   plan.Result
	// components are what is left, and then the spec's, in its order.
	components []platformv1.ComponentStatus
	// ready counts the ready components of the spec, existing all objects of the stack.
	ready, existing int
	// holders are the finalizers of objects that are being deleted, as a text for each.
	holders []string
}

// reported returns the components for the status: at most as many as a stack may have, with texts
// of limited length.
func (s *subject) reported() []platformv1.ComponentStatus {
	all := s.components[:min(len(s.components), MaxComponents)]
	for i := range all {
		all[i].Message, all[i].Plan = conditions.Truncate(all[i].Message), conditions.Truncate(all[i].Plan)
	}
	return all
}

// isPaused reports whether the stack leaves its components as they are.
func (s *subject) isPaused() bool { return s.stack.Spec.Paused && !s.isGoing() }

func (s *subject) isGoing() bool { return s.stack.DeletionTimestamp != nil }

// reportAll sets components.
func (s *subject) reportAll(decided Decision) {
	taken := map[string]bool{}
	if !s.isGoing() {
		for _, c := range s.stack.Spec.Components {
			taken[c.Name] = true
		}
	}
	for _, step := range decided.Left {
		s.existing++
		reported := s.reportLeft(step)
		if taken[reported.Name] {
			reported.Name = step.Ref.Kind + "/" + step.Name
		}
		taken[reported.Name] = true
		s.components = append(s.components, reported)
	}
	steps := map[string]Step{}
	for _, step := range decided.Steps {
		steps[step.Name] = step
	}
	for _, c := range s.stack.Spec.Components {
		step, known := steps[c.Name]
		if !known {
			continue
		}
		if step.Existing != nil {
			s.existing++
		}
		reported := s.report(step)
		if reported.Phase == platformv1.ComponentReady {
			s.ready++
		}
		s.components = append(s.components, reported)
	}
}

// reportLeft returns the status of an object that should no longer exist.
func (s *subject) reportLeft(step Step) platformv1.ComponentStatus {
	reported := platformv1.ComponentStatus{Name: step.Name, Kind: step.Ref.Kind, Object: step.Ref.Name,
		Phase: platformv1.ComponentDeleting, Reason: api.ReasonDeleting}
	switch deleted := step.Existing.GetDeletionTimestamp(); {
	case s.isPaused() && deleted == nil:
		reported.Phase, reported.Reason, reported.Plan = platformv1.ComponentPaused, platformv1.ReasonPausedByUser, s.planned(step)
		reported.WaitsFor, reported.Message = step.WaitsFor, pausedMessage
	case step.Action == Wait:
		reported.Phase, reported.Reason = platformv1.ComponentWaiting, platformv1.ReasonWaiting
		reported.WaitsFor = step.WaitsFor
		reported.Message = s.deletedAfter(step)
	case deleted != nil:
		reported.Since = deleted
		reported.Message = "is being deleted" + s.keptBy(step.Ref, step.Existing)
	}
	if data := s.observed.dataAfter(step); data != "" && !isOrphaning(s.stack) {
		reported.Message = strings.TrimPrefix(reported.Message+"; "+data, "; ")
	}
	return reported
}

// keptBy returns which finalizers keep an object that is being deleted, as the end of a sentence,
// and notes them for the condition Waiting; "" if it has none.
func (s *subject) keptBy(ref plan.Ref, object component.Object) string {
	names := holders(object)
	if len(names) == 0 {
		return ""
	}
	s.holders = append(s.holders, fmt.Sprintf("%s %s is kept by %s", ref.Kind, ref.Name, conditions.FirstFew(names, ", ")))
	return ", and kept by its finalizers " + conditions.FirstFew(names, ", ")
}

// deletedAfter says what the deletion of an object waits for.
func (s *subject) deletedAfter(step Step) string {
	isKept := func(name string) bool {
		return !s.isGoing() && slices.ContainsFunc(s.stack.Spec.Components, func(c platformv1.Component) bool { return c.Name == name })
	}
	names := conditions.FirstFew(step.WaitsFor, ", ")
	switch {
	case slices.Contains(step.WaitsFor, step.Name):
		return "is deleted when the component of the same name, whose type has changed, is ready"
	case slices.ContainsFunc(step.WaitsFor, isKept):
		return "is deleted once these are ready without it, or gone: " + names
	}
	return "is deleted after " + names
}

// report returns the status of a component of the spec. The first matching row counts:
//
//	its object                                     phase
//	has its name, and is not the stack's           Failed: Conflict
//	was refused by the API server                  Failed: Refused
//	is changed by another client again and again   Failed: Contested
//	would be written, were the stack not paused    Paused, with the plan
//	does not exist, and another one that is being
//	  deleted still has its name                   Deleting
//	waits for components                           Waiting
//	is being deleted by someone else               Deleting
//	was written just now, could not be written,
//	  or has not reported                          Progressing
//	is Ready, and hidden by what it depends on     Waiting
//	is Ready, and has no value of an output        Progressing
//	is Ready                                       Ready
//	is Degraded or Stalled                         Failed
//	is anything else                               Progressing
func (s *subject) report(step Step) platformv1.ComponentStatus {
	reported := platformv1.ComponentStatus{Name: step.Name, Kind: step.Ref.Kind, Object: step.Ref.Name}
	set := func(phase platformv1.ComponentPhase, reason, message string) platformv1.ComponentStatus {
		reported.Phase, reported.Reason, reported.Message = phase, reason, message
		return reported
	}
	refusal, isRefused := s.result.Refusals[step.Ref]
	switch {
	case slices.Contains(s.result.Conflicts, step.Ref):
		return set(platformv1.ComponentFailed, api.ReasonConflict, fmt.Sprintf("%s exists and was not created by this AppStack", step.Ref))
	case isRefused:
		return set(platformv1.ComponentFailed, api.ReasonRefused, refusal)
	case s.contested(step) != "":
		return set(platformv1.ComponentFailed, api.ReasonContested, s.contested(step))
	case s.isWithheld(step):
		reported.Plan, reported.WaitsFor = s.planned(step), step.WaitsFor
		return set(platformv1.ComponentPaused, platformv1.ReasonPausedByUser, pausedMessage)
	case step.Existing == nil && slices.Contains(s.result.Terminating, step.Ref):
		return s.reportTerminating(step, reported)
	case s.isWaiting(step):
		return s.reportWaiting(step, reported)
	case step.Existing == nil || s.result.Changed(step.Ref) || s.isUnwritten(step):
		return set(platformv1.ComponentProgressing, platformv1.ReasonNotReported, "")
	case step.Existing.GetDeletionTimestamp() != nil:
		return set(platformv1.ComponentDeleting, api.ReasonTerminating, "is being deleted, and will be created again")
	}
	return s.reportExisting(step, reported)
}

// contested returns what is said of a component that another client changes or deletes again and
// again; "" of any other.
func (s *subject) contested(step Step) string {
	at := slices.IndexFunc(s.result.SlowedChildren, func(one plan.Contest) bool { return one.Ref == step.Ref })
	if at < 0 {
		return ""
	}
	return s.result.SlowedChildren[at].String()
}

// pausedMessage is that of a component whose change is withheld.
const pausedMessage = "spec.paused is true"

// isWithheld reports whether spec.paused keeps a component from being created or changed, now or
// once what it waits for is ready.
func (s *subject) isWithheld(step Step) bool {
	if slices.Contains(s.result.Withheld, step.Ref) {
		return true
	}
	return s.isPaused() && step.Action == Wait && s.isWaiting(step)
}

// isUnwritten reports whether a component that exists differs from what it should be and was not
// reached, or could not be written just now.
func (s *subject) isUnwritten(step Step) bool {
	return step.Action == Apply && slices.Contains(s.result.Held, step.Ref) && step.isChanged()
}

// isWaiting reports whether a component was not created or changed because of others. One that
// exists, and is as it should be, does not wait.
func (s *subject) isWaiting(step Step) bool {
	if step.Existing != nil {
		isTransient := s.result.Failure != nil && s.result.Failure.Transient
		return waitsWithChange(&step) || s.isUnwritten(step) && !isTransient
	}
	return step.Action == Wait || !s.result.Created(step.Ref) && len(step.After) > 0
}

// reportTerminating completes the status of a component that is not created yet, because an earlier
// object has its name until it is gone: one of a former AppStack of this name, for example.
func (s *subject) reportTerminating(step Step, reported platformv1.ComponentStatus) platformv1.ComponentStatus {
	reported.Phase, reported.Reason = platformv1.ComponentDeleting, api.ReasonTerminating
	keptBy := ""
	// What belonged to a former AppStack may have no deletion timestamp yet: the garbage collector is
	// about to delete it.
	if earlier := s.observed.Children[step.Ref].Object; earlier != nil && earlier.GetDeletionTimestamp() != nil {
		reported.Since, keptBy = earlier.GetDeletionTimestamp(), s.keptBy(step.Ref, earlier)
	}
	reported.Message = fmt.Sprintf("an earlier object of this name is being deleted%s: the component is created once that is gone", keptBy)
	return reported
}

// reportWaiting completes the status of a component that waits.
func (s *subject) reportWaiting(step Step, reported platformv1.ComponentStatus) platformv1.ComponentStatus {
	reported.Phase, reported.Reason = platformv1.ComponentWaiting, platformv1.ReasonWaiting
	reported.WaitsFor = step.WaitsFor
	if len(step.WaitsFor) == 0 {
		reported.WaitsFor = namesOf(s.stack, step.Name)
	}
	reported.Message = "waits until these are ready: " + conditions.FirstFew(reported.WaitsFor, ", ")
	if step.Existing != nil {
		reported.Plan = s.planned(step)
	}
	return reported
}

// WaitingSince sets since when each component waits: since the former status has said so, or since
// now.
func WaitingSince(status, former []platformv1.ComponentStatus, now metav1.Time) {
	began := map[string]*metav1.Time{}
	for i := range former {
		if len(former[i].WaitsFor) > 0 {
			began[former[i].Name] = former[i].Since
		}
	}
	for i := range status {
		if len(status[i].WaitsFor) == 0 {
			continue
		}
		if status[i].Since = began[status[i].Name]; status[i].Since == nil {
			status[i].Since = &now
		}
	}
}

// reportExisting completes the status of a component by what its object says.
func (s *subject) reportExisting(step Step, reported platformv1.ComponentStatus) platformv1.ComponentStatus {
	ready := current(step.Existing, conditions.Ready)
	if ready == nil {
		reported.Phase, reported.Reason = platformv1.ComponentProgressing, platformv1.ReasonNotReported
		return reported
	}
	reported.Reason, reported.Message = ready.Reason, conditions.Truncate(ready.Message)
	switch {
	case ready.Status == metav1.ConditionTrue && len(step.HiddenBy) > 0:
		reported.Phase, reported.Reason = platformv1.ComponentWaiting, platformv1.ReasonWaiting
		reported.WaitsFor = step.HiddenBy
		reported.Message = "is ready, and reachable from outside once these are ready: " + conditions.FirstFew(step.HiddenBy, ", ")
	case ready.Status == metav1.ConditionTrue && missingOutput(s.stack, step.Name, step.Existing) != "":
		reported.Phase, reported.Reason = platformv1.ComponentProgressing, platformv1.ReasonOutputMissing
		reported.Message = missingOutput(s.stack, step.Name, step.Existing) + " has no value yet that can be injected"
	case ready.Status == metav1.ConditionTrue:
		reported.Phase, reported.Message = platformv1.ComponentReady, ""
	case isWrong(step.Existing):
		reported.Phase = platformv1.ComponentFailed
	default:
		reported.Phase = platformv1.ComponentProgressing
	}
	return reported
}

// isWrong reports whether an object says that something is wrong with it.
func isWrong(object component.Object) bool {
	return slices.ContainsFunc([]string{conditions.Degraded, conditions.Stalled}, func(kind string) bool {
		found := current(object, kind)
		return found != nil && found.Status == metav1.ConditionTrue
	})
}

// first returns the first component of a phase; nil if there is none.
func (s *subject) first(phase platformv1.ComponentPhase) *platformv1.ComponentStatus {
	at := slices.IndexFunc(s.components, func(c platformv1.ComponentStatus) bool { return c.Phase == phase })
	if at < 0 {
		return nil
	}
	return &s.components[at]
}

// firstFailed returns the first failed component that depends on no other failed one, because what
// depends on one may have failed with it; nil if none has failed.
func (s *subject) firstFailed() *platformv1.ComponentStatus {
	hasFailed, needs := map[string]bool{}, map[string][]string{}
	for _, c := range s.components {
		hasFailed[c.Name] = hasFailed[c.Name] || c.Phase == platformv1.ComponentFailed
	}
	for _, c := range s.stack.Spec.Components {
		needs[c.Name] = c.DependsOn
	}
	var first *platformv1.ComponentStatus
	for i := range s.components {
		if one := &s.components[i]; one.Phase == platformv1.ComponentFailed {
			if !reaches(one.Name, needs, hasFailed, map[string]bool{one.Name: true}) {
				return one
			}
			first = cmp.Or(first, one) // of components that depend on each other
		}
	}
	return first
}

// reaches reports whether a component depends on another one that has failed, directly or not. seen
// are those that were looked at.
func reaches(name string, needs map[string][]string, hasFailed, seen map[string]bool) bool {
	return slices.ContainsFunc(needs[name], func(needed string) bool {
		if seen[needed] {
			return false
		}
		seen[needed] = true
		return hasFailed[needed] || reaches(needed, needs, hasFailed, seen)
	})
}

// named returns the components of some phases, as a list for people.
func (s *subject) named(phases ...platformv1.ComponentPhase) string {
	var names []string
	for _, c := range s.components {
		if slices.Contains(phases, c.Phase) {
			names = append(names, c.Name)
		}
	}
	return conditions.FirstFew(names, ", ")
}

// waiting returns the condition Waiting.
func (s *subject) waiting() metav1.Condition {
	var texts []string
	for _, c := range s.components {
		if c.Phase == platformv1.ComponentWaiting {
			texts = append(texts, fmt.Sprintf("%s waits for %s", c.Name, conditions.FirstFew(c.WaitsFor, ", ")))
		}
	}
	if len(texts)+len(s.holders) == 0 {
		return conditions.False(platformv1.ConditionWaiting, platformv1.ReasonNothingWaits, "no component waits for another")
	}
	message := strings.Join(slices.DeleteFunc([]string{conditions.FirstFew(s.holders, "; "), conditions.FirstFew(texts, "; ")},
		func(text string) bool { return text == "" }), "; ")
	return conditions.True(platformv1.ConditionWaiting, platformv1.ReasonWaitingForComponents, message)
}

// paused returns the condition Paused.
func (s *subject) paused() metav1.Condition {
	if s.isPaused() {
		return conditions.True(platformv1.ConditionPaused, platformv1.ReasonPausedByUser, "spec.paused is true: nothing is created, changed or deleted")
	}
	return conditions.False(platformv1.ConditionPaused, platformv1.ReasonActive, "Mainstay keeps the components as the spec says")
}

// progressing returns the condition Progressing.
func (s *subject) progressing(one summary.Summary) metav1.Condition {
	under := s.named(platformv1.ComponentProgressing, platformv1.ComponentDeleting)
	if under == "" {
		return conditions.False(conditions.Progressing, one.Reason, "no component is being created, changed or deleted")
	}
	return conditions.True(conditions.Progressing, cmp.Or(one.Reason, platformv1.ReasonDeploying), "under way: "+under)
}

// phase returns the phase that follows from the summary.
func (s *subject) phase(one summary.Summary) platformv1.AppStackPhase {
	switch {
	case s.isGoing():
		return platformv1.PhaseDeleting
	case one.Reason == platformv1.ReasonPausedByUser:
		return platformv1.PhasePaused
	case one.Severity == summary.Working:
		return platformv1.PhaseRunning
	case one.IsProblem() && s.existing > 0 && !s.isRefusedAsAWhole():
		return platformv1.PhaseDegraded
	case one.IsProblem():
		return platformv1.PhaseFailed
	case s.existing == 0 && len(s.result.Changes) == 0:
		return platformv1.PhasePending
	default:
		return platformv1.PhaseDeploying
	}
}

// isRefusedAsAWhole reports whether nothing of the spec is carried out.
func (s *subject) isRefusedAsAWhole() bool {
	return s.result.Failure != nil && s.result.Failure.Stalled && len(s.result.Refusals) == 0
}
