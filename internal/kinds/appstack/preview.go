package appstack

import (
	"fmt"
	"strings"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Preview returns what storing a stack would do to its components, one sentence for each that it
// would create, change or delete. before is the stack as it is stored; nil if it is new. A change
// is that of what the spec asks for: what was edited by hand, or waits already, is not named.
func Preview(stack, before *platformv1.AppStack, observed Observed) []string {
	if stack.Spec.Paused {
		return []string{"spec.paused is true: nothing is created, changed or deleted"}
	}
	decided := Decide(stack, observed)
	var sentences []string
	for _, step := range decided.Steps {
		if text := previewStep(step, before, observed); text != "" {
			sentences = append(sentences, fmt.Sprintf("component %s: %s", step.Name, text))
		}
	}
	for _, step := range decided.Left {
		text := fmt.Sprintf("component %s: %s %s is deleted", step.Name, step.Ref.Kind, step.Ref.Name)
		if len(step.WaitsFor) > 0 {
			text += " once nothing depends on it: " + conditions.FirstFew(step.WaitsFor, ", ")
		}
		sentences = append(sentences, text)
	}
	if len(sentences) == 0 {
		return []string{"no component is created, changed or deleted"}
	}
	return sentences
}

// previewStep returns what becomes of a component of the spec; "" for nothing.
func previewStep(step Step, before *platformv1.AppStack, observed Observed) string {
	if step.Object == nil {
		return ""
	}
	if step.Existing == nil {
		text := fmt.Sprintf("%s %s is created", step.Ref.Kind, step.Ref.Name)
		if observed.isTaken(step.Ref) {
			return fmt.Sprintf("%s %s exists and was not created by this AppStack: it is left alone", step.Ref.Kind, step.Ref.Name)
		}
		if len(step.WaitsFor) > 0 {
			text += " once these are ready: " + strings.Join(step.WaitsFor, ", ")
		}
		return text
	}
	fields := changedFields(step, before, observed)
	if fields == "" {
		return ""
	}
	text := fmt.Sprintf("%s %s is changed: %s", step.Ref.Kind, step.Ref.Name, fields)
	if len(step.WaitsFor) > 0 {
		text += "; once these are ready: " + strings.Join(step.WaitsFor, ", ")
	}
	return text
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
			was, err := Object(before, c, kind, Additions{IsExposed: isExposed, Variables: variables(before, c, step.Existing, observed)})
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
