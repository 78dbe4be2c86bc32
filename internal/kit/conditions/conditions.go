// Package conditions makes conditions and their messages, merges the computed conditions into the
// existing ones, and derives events from the difference. It is pure.
package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxMessage limits the message of a condition, in bytes. The API allows 32,768 bytes. An event's
// note, which repeats the message, allows 1,024.
const maxMessage = 1000

// Conditions that kinds share. Their API packages say what each means there.
const (
	// Ready is the condition that every kind has. An event reports each change of it.
	Ready = "Ready"
	// Progressing is True while a change is being carried out.
	Progressing = "Progressing"
	// Degraded is True when there is a problem that needs attention.
	Degraded = "Degraded"
	// Stalled is True when the object can only progress after someone acts. Otherwise it is absent.
	Stalled = "Stalled"
)

// True returns a condition with status True. Merge adds time and generation.
func True(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False returns a condition with status False. Merge adds time and generation.
func False(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// few is the number of names in a message. Messages must stay short, and must not change all the
// time while hundreds of objects change.
const few = 3

// FirstFew lists the first three names, and how many more there are: "a, b, c and 2 more".
func FirstFew(names []string, separator string) string { return First(few, names, separator) }

// First lists the first most names, and how many more there are.
func First(most int, names []string, separator string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], separator), more)
	}
	return strings.Join(names, separator)
}

// maxProblems is the number of problems of one object that are named: nobody reads more.
const maxProblems = 100

// FirstProblems returns the first hundred problems; the last of them says how many more there are.
// The time in which the API machinery joins problems grows with the square of their number: those
// of an object of half a megabyte took half a minute.
func FirstProblems(all field.ErrorList) field.ErrorList {
	more := len(all) - maxProblems
	if more <= 0 {
		return all
	}
	first := slices.Clone(all[:maxProblems])
	last := *first[maxProblems-1]
	last.Detail += fmt.Sprintf(" (and %d more problems)", more)
	first[maxProblems-1] = &last
	return first
}

// InOrder sorts problems by what they say, and returns them. Those of map entries come in any
// order, and the text of a condition must not change without a cause.
func InOrder(problems field.ErrorList) field.ErrorList {
	slices.SortFunc(problems, func(a, b *field.Error) int {
		if order := cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Detail, b.Detail)); order != 0 {
			return order
		}
		return strings.Compare(a.Error(), b.Error()) // which costs much more
	})
	return problems
}

// maxShown limits how much of a value a message repeats, in bytes.
const maxShown = 60

// Short returns a value as messages repeat it: no more than its first 60 bytes, cut between
// characters.
func Short(text string) string {
	if len(text) > maxShown {
		return cut(text, maxShown)
	}
	return text
}

// Merge returns wanted, sorted by type, as it is to be stored at the time now. It sets
// observedGeneration where wanted has none, and keeps lastTransitionTime from old where the status
// is the same.
// Conditions of old that wanted lacks are dropped.
func Merge(old, wanted []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	merged := slices.Clone(wanted)
	for i := range merged {
		condition := &merged[i]
		condition.ObservedGeneration = cmp.Or(condition.ObservedGeneration, generation)
		condition.Message = Truncate(condition.Message)
		condition.LastTransitionTime = now
		if before := find(old, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	slices.SortFunc(merged, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return merged
}

// Event is an event to record about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is the reason of the condition.
	Reason string
	// Note is the message of the condition.
	Note string
}

// Events returns the events for the changes from old to merged. An event is due for each condition
// whose status or reason has changed, if it is Ready, or is True, or is negative and was True.
// negative are the types of the conditions that report a problem when True. Several conditions with
// the same reason, often Ready and Degraded, share one event.
func Events(old, merged []metav1.Condition, negative ...string) []Event {
	var events []Event
	for _, condition := range merged {
		before := find(old, condition.Type)
		if before != nil && before.Status == condition.Status && before.Reason == condition.Reason {
			continue
		}
		if condition.Status == metav1.ConditionUnknown {
			continue // the error behind it has an event of its own, with more detail
		}
		isNegative := slices.Contains(negative, condition.Type)
		passed := isNegative && before != nil && before.Status == metav1.ConditionTrue
		if condition.Type != Ready && condition.Status != metav1.ConditionTrue && !passed {
			continue
		}
		event := Event{Type: corev1.EventTypeNormal, Reason: condition.Reason, Note: condition.Message}
		if isNegative && condition.Status == metav1.ConditionTrue {
			event.Type = corev1.EventTypeWarning
		}
		at := slices.IndexFunc(events, func(e Event) bool { return e.Reason == event.Reason })
		switch {
		case at < 0:
			events = append(events, event)
		case event.Type == corev1.EventTypeWarning:
			events[at] = event
		}
	}
	return events
}

func find(conditions []metav1.Condition, kind string) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

// Truncate limits a message to maxMessage bytes, and cuts between characters.
func Truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	return cut(message, maxMessage-len("..."))
}

// cut returns at most so many bytes of a longer text, and marks the cut. It cuts between
// characters: JSON has no half ones, so a status would never equal what is stored of it.
func cut(text string, most int) string {
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "..."
}
