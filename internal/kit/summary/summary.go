// Package summary has the one thing that a kind says about an object, and the conditions that it comes to. A kind judges (one function, with
// its table in the comment); what follows from that is the same for all kinds, and stands here. It is pure.
package summary

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Severity orders what a verdict means, from what is well to what is worst.
type Severity int

const (
	// Working: as the spec says.
	Working Severity = iota
	// Unknown: a change could not be made; nobody knows how things are until it could.
	Unknown
	// UnderWay: it will be as the spec says, with nothing amiss.
	UnderWay
	// Waiting: it will be, once something else changes or somebody agrees.
	Waiting
	// Troubled: something is wrong; it may pass by itself.
	Degraded
	// Failed: something is wrong that needs a look.
	Failed
	// Stalled: nothing gets better until someone acts.
	Stalled
)

// Verdict is the one thing to say about an object. The zero value says that all is well, and needs a reason and a message still.
type Summary struct {
	Severity Severity
	// Reason is a condition reason.
	Reason string
	// Message is for people and has no random parts: it is written to the status each time that it differs.
	Message string
}

// Of is a verdict whose message is made as by fmt.Sprintf.
func Of(severity Severity, reason, format string, values ...any) Summary {
	return Summary{Severity: severity, Reason: reason, Message: fmt.Sprintf(format, values...)}
}

// OfFailure is the verdict where not all of a plan was applied:
//
//	the failure                          severity
//	is transient                         Unknown
//	waits for someone who acts           Stalled
//	else: it was refused, say            Failed
func OfFailure(failure plan.Failure) Summary {
	verdict := Summary{Severity: Failed, Reason: failure.Reason, Message: failure.Message}
	switch {
	case failure.Transient:
		verdict.Severity = Unknown
	case failure.Stalled:
		verdict.Severity = Stalled
	}
	return verdict
}

// IsTrouble tells whether something is wrong.
func (v Summary) IsProblem() bool { return v.Severity >= Degraded }

// Conditions are the verdict as conditions, each with its reason and message:
//
//	severity   Ready    Degraded  Stalled
//	Working    True     False     -
//	Unknown    Unknown  False     -
//	UnderWay   False    False     -
//	Waiting    False    False     -
//	Troubled   False    True      -
//	Failed     False    True      -
//	Stalled    False    True      True
//
// Progressing stands among them as it is given, for what is under way is not told by the severity: something may be wrong meanwhile. A kind
// that has further conditions appends them. All come without times and generation: the loop adds them.
func (v Summary) Conditions(progressing metav1.Condition) []metav1.Condition {
	ready := conditions.False(conditions.Ready, v.Reason, v.Message)
	switch v.Severity {
	case Working:
		ready.Status = metav1.ConditionTrue
	case Unknown:
		ready.Status = metav1.ConditionUnknown
	case UnderWay, Waiting, Degraded, Failed, Stalled:
	}
	degraded := conditions.False(conditions.Degraded, api.ReasonHealthy, "nothing is wrong")
	if v.IsProblem() {
		degraded = conditions.True(conditions.Degraded, v.Reason, v.Message)
	}
	all := []metav1.Condition{ready, progressing, degraded}
	if v.Severity == Stalled {
		all = append(all, conditions.True(conditions.Stalled, v.Reason, v.Message))
	}
	return all
}
