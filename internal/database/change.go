package database

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// changed returns the change of the primary that was just observed; nil if there is none. A primary
// of an earlier term than the last one does not know yet that it no longer leads.
func (s *Subject) changed() *databasev1.PrimaryChange {
	before, primary := &s.Database.Before, s.Primary
	from := cmp.Or(before.Primary, before.FormerPrimary)
	if primary == nil || from == "" || from == primary.Pod.Name || termOf(primary) < before.Term ||
		before.Primary != "" && termOf(primary) == before.Term {
		return nil
	}
	cause := election.Cause(primary.Report.Cause)
	change := &databasev1.PrimaryChange{
		From: from, To: primary.Pod.Name, Term: termOf(primary), Planned: isPlanned(s.Database, cause),
		Cause: s.cause(from, cause), Seconds: s.gap(),
	}
	if !change.Planned {
		change.UnreplicatedBytes = before.Unreplicated
	}
	return change
}

// isPlanned reports whether the former primary handed over as requested. One that did not report
// that it no longer leads has failed, whatever was requested.
func isPlanned(d *Database, cause election.Cause) bool {
	switch cause {
	case election.HandedOver:
		return true
	case election.Gone, election.Silent, election.Forced:
		return false
	case election.Released, election.Resigned:
	}
	return wasSwitching(d)
}

// gap is for how many seconds there was no primary: as long as the new one noticed, or as the
// status said, whichever is longer.
func (s *Subject) gap() int32 {
	seconds := int32(min(max(s.Primary.Report.Gap, 0), maxGap)) //nolint:gosec // it is small
	was := meta.FindStatusCondition(s.Database.Before.Conditions, databasev1.ConditionWritable)
	if was != nil && was.Status == metav1.ConditionFalse {
		since := s.Observed.Now.Sub(was.LastTransitionTime.Time)
		seconds = max(seconds, int32(min(max(since/time.Second, 1), maxGap)))
	}
	return seconds
}

// maxGap is more seconds than anything counts: what is written on a pod may be anything.
const maxGap = 1 << 30

// madeLately is how old the pod of a former primary is at most if it took the place of one that was
// deleted while it led.
const madeLately = 30 * time.Second

// causes are what the next leader knows of the one before, in words.
var causes = map[election.Cause]string{
	election.HandedOver: "it was asked to shut down",
	election.Released:   "it released the Lease",
	election.Resigned:   "it resigned",
	election.Gone:       "its program ended, and its port refused connections",
	election.Silent:     "it did not answer for spec.failover.after",
	election.Forced:     "spec.failover.acceptLoss allowed it, although acknowledged writes may be lost",
}

// cause returns why the former primary no longer leads, by the best source: the user's request, the
// manager's request, the state of its pod, the report of its program, and what the next leader
// noticed.
func (s *Subject) cause(from string, noticed election.Cause) string {
	var former *Instance
	for i := range s.Instances {
		if s.Instances[i].Pod.Name == from {
			former = &s.Instances[i]
		}
	}
	switched := &s.Database.Before.Switchover
	isAsked := switched.From != 0 && noticed == election.HandedOver
	switch {
	case noticed == election.Forced:
		return causes[noticed]
	case isAsked && switched.For != nil:
		return "spec.switchoverAt requested it"
	case isAsked:
		return "spec.preferredPrimary names " + s.Primary.Pod.Name
	case OrdinalOf(s.Database.Name, from) >= int(s.Database.Replicas):
		return "spec.replicas was lowered"
	case former == nil || former.Pod.DeletionTimestamp != nil,
		s.Observed.Now.Sub(former.Pod.CreationTimestamp.Time) < madeLately:
		return "its pod was deleted or evicted"
	case former.Report.Lost != "" && former.Report.LostTerm < s.Primary.Report.Term:
		return shortened(former.Report.Lost)
	}
	return cmp.Or(causes[noticed], "the reason is unknown")
}

// shortened returns a text of unlimited length, shortened for an event.
func shortened(text string) string {
	const most = 300 // bytes
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// Bytes returns a number of bytes for people, as in 64Ki.
func Bytes(number int64) string { return resource.NewQuantity(number, resource.BinarySI).String() }

// Tell returns the event for the last change of the primary, if it was not told before.
func Tell(before, change *databasev1.PrimaryChange) []conditions.Event {
	if change == nil || equality.Semantic.DeepEqual(before, change) {
		return nil
	}
	event := conditions.Event{
		Type: corev1.EventTypeWarning, Reason: databasev1.ReasonFailedOver, Note: change.To + " took over from " + change.From,
	}
	if change.Planned {
		event.Type, event.Reason = corev1.EventTypeNormal, databasev1.ReasonSwitchedOver
		event.Note = change.From + " handed over to " + change.To
	}
	event.Note += ": " + change.Cause
	if change.Seconds > 0 {
		event.Note += fmt.Sprintf("; no instance took writes for about %d s", change.Seconds)
	}
	if change.UnreplicatedBytes > 0 {
		event.Note += "; at most " + Bytes(change.UnreplicatedBytes) + " of its writes were on no replica at the last sample"
	}
	return []conditions.Event{event}
}
