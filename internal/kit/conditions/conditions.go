// Package conditions makes conditions and their messages, merges those that a kind computes into those it had, and
// derives events from the difference. It is pure.
package conditions

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxMessage bounds the message of a condition, in bytes. The API allows 32,768; an event's
// note, which repeats it, 1,024. The rest of a long message is rarely its point.
const maxMessage = 1000

// Conditions that kinds share. Their API packages say what each means there.
const (
	// Ready is the one condition that every kind has, and that is news either way.
	Ready = "Ready"
	// Degraded is True when something is wrong that needs a look.
	Degraded = "Degraded"
	// Stalled is True when nothing gets better until someone acts, and absent otherwise.
	Stalled = "Stalled"
)

// True is a condition that is so; time and generation are added by Merge.
func True(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// False is a condition that is not so; time and generation are added by Merge.
func False(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// few is how many a message names: it has to stay short, and steady while hundreds are under way.
const few = 3

// FirstFew names three of several in a message, in their order, and says how many more there are: "a, b, c and 2 more".
func FirstFew(names []string, separator string) string { return First(few, names, separator) }

// First is as FirstFew, with another number than three.
func First(most int, names []string, separator string) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], separator), more)
	}
	return strings.Join(names, separator)
}

// Merge is wanted, sorted by type, as it should be stored at time now: observedGeneration is
// set, and lastTransitionTime is kept from old where the status is the same. Conditions of
// old that wanted lacks are dropped.
func Merge(old, wanted []metav1.Condition, generation int64, now metav1.Time) []metav1.Condition {
	merged := slices.Clone(wanted)
	for i := range merged {
		condition := &merged[i]
		condition.ObservedGeneration = generation
		condition.Message = truncate(condition.Message)
		condition.LastTransitionTime = now
		if before := find(old, condition.Type); before != nil && before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	slices.SortFunc(merged, func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	return merged
}

// Event is one thing worth telling about an object.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason is the condition's.
	Reason string
	// Note is the condition's message.
	Note string
}

// Events are what changed from old to merged and is worth telling: each condition whose status
// or reason is another now, if it is Ready, or True, or trouble that has passed. trouble
// names the conditions that are bad news when True. What several conditions tell with
// the same reason (Ready and Degraded, often) is told once.
func Events(old, merged []metav1.Condition, trouble ...string) []Event {
	var events []Event
	for _, condition := range merged {
		before := find(old, condition.Type)
		if before != nil && before.Status == condition.Status && before.Reason == condition.Reason {
			continue
		}
		if condition.Status == metav1.ConditionUnknown {
			continue // the error that made it so has an event of its own, with more to say
		}
		bad := slices.Contains(trouble, condition.Type)
		passed := bad && before != nil && before.Status == metav1.ConditionTrue
		if condition.Type != Ready && condition.Status != metav1.ConditionTrue && !passed {
			continue
		}
		event := Event{Type: corev1.EventTypeNormal, Reason: condition.Reason, Note: condition.Message}
		if bad && condition.Status == metav1.ConditionTrue {
			event.Type = corev1.EventTypeWarning
		}
		known := slices.IndexFunc(events, func(e Event) bool { return e.Reason == event.Reason })
		switch {
		case known < 0:
			events = append(events, event)
		case event.Type == corev1.EventTypeWarning:
			events[known] = event
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

// truncate cuts a message at maxMessage bytes, between characters.
func truncate(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("...")
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut] + "..."
}
