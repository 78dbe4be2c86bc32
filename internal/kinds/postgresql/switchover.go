package postgresql

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// Switchover is what is known of handovers on request, as the status has it.
type Switchover struct {
	// At is the last spec.switchoverAt that was carried out.
	At *metav1.Time
	// From is the term whose primary is handing over, 0 if none is, and For the spec.switchoverAt for
	// which it does; nil for spec.preferredPrimary.
	From int64
	For  *metav1.Time
	// PreferredTerm is up to which term the primary is not asked to hand over to
	// spec.preferredPrimary again, for the spec of PreferredGeneration.
	PreferredTerm, PreferredGeneration int64
}

// noted returns what the status says.
func noted(db *databasev1.PostgreSQL) Switchover {
	status := &db.Status
	return Switchover{status.SwitchoverAt, status.SwitchoverFrom, status.SwitchoverFor, status.PreferredTerm, status.PreferredGeneration}
}

// note writes it into the status.
func (s Switchover) note(status *databasev1.PostgreSQLStatus) {
	status.SwitchoverAt, status.SwitchoverFrom, status.SwitchoverFor = s.At, s.From, s.For
	status.PreferredTerm, status.PreferredGeneration = s.PreferredTerm, s.PreferredGeneration
}

// switchover lets the primary hand over, once for each spec.switchoverAt:
//
//	situation                                       what is done
//	it was carried out                              nothing, unless another primary is preferred
//	the database was never ready                    the time counts as carried out
//	there is no primary, or pods are replaced       it waits
//	no term is noted, and no replica is ready       it waits
//	no term is noted                                the primary's term is noted, and the time
//	the primary's term is later                     the noted time counts as carried out
//	only the preferred one was to lead, and can't   it is called off
//	the noted term is the primary's                 it is told to hand over
//
// Term and time are stored in the status before the primary is told, so that a crash between any
// two writes does not cause a second handover. A request that arrives during a switchover is
// carried out after it.
func switchover(db *databasev1.PostgreSQL, observed Observed, instances []Instance, decided Decision) Decision {
	note := noted(db)
	wanted, from, primary := db.Spec.SwitchoverAt, note.From, primaryOf(instances)
	switch {
	case wanted.Equal(note.At) && from == 0:
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
		note.From, note.For = termOf(primary), wanted
		decided.Switchover, decided.RequeueAfter = &note, lookAgain
	case termOf(primary) > from:
		decided.Switchover, decided.RequeueAfter = carriedOut(db, *primary), lookAgain
	case note.For == nil && successor(db, instances, *primary) != db.Spec.PreferredPrimary:
		// It was never asked for what it could do: when it can again, that is tried again.
		note.From, note.PreferredTerm = 0, 0
		decided.Switchover = &note
	default:
		decided.SwitchFrom, decided.SwitchTo = primary.Report.Term, successor(db, instances, *primary)
		decided.SwitchOnly = note.For == nil
	}
	return decided
}

// termOf returns the primary's term as the status has terms.
func termOf(primary *Instance) int64 {
	return int64(primary.Report.Term) //nolint:gosec // terms are below 2^62
}

// carriedOut returns what the status is to remember once another term has followed that of a
// handover. An instance that leads then although another one is preferred goes on: it was asked
// for, or the preferred one could not.
func carriedOut(db *databasev1.PostgreSQL, primary Instance) *Switchover {
	note := noted(db)
	if note.For != nil {
		note.At = note.For
	}
	if primary.Pod.Name != db.Spec.PreferredPrimary {
		note.PreferredTerm, note.PreferredGeneration = termOf(&primary), db.Generation
	}
	note.From, note.For = 0, nil
	return &note
}

// waits says what a new spec.switchoverAt waits for, unless what is under way says so anyway; "" if
// there is none.
func waits(db *databasev1.PostgreSQL, primary *Instance) string {
	wanted := db.Spec.SwitchoverAt
	switch {
	case wanted.Equal(db.Status.SwitchoverAt):
		return ""
	case db.Spec.Replicas == 1:
		return "spec.switchoverAt waits: there is only one instance, and none to hand over to"
	case primary == nil:
		return "spec.switchoverAt waits: no instance takes writes"
	}
	return "spec.switchoverAt waits: no replica receives from " + primary.Pod.Name
}

// prefer begins a handover to spec.preferredPrimary, if all is well: once for each term in which
// another instance leads, and again if the spec has changed since. Nothing is repeated by a clock.
func prefer(db *databasev1.PostgreSQL, observed Observed, instances []Instance, decided Decision) Decision {
	primary, note := primaryOf(instances), noted(db)
	if db.Spec.PreferredPrimary == "" || primary == nil || primary.Pod.Name == db.Spec.PreferredPrimary || db.Status.FirstReadyTime == nil ||
		decided.Evict != nil || decided.Waits != "" || successor(db, instances, *primary) != db.Spec.PreferredPrimary {
		return decided
	}
	if note.PreferredTerm >= termOf(primary) && note.PreferredGeneration == db.Generation {
		return decided
	}
	for _, instance := range instances {
		if !instance.IsReady() {
			return decided
		}
	}
	if _, opens := rollout.Closed(db.Spec.Rollout.Window, observed.Now); opens > 0 {
		decided.RequeueAfter = requeue.Sooner(decided.RequeueAfter, opens)
		return decided
	}
	note.From, note.For, note.PreferredTerm, note.PreferredGeneration = termOf(primary), nil, termOf(primary), db.Generation
	decided.Switchover, decided.RequeueAfter = &note, lookAgain
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

// isSwitching reports whether the primary is handing over, or a primary that is gone did so
// recently. After longer it does not count: the pod of a primary whose node died stays Terminating
// forever.
func (s *subject) isSwitching() bool {
	if s.ends() == "" && !wasSwitching(s.db) {
		return false
	}
	writable := meta.FindStatusCondition(s.db.Status.Conditions, databasev1.ConditionWritable)
	return writable == nil || writable.Status == metav1.ConditionTrue || s.observed.Now.Sub(writable.LastTransitionTime.Time) < switchesFor
}

// wasSwitching reports whether the status says that the primary is handing over, or that an
// instance led that is to be removed, which hands over before that.
func wasSwitching(db *databasev1.PostgreSQL) bool {
	if led := ordinalOf(db.Name, cmp.Or(db.Status.Primary, db.Status.FormerPrimary)); led >= int(db.Spec.Replicas) {
		return true
	}
	progressing := meta.FindStatusCondition(db.Status.Conditions, databasev1.ConditionProgressing)
	return progressing != nil && progressing.Reason == databasev1.ReasonSwitchingOver
}
