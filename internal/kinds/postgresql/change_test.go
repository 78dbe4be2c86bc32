package postgresql

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// said is a PostgreSQL of three of which the status said this before.
func said(primary, former, reason string, writable metav1.ConditionStatus, since time.Duration) *databasev1.PostgreSQL {
	db := newDatabase(replicas(3))
	db.Status = databasev1.PostgreSQLStatus{
		FirstReadyTime: earlier, Primary: primary, FormerPrimary: former, Term: 4, Conditions: []metav1.Condition{
			{Type: databasev1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: reason},
			{Type: databasev1.ConditionWritable, Status: writable, LastTransitionTime: metav1.NewTime(noon.Add(-since))},
		},
	}
	return db
}

// requested is one that was handing over on request.
func requested(at *metav1.Time) *databasev1.PostgreSQL {
	db := said("", "db-0", "SwitchingOver", "False", 1500*time.Millisecond)
	db.Status.SwitchoverFrom, db.Status.SwitchoverFor = 4, at
	return db
}

// TestTell: each change of the primary is reported once, planned or not, with its cause and the
// seconds without a primary.
func TestTell(t *testing.T) {
	leads := func(report contract.Report) func(*databasev1.PostgreSQL) Observed {
		return func(db *databasev1.PostgreSQL) Observed {
			report.Role, report.State = contract.Primary, "Leading"
			return aged(says(says(all(db), 0, contract.Report{Role: contract.Replica, State: "Following", Term: report.Term}), 1, report))
		}
	}
	loses := func(report, lost contract.Report) func(*databasev1.PostgreSQL) Observed {
		return func(db *databasev1.PostgreSQL) Observed { return aged(says(leads(report)(db), 0, lost)) }
	}
	works, gone := said("db-0", "", "Settled", "True", time.Hour), said("", "db-0", "FailingOver", "False", 12*time.Second)
	fewer := said("db-3", "", "Scaling", "True", time.Hour)
	for name, test := range map[string]struct {
		before   *databasev1.PostgreSQL
		observed func(*databasev1.PostgreSQL) Observed
		want     string
	}{
		"unnoticed": {works, leads(contract.Report{Term: 5}),
			"Warning FailedOver db-1 took over from db-0: the reason is unknown"},
		"noticed by the next": {works, leads(contract.Report{Term: 5, Cause: "Gone", Gap: 3}),
			"Warning FailedOver db-1 took over from db-0: its program ended, and its port refused connections; " +
				"no instance took writes for about 3 s"},
		"noticed by the status": {gone, leads(contract.Report{Term: 6, Cause: "Silent", Gap: 3}),
			"Warning FailedOver db-1 took over from db-0: it did not answer for spec.failover.after; no instance took writes for about 12 s"},
		"the former one knows": {gone, loses(contract.Report{Term: 5, Cause: "Released", Gap: 14}, contract.Report{Lost: "the server crashed, and another member can lead", LostTerm: 4}),
			"Warning FailedOver db-1 took over from db-0: the server crashed, and another member can lead; no instance took writes for about 14 s"},
		"what it says is of this term": {works, loses(contract.Report{Term: 5, Cause: "Gone"}, contract.Report{Lost: "a disk", LostTerm: 5}),
			"Warning FailedOver db-1 took over from db-0: its program ended, and its port refused connections"},
		"forced": {works, leads(contract.Report{Term: 5, Cause: "Forced"}),
			"Warning FailedOver db-1 took over from db-0: spec.failover.acceptLoss allowed it, although acknowledged writes may be lost"},
		"on request": {requested(later), leads(contract.Report{Term: 5, Cause: "HandedOver", Gap: 1}),
			"Normal SwitchedOver db-0 handed over to db-1: spec.switchoverAt requested it; no instance took writes for about 1 s"},
		"to the preferred one": {requested(nil), leads(contract.Report{Term: 5, Cause: "HandedOver"}),
			"Normal SwitchedOver db-0 handed over to db-1: spec.preferredPrimary names db-1; no instance took writes for about 1 s"},
		"it failed before it was asked": {requested(later), leads(contract.Report{Term: 5, Cause: "Silent", Gap: 12}),
			"Warning FailedOver db-1 took over from db-0: it did not answer for spec.failover.after; no instance took writes for about 12 s"},
		"its pod ends": {works, func(db *databasev1.PostgreSQL) Observed {
			return ending(leads(contract.Report{Term: 5, Cause: "HandedOver", Gap: 1})(db), 0)
		}, "Normal SwitchedOver db-0 handed over to db-1: its pod was deleted or evicted; no instance took writes for about 1 s"},
		"its pod is another": {works, func(db *databasev1.PostgreSQL) Observed {
			observed := leads(contract.Report{Term: 5, Cause: "Gone", Gap: 2})(db)
			observed.Pods[0].CreationTimestamp = metav1.NewTime(noon.Add(-time.Second))
			return observed
		}, "Warning FailedOver db-1 took over from db-0: its pod was deleted or evicted; no instance took writes for about 2 s"},
		"one that was to go":      {fewer, leads(contract.Report{Term: 5, Cause: "HandedOver"}), "Normal SwitchedOver db-3 handed over to db-1: spec.replicas was lowered"},
		"the first primary":       {said("", "", "Creating", "False", 0), leads(contract.Report{Term: 4}), ""},
		"the same again":          {said("", "db-1", "FailingOver", "False", time.Second), leads(contract.Report{Term: 6}), ""},
		"one of an earlier term":  {works, leads(contract.Report{Term: 3}), ""},
		"one that was there last": {said("", "db-0", "FailingOver", "False", 0), leads(contract.Report{Term: 3}), ""},
	} {
		observed := test.observed(test.before)
		tell := func(before *databasev1.PostgreSQL) (*databasev1.PostgreSQL, string) {
			after, got := before.DeepCopy(), ""
			after.Status, _ = Status(before, observed, Decision{Replicas: 3}, plan.Result{})
			for _, event := range Tell(before, after) {
				got += event.Type + " " + event.Reason + " " + event.Note
			}
			return after, got
		}
		after, got := tell(test.before)
		if got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
		if _, again := tell(after); again != "" {
			t.Errorf("%s: it is told again: %s", name, again)
		}
	}
}
