// Package summary has the one thing that a kind says about an object, and the conditions that
// follow from it. A kind summarizes by an ordered list of rules (Rule), or by one function with its
// table in the comment; what follows is the same for all kinds, and is here. It is pure.
package summary

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Severity is how bad a summary is. The values are in order, from the best to the worst.
type Severity int

const (
	// Working: everything is as the spec says.
	Working Severity = iota
	// Unknown: a change could not be made, and until it can the state is unknown.
	Unknown
	// UnderWay: the object is becoming what the spec says, and nothing is wrong.
	UnderWay
	// Waiting: the object will become what the spec says once something else changes or a user agrees.
	Waiting
	// Degraded: something is wrong that may pass without help.
	Degraded
	// Failed: something is wrong that someone has to look at.
	Failed
	// Stalled: nothing gets better until someone acts.
	Stalled
)

// Summary is the one thing to say about an object. The zero value says that everything is well, and
// still needs a reason and a message.
type Summary struct {
	Severity Severity
	// Reason is a condition reason.
	Reason string
	// Message is for people. It has no random parts, because it is written to the status whenever it
	// changes.
	Message string
}

// Of returns a summary whose message is formatted as by fmt.Sprintf.
func Of(severity Severity, reason, format string, values ...any) Summary {
	return Summary{Severity: severity, Reason: reason, Message: fmt.Sprintf(format, values...)}
}

// OfFailure returns the summary where not all of a plan was applied:
//
//	the failure                         severity
//	is transient                        Unknown
//	waits for someone who acts          Stalled
//	otherwise, such as a refusal        Failed
func OfFailure(failure plan.Failure) Summary {
	summary := Summary{Severity: Failed, Reason: failure.Reason, Message: failure.Message}
	switch {
	case failure.Transient:
		summary.Severity = Unknown
	case failure.Stalled:
		summary.Severity = Stalled
	}
	return summary
}

// IsProblem reports whether something is wrong.
func (s Summary) IsProblem() bool { return s.Severity >= Degraded }

// Phase returns the phase that follows from conditions. The first matching row counts:
//
//	True                  phase
//	Ready                 Active
//	Degraded or Stalled   Failed
//	Progressing           Progressing
//	none of these         Pending
func Phase(all []metav1.Condition) api.Phase {
	isTrue := func(kinds ...string) bool {
		return slices.ContainsFunc(all, func(one metav1.Condition) bool {
			return one.Status == metav1.ConditionTrue && slices.Contains(kinds, one.Type)
		})
	}
	switch {
	case isTrue(conditions.Ready):
		return api.PhaseActive
	case isTrue(conditions.Degraded, conditions.Stalled):
		return api.PhaseFailed
	case isTrue(conditions.Progressing):
		return api.PhaseProgressing
	default:
		return api.PhasePending
	}
}

// Conditions returns the conditions that follow, each with the summary's reason and message:
//
//	severity   Ready    Degraded  Stalled
//	Working    True     False     -
//	Unknown    Unknown  False     -
//	UnderWay   False    False     -
//	Waiting    False    False     -
//	Degraded   False    True      -
//	Failed     False    True      -
//	Stalled    False    True      True
//
// Progressing is added as it is given, because it does not follow from the severity: something may
// be wrong while a change is under way. A kind appends conditions of its own. Times and the
// generation are added by the reconciler.
func (s Summary) Conditions(progressing metav1.Condition) []metav1.Condition {
	ready := conditions.False(conditions.Ready, s.Reason, s.Message)
	switch s.Severity {
	case Working:
		ready.Status = metav1.ConditionTrue
	case Unknown:
		ready.Status = metav1.ConditionUnknown
	case UnderWay, Waiting, Degraded, Failed, Stalled:
	}
	degraded := conditions.False(conditions.Degraded, api.ReasonHealthy, "nothing is wrong")
	if s.IsProblem() {
		degraded = conditions.True(conditions.Degraded, s.Reason, s.Message)
	}
	all := []metav1.Condition{ready, progressing, degraded}
	if s.Severity == Stalled {
		all = append(all, conditions.True(conditions.Stalled, s.Reason, s.Message))
	}
	return all
}
