package appstack

import (
	"fmt"
	"strings"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Preview returns what storing a stack would do to its components: a summary, and one sentence for
// each component that it would create, adopt, change or delete. before is the stack as it is
// stored; nil if it is new. A change is that of what the spec asks for: what was edited by hand, or
// waits already, is not named.
func Preview(stack, before *platformv1.AppStack, observed Observed) (summary string, sentences []string) {
	if stack.Spec.Paused {
		return "spec.paused is true: nothing is created, changed or deleted", nil
	}
	decided := Decide(stack, observed)
	counted := counts{}
	for _, step := range decided.Steps {
		effect, text := previewStep(step, before, observed)
		counted[effect]++
		if text != "" {
			sentences = append(sentences, fmt.Sprintf("component %s: %s", step.Name, text))
		}
	}
	for _, step := range decided.Left {
		counted[isDeleted]++
		text := fmt.Sprintf("component %s: %s %s is deleted", step.Name, step.Ref.Kind, step.Ref.Name)
		if len(step.WaitsFor) > 0 {
			text += " once nothing depends on it: " + conditions.FirstFew(step.WaitsFor, ", ")
		}
		sentences = append(sentences, text)
	}
	if len(sentences) == 0 {
		return "no component is created, changed or deleted", nil
	}
	return counted.summary(len(decided.Steps)), sentences
}

// effect is what a change of the stack does to a component, as the summary of a preview has it.
type effect string

// Effects.
const (
	isCreated   effect = "created"
	isAdopted   effect = "adopted"
	isChanged   effect = "changed"
	isDeleted   effect = "deleted"
	isInTheWay  effect = "left alone, because their names are taken"
	isUnchanged effect = "unchanged"
)

// counts is how many components have each effect.
type counts map[effect]int

// summary returns the counts as a sentence: clients show few warnings well, and the API server cuts
// off what exceeds 4 KiB.
func (c counts) summary(components int) string {
	var parts []string
	for _, one := range []effect{isCreated, isAdopted, isChanged, isDeleted, isInTheWay, isUnchanged} {
		if c[one] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[one], one))
		}
	}
	noun := "components"
	if components == 1 {
		noun = "component"
	}
	return fmt.Sprintf("%d %s: %s", components, noun, strings.Join(parts, ", "))
}

// previewStep returns what becomes of a component of the spec, and a sentence about it; "" if
// nothing does.
func previewStep(step Step, before *platformv1.AppStack, observed Observed) (effect, string) {
	if step.Object == nil {
		return isUnchanged, ""
	}
	if step.Existing == nil {
		does := isCreated
		if observed.isAdopted(step.Ref) {
			does = isAdopted
		}
		text := fmt.Sprintf("%s %s is %s", step.Ref.Kind, step.Ref.Name, does)
		if observed.isTaken(step.Ref) {
			return isInTheWay, fmt.Sprintf("%s %s exists and was not created by this AppStack: it is left alone", step.Ref.Kind, step.Ref.Name)
		}
		if len(step.WaitsFor) > 0 {
			text += " once these are ready: " + strings.Join(step.WaitsFor, ", ")
		}
		return does, text
	}
	fields := changedFields(step, before, observed)
	if fields == "" {
		return isUnchanged, ""
	}
	text := fmt.Sprintf("%s %s is changed: %s", step.Ref.Kind, step.Ref.Name, fields)
	if len(step.WaitsFor) > 0 {
		text += "; once these are ready: " + strings.Join(step.WaitsFor, ", ")
	}
	return isChanged, text
}

// changedFields returns what differs between what a stored stack and its change ask for.
func changedFields(step Step, before *platformv1.AppStack, observed Observed) string {
	if before != nil {
		for i := range before.Spec.Components {
			c := &before.Spec.Components[i]
			kind, known := KindOf(c, observed.Kinds)
			if c.Name != step.Name || !known || kind.Ref(before.Namespace, ObjectName(before.Name, c.Name)) != step.Ref {
				continue
			}
			isExposed := isReady(step.Existing) && len(step.HiddenBy) == 0 || isExposedAlready(step.Existing, kind)
			with := additions(before, c, step.Existing, observed)
			with.IsExposed = isExposed
			was, err := Object(before, c, kind, with)
			if err == nil {
				return changes(was, step.Object, true)
			}
		}
	}
	return changes(step.Existing, step.Object, false)
}

// planned returns what is done about a component once the stack is no longer paused; "" for
// nothing.
func (s *subject) planned(step Step) string {
	text := ""
	switch {
	case step.IsLeft && step.Action == Leave:
		return ""
	case step.IsLeft && len(step.WaitsFor) > 0:
		return "delete, after " + conditions.FirstFew(step.WaitsFor, ", ")
	case step.IsLeft:
		return "delete"
	case step.Existing == nil && s.observed.isTaken(step.Ref):
		return fmt.Sprintf("leave alone: %s exists and was not created by this AppStack", step.Ref)
	case step.Existing == nil && s.observed.isAdopted(step.Ref):
		text = "adopt"
	case step.Existing == nil:
		text = "create"
	default:
		text = "change: " + changes(step.Existing, step.Object, false)
	}
	if s.isPaused() && len(step.WaitsFor) > 0 {
		text += ", once these are ready: " + conditions.FirstFew(step.WaitsFor, ", ")
	}
	return text
}
