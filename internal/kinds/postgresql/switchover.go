package postgresql

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// Switchover is what is known of handovers on request: the last spec.switchoverAt that was carried
// out, the term whose primary is handing over, 0 if none is, and when one to spec.preferredPrimary
// was last begun.
type Switchover struct {
	At          *metav1.Time
	From        int64
	PreferredAt *metav1.Time
}

// switchover lets the primary hand over, once for each spec.switchoverAt:
//
//	situation                                       what is done
//	it was carried out                              nothing, unless another primary is preferred
//	the database was never ready                    the time counts as carried out
//	there is no primary, or pods are replaced       it waits
//	no term is noted, and no replica is ready       it waits
//	no term is noted                                the primary's term is noted
//	the primary's term is later                     the time counts as carried out
//	only the preferred one was to lead, and can't   it is called off
//	the noted term is the primary's                 it is told to hand over
//
// The term is noted in the status before the primary is told, so that after a crash between any two
// writes nobody hands over twice.
func switchover(db *databasev1.PostgreSQL, observed Observed, instances []Instance, decided Decision) Decision {
	wanted, from := db.Spec.SwitchoverAt, db.Status.SwitchoverFrom
	primary := primaryOf(instances)
	note := Switchover{db.Status.SwitchoverAt, from, db.Status.PreferredAt}
	switch {
	case wanted.Equal(db.Status.SwitchoverAt) && from == 0:
		return prefer(db, observed, instances, decided)
	case from == 0 && (wanted == nil || db.Status.FirstReadyTime == nil):
		note.At = wanted
		decided.Switchover = &note
	case primary == nil || decided.Evict != nil || decided.Waits != "":
		// Another handover may do what is asked for: what that leaves is looked at again.
		decided.Notice = waits(db, primary)
	case from == 0 && successor(db, instances, *primary) == "":
		decided.Notice = waits(db, primary)
	case from == 0:
		note.From = int64(primary.Report.Term) //nolint:gosec // terms are below 2^62
		decided.Switchover, decided.RequeueAfter = &note, lookAgain
	case int64(primary.Report.Term) > from: //nolint:gosec // terms are below 2^62
		note.At, note.From = wanted, 0
		decided.Switchover = &note
	case wanted.Equal(db.Status.SwitchoverAt) && successor(db, instances, *primary) != db.Spec.PreferredPrimary:
		note.From = 0
		decided.Switchover = &note
	default:
		decided.SwitchFrom, decided.SwitchTo = primary.Report.Term, successor(db, instances, *primary)
	}
	return decided
}

// waits says what a new spec.switchoverAt waits for, unless what is under way says so anyway; "" if
// there is none.
func waits(db *databasev1.PostgreSQL, primary *Instance) string {
	wanted := db.Spec.SwitchoverAt
	switch {
	case wanted.Equal(db.Status.SwitchoverAt):
		return ""
	case db.Spec.Replicas == 1:
		return "spec.switchoverAt waits: there is one instance, which can hand over to nobody"
	case primary == nil:
		return "spec.switchoverAt waits: no instance takes writes"
	}
	return "spec.switchoverAt waits: no replica receives from " + primary.Pod.Name
}

// prefersEvery is how often a handover to the preferred primary is tried at most: one that fails
// must not be repeated for ever.
const prefersEvery = 10 * time.Minute

// prefer begins a handover to spec.preferredPrimary, if all is well and that is worth it.
func prefer(db *databasev1.PostgreSQL, observed Observed, instances []Instance, decided Decision) Decision {
	primary, last := primaryOf(instances), db.Status.PreferredAt
	if db.Spec.PreferredPrimary == "" || primary == nil || primary.Pod.Name == db.Spec.PreferredPrimary || db.Status.FirstReadyTime == nil ||
		decided.Evict != nil || decided.Waits != "" || successor(db, instances, *primary) != db.Spec.PreferredPrimary {
		return decided
	}
	for _, instance := range instances {
		if !instance.IsReady() {
			return decided
		}
	}
	_, wait := rollout.Closed(db.Spec.Rollout.Window, observed.Now)
	if last != nil {
		wait = max(wait, last.Add(prefersEvery).Sub(observed.Now))
	}
	if wait > 0 {
		decided.RequeueAfter = requeue.Sooner(decided.RequeueAfter, wait)
		return decided
	}
	term := int64(primary.Report.Term) //nolint:gosec // terms are below 2^62
	decided.Switchover = &Switchover{db.Status.SwitchoverAt, term, new(metav1.NewTime(observed.Now))}
	decided.RequeueAfter = lookAgain
	return decided
}

// successor returns the pod of a replica that could take over from the primary: the preferred one,
// else one without a lag if there is one; "" if there is none.
func successor(db *databasev1.PostgreSQL, instances []Instance, primary Instance) string {
	found, hasLag := "", true
	for _, instance := range instances {
		report := instance.Report
		if !instance.IsReady() || report.Role != contract.Replica || report.Term != primary.Report.Term || instance.Pod.DeletionTimestamp != nil {
			continue
		}
		switch isPreferred := instance.Pod.Name == db.Spec.PreferredPrimary; {
		case isPreferred && report.Lag == "":
			return instance.Pod.Name
		case found == "" || hasLag && report.Lag == "":
			found, hasLag = instance.Pod.Name, report.Lag != ""
		}
	}
	return found
}

// switchesFor is how long a planned handover may take until it counts as a failover.
const switchesFor = 15 * time.Second

// handingOver: the primary's pod ends, or the primary was asked to hand over.
func handingOver(s *subject) string {
	switch {
	case s.primary == nil && s.ends() != "" && s.isSwitching():
		return s.ends() + " hands over, because its pod ends"
	case s.primary == nil:
		return summary.If(s.isSwitching(), "no instance takes writes while the primary changes: %s", s.states())
	case s.decided.SwitchFrom != 0 && s.decided.Waits == "":
		return fmt.Sprintf("%s hands over to %s on request", s.primary.Pod.Name, cmp.Or(s.decided.SwitchTo, "another instance"))
	}
	return ""
}

// ends names the primary whose pod ends, while others are left; "" if there is none.
func (s *subject) ends() string {
	for _, instance := range s.instances {
		if instance.Report.Role == contract.Primary && instance.Pod.DeletionTimestamp != nil && len(s.instances) > 1 {
			return instance.Pod.Name
		}
	}
	return ""
}

// isSwitching reports whether the primary is handing over, or one that is not there any more did so
// a moment ago. After longer it is none: the pod of a primary whose node died ends for ever.
func (s *subject) isSwitching() bool {
	if s.ends() == "" && !wasSwitching(s.db) {
		return false
	}
	writable := meta.FindStatusCondition(s.db.Status.Conditions, databasev1.ConditionWritable)
	return writable == nil || writable.Status == metav1.ConditionTrue || s.observed.Now.Sub(writable.LastTransitionTime.Time) < switchesFor
}

// wasSwitching reports whether the status says that the primary is handing over, or that one led
// which is to go: it is told to hand over before it goes.
func wasSwitching(db *databasev1.PostgreSQL) bool {
	if led := ordinalOf(db.Name, cmp.Or(db.Status.Primary, db.Status.FormerPrimary)); led >= int(db.Spec.Replicas) {
		return true
	}
	progressing := meta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionProgressing)
	return progressing != nil && progressing.Reason == databasev1.ReasonSwitchingOver
}

// Tell returns the event for a change of the primary. Its seconds are those for which the status
// said that no instance takes writes; none if it never did.
func Tell(before, after *databasev1.PostgreSQL) []conditions.Event {
	from, to := cmp.Or(before.Status.Primary, before.Status.FormerPrimary), after.Status.Primary
	if from == "" || to == "" || from == to || after.Status.Term <= before.Status.Term {
		return nil
	}
	event := conditions.Event{Type: corev1.EventTypeWarning, Reason: databasev1.ReasonFailedOver, Note: to + " took over from " + from}
	if wasSwitching(before) {
		event.Type, event.Reason, event.Note = corev1.EventTypeNormal, databasev1.ReasonSwitchedOver, from+" handed over to "+to
	}
	was := meta.FindStatusCondition(before.Status.Conditions, databasev1.ConditionWritable)
	is := meta.FindStatusCondition(after.Status.Conditions, databasev1.ConditionWritable)
	if was != nil && is != nil && was.Status == metav1.ConditionFalse {
		gap := is.LastTransitionTime.Sub(was.LastTransitionTime.Time)
		event.Note += fmt.Sprintf("; no instance took writes for some %d s", max(int(gap.Seconds()), 1))
	}
	return []conditions.Event{event}
}
