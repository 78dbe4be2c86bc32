package database

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
func switchover(d *Database, observed State, instances []Instance, decided Decision) Decision {
	note := d.Before.Switchover
	wanted, from, primary := d.switchoverAt(), note.From, PrimaryOf(instances)
	switch {
	case wanted.Equal(note.At) && from == 0:
		return prefer(d, observed, instances, decided)
	case from == 0 && (wanted == nil || !d.Before.WasReady):
		note.At = wanted
		decided.Switchover = &note
	case primary == nil || decided.Evict != nil || decided.Waits != "":
		// Another handover may do what is asked for: what that leaves is looked at again.
		decided.Notice = waits(d, primary)
	case from == 0 && successor(d, instances, *primary) == "":
		decided.Notice = waits(d, primary)
	case from == 0:
		note.From, note.For = termOf(primary), wanted
		decided.Switchover, decided.RequeueAfter = &note, LookAgain
	case termOf(primary) > from:
		decided.Switchover, decided.RequeueAfter = carriedOut(d, *primary), LookAgain
	case note.For == nil && successor(d, instances, *primary) != d.PreferredPrimary:
		// It was never asked for what it could do: when it can again, that is tried again.
		note.From, note.PreferredTerm = 0, 0
		decided.Switchover = &note
	default:
		decided.SwitchFrom, decided.SwitchTo = primary.Report.Term, successor(d, instances, *primary)
		decided.SwitchOnly = note.For == nil
	}
	return decided
}

// switchoverAt returns spec.switchoverAt as a status has times: without a fraction of a second, and
// without the zero time. What differs from the status would never count as carried out.
func (d *Database) switchoverAt() *metav1.Time {
	if d.SwitchoverAt.IsZero() {
		return nil
	}
	return new(metav1.NewTime(d.SwitchoverAt.Truncate(time.Second)))
}

// termOf returns the primary's term as the status has terms.
func termOf(primary *Instance) int64 {
	return int64(primary.Report.Term) //nolint:gosec // terms are below 2^62
}

// carriedOut returns what the status is to remember once another term has followed that of a
// handover. An instance that leads then although another one is preferred goes on: it was asked
// for, or the preferred one could not.
func carriedOut(d *Database, primary Instance) *Switchover {
	note := d.Before.Switchover
	if note.For != nil {
		note.At = note.For
	}
	if primary.Pod.Name != d.PreferredPrimary {
		note.PreferredTerm, note.PreferredGeneration = termOf(&primary), d.Generation
	}
	note.From, note.For = 0, nil
	return &note
}

// waits says what a new spec.switchoverAt waits for, unless what is under way says so anyway; "" if
// there is none.
func waits(d *Database, primary *Instance) string {
	wanted := d.switchoverAt()
	switch {
	case wanted.Equal(d.Before.Switchover.At):
		return ""
	case d.Replicas == 1:
		return "spec.switchoverAt waits: there is only one instance, so there is none to hand over to"
	case primary == nil:
		return "spec.switchoverAt waits: no instance takes writes"
	}
	return "spec.switchoverAt waits: no replica receives from " + primary.Pod.Name
}

// prefer begins a handover to spec.preferredPrimary, if all is well: once for each term in which
// another instance leads, and again if the spec has changed since. Nothing is repeated by a clock.
func prefer(d *Database, observed State, instances []Instance, decided Decision) Decision {
	primary, note := PrimaryOf(instances), d.Before.Switchover
	if d.PreferredPrimary == "" || primary == nil || primary.Pod.Name == d.PreferredPrimary || !d.Before.WasReady ||
		decided.Evict != nil || decided.Waits != "" || successor(d, instances, *primary) != d.PreferredPrimary {
		return decided
	}
	if note.PreferredTerm >= termOf(primary) && note.PreferredGeneration == d.Generation {
		return decided
	}
	for _, instance := range instances {
		if !instance.IsReady() {
			return decided
		}
	}
	if _, opens := rollout.Closed(d.Window, observed.Now); opens > 0 {
		decided.RequeueAfter = requeue.Sooner(decided.RequeueAfter, opens)
		return decided
	}
	note.From, note.For, note.PreferredTerm, note.PreferredGeneration = termOf(primary), nil, termOf(primary), d.Generation
	decided.Switchover, decided.RequeueAfter = &note, LookAgain
	return decided
}

// successor returns the pod of a replica that could take over from the primary: the preferred one,
// else one without a lag if there is one; "" if there is none.
func successor(d *Database, instances []Instance, primary Instance) string {
	found, hasLag := "", true
	for _, instance := range instances {
		report := instance.Report
		if !instance.IsReady() || report.Role != contract.Replica || report.Term != primary.Report.Term || instance.Pod.DeletionTimestamp != nil {
			continue
		}
		switch isPreferred := instance.Pod.Name == d.PreferredPrimary; {
		case isPreferred && report.Lag == "":
			return instance.Pod.Name
		case found == "" || hasLag && report.Lag == "":
			found, hasLag = instance.Pod.Name, report.Lag != ""
		}
	}
	return found
}

// SwitchesFor is how long a planned handover may take until it counts as a failover.
const SwitchesFor = 15 * time.Second

// HandingOver says that the primary's pod ends, or that the primary was asked to hand over.
func (s *Subject) HandingOver() string {
	switch {
	case s.Primary == nil && s.ends() != "" && s.isSwitching():
		return s.ends() + " hands over, because its pod ends"
	case s.Primary == nil:
		return summary.If(s.isSwitching(), "no instance takes writes while the primary changes: %s", s.States())
	case s.Decided.SwitchFrom != 0 && s.Decided.Waits == "":
		return fmt.Sprintf("%s hands over to %s on request", s.Primary.Pod.Name, cmp.Or(s.Decided.SwitchTo, "another instance"))
	}
	return ""
}

// ends names the primary whose pod ends, while others are left; "" if there is none.
func (s *Subject) ends() string {
	for _, instance := range s.Instances {
		if instance.Report.Role == contract.Primary && instance.Pod.DeletionTimestamp != nil && len(s.Instances) > 1 {
			return instance.Pod.Name
		}
	}
	return ""
}

// isSwitching reports whether the primary is handing over, or a primary that is gone did so
// recently. After longer it does not count: the pod of a primary whose node died stays Terminating
// forever.
func (s *Subject) isSwitching() bool {
	if s.ends() == "" && !wasSwitching(s.Database) {
		return false
	}
	writable := meta.FindStatusCondition(s.Database.Before.Conditions, databasev1.ConditionWritable)
	return writable == nil || writable.Status == metav1.ConditionTrue || s.Observed.Now.Sub(writable.LastTransitionTime.Time) < SwitchesFor
}

// wasSwitching reports whether the status says that the primary is handing over, or that an
// instance led that is to be removed, which hands over before that.
func wasSwitching(d *Database) bool {
	if led := OrdinalOf(d.Name, cmp.Or(d.Before.Primary, d.Before.FormerPrimary)); led >= int(d.Replicas) {
		return true
	}
	progressing := meta.FindStatusCondition(d.Before.Conditions, databasev1.ConditionProgressing)
	return progressing != nil && progressing.Reason == databasev1.ReasonSwitchingOver
}
