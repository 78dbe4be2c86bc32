package postgresql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// says lets the program of an instance say what it is.
func says(observed Observed, ordinal int, report contract.Report) Observed {
	pod := newPod(observed.Pods[ordinal].Name, report)
	if report.Role == contract.NoRole {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	observed.Pods[ordinal] = pod
	return observed
}

// sleeps stops the instances.
func sleeps(spec *databasev1.PostgreSQLSpec) { spec.Hibernated = true }

// aged makes all pods older than a start takes.
func aged(observed Observed) Observed {
	for i := range observed.Pods {
		observed.Pods[i].CreationTimestamp = metav1.NewTime(observed.Now.Add(-10 * database.StartsFor))
	}
	return observed
}

// deletedFor marks the pod of an instance as deleted, and to be gone, this long ago.
func deletedFor(observed Observed, ordinal int, ago time.Duration) Observed {
	observed.Pods[ordinal].DeletionTimestamp = new(metav1.NewTime(observed.Now.Add(-ago)))
	return observed
}

// unreadyFor makes an instance wait for this long, with a pod that is not ready.
func unreadyFor(observed Observed, ordinal int, since time.Duration) Observed {
	observed = says(observed, ordinal, contract.Report{State: "Waiting", Problem: "no leader answers"})
	observed.Pods[ordinal].Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(observed.Now.Add(-since))},
	}
	return observed
}

// TestWritable: the last report of a primary whose node is gone remains; no instance takes writes.
func TestWritable(t *testing.T) {
	db := newDatabase(replicas(2))
	observed := says(aged(running(db, 2)), 1, contract.Report{State: "Standby", Problem: "needs the answer of db-0"})
	observed.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
	status, _ := Status(db, observed, Decision{Replicas: 2}, plan.Result{})
	writable := meta.FindStatusCondition(status.Conditions, databasev1.ConditionWritable)
	if writable.Status != metav1.ConditionFalse || !strings.Contains(writable.Message, "needs the answer of db-0") {
		t.Errorf("Writable is %s: %s", writable.Status, writable.Message)
	}
}

// refused is what is observed where a quota refuses pods.
func refused(observed Observed) Observed {
	observed.PodsRefused = `pods "db-0" is forbidden: exceeded quota: cpu`
	return observed
}

// TestSummary: the first thing that is true and matters is what is said.
func TestSummary(t *testing.T) {
	db := newDatabase(replicas(3))
	db.Status.FirstReadyTime = new(metav1.Now())
	fresh := newDatabase(replicas(3))
	deleted := newDatabase(func(spec *databasev1.PostgreSQLSpec) { spec.DeletionPolicy = databasev1.DeletionDelete })
	foreign := plan.Result{Conflicts: []plan.Ref{Ref(db, "StatefulSet", "db")}}
	sleeping := newDatabase(replicas(3), sleeps)
	sleeping.Status.FirstReadyTime = db.Status.FirstReadyTime
	waking := newDatabase(replicas(3))
	waking.Status = databasev1.PostgreSQLStatus{FirstReadyTime: db.Status.FirstReadyTime, Conditions: []metav1.Condition{
		{Type: databasev1.ConditionWritable, Status: metav1.ConditionFalse, Reason: databasev1.ReasonHibernated},
	}}
	noImage := running(db, 3)
	noImage.Catalogue = nil
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		decided  Decision
		result   plan.Result
		ready    metav1.ConditionStatus
		reason   string
		phase    databasev1.PostgreSQLPhase
		says     string
	}{
		"works": {db, aged(running(db, 3)), Decision{Replicas: 3}, plan.Result{}, "True", "Available", "Running",
			"db-0 takes writes, and all 3 instances take connections"},
		"hibernates": {sleeping, aged(running(sleeping, 3)), Decision{}, plan.Result{}, "False", "Scaling", "Updating",
			"spec.hibernated is true, and 3 instances are not stopped yet: db-0 (Leading)"},
		"hibernated": {sleeping, asleep(running(sleeping, 3)), Decision{}, plan.Result{}, "False", "Hibernated", "Hibernated",
			"spec.hibernated is true: no instance runs"},
		"wakes": {waking, asleep(running(waking, 3)), Decision{Replicas: 3}, plan.Result{}, "False", "Updating", "Updating",
			"the instances are being started: there are no pods yet"},
		"does not wake": {waking, says(aged(running(waking, 3)), 0, contract.Report{State: "Starting"}), Decision{Replicas: 3}, plan.Result{}, "False",
			"FailingOver", "FailingOver", "no instance takes writes: db-0 (Starting)"},
		"no pod can be made": {fresh, refused(empty()), Decision{Replicas: 3}, plan.Result{}, "False", "PodsRefused", "Failed", "exceeded quota: cpu"},
		"a further one can't": {db, refused(aged(running(db, 2))), Decision{Replicas: 3}, plan.Result{}, "False", "PodsRefused", "Degraded",
			"exceeded quota: cpu"},
		"nothing is there yet": {fresh, empty(), Decision{Replicas: 3}, plan.Result{}, "False", "Creating", "Pending",
			"the database is being created: there are no pods yet"},
		"the first start": {fresh, says(says(says(running(fresh, 3), 0, contract.Report{State: "Promoting"}), 1, contract.Report{State: "Cloning",
			Percent: 40}), 2, contract.Report{}), Decision{Replicas: 3}, plan.Result{}, "False", "Creating", "Creating",
			"db-0 (Promoting), db-1 (Cloning, 40 %), db-2 (no report yet)"},
		"the application has nothing yet": {fresh, says(running(fresh, 3), 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 4}),
			Decision{Replicas: 3}, plan.Result{}, "False", "Creating", "Creating", "db-0 (Leading) has not created the role and database of the Secret db-app yet"},
		"it has": {fresh, says(running(fresh, 3), 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true}),
			Decision{Replicas: 3}, plan.Result{}, "True", "Available", "Running", "db-0 takes writes"},
		"no primary": {db, aged(says(running(db, 3), 0, contract.Report{State: "Starting"})), Decision{Replicas: 3}, plan.Result{}, "False",
			"FailingOver", "FailingOver", "no instance takes writes: db-0 (Starting), db-1 (Following), db-2 (Following)"},
		"a volume that is not its own": {db, aged(says(running(db, 3), 2, contract.Report{State: "Ended", Problem: "foreign data"})),
			Decision{Replicas: 3}, plan.Result{}, "False", "InstanceProblem", "Degraded", "db-2: foreign data"},
		"a volume of another version": {db, aged(says(running(db, 3), 2, contract.Report{State: "Ended", Problem: "p",
			Foreign: "has the data of PostgreSQL 16, and needs those of PostgreSQL 17"})), Decision{Replicas: 3}, plan.Result{}, "False", "Conflict",
			"Degraded", "the volume data-db-2 has the data of PostgreSQL 16, and needs those of PostgreSQL 17: nothing there was changed: " +
				"restore the volume that belongs here, or delete its claim and its pod, and it is cloned from db-0"},
		"volumes of another version": {fresh, says(says(running(fresh, 2), 0, contract.Report{State: "Ended", Foreign: "has a"}), 1,
			contract.Report{State: "Ended", Foreign: "has b"}), Decision{Replicas: 2}, plan.Result{}, "False", "Conflict", "Failed",
			"the volume data-db-0 has a; the volume data-db-1 has b: nothing there was changed: restore the volumes that belong here, or create"},
		"volumes of another version, to be deleted": {deleted, says(running(deleted, 1), 0, contract.Report{State: "Ended", Foreign: "has a"}),
			Decision{Replicas: 1}, plan.Result{}, "False", "Conflict",
			"Failed", "before this one is deleted, set spec.deletionPolicy to Retain, or its volumes are deleted with it"},
		"volumes of two systems": {fresh, says(says(says(running(fresh, 3), 0, contract.Report{State: "Waiting", System: "7"}), 1,
			contract.Report{State: "Waiting", System: "8"}), 2, contract.Report{State: "Waiting"}), Decision{Replicas: 3}, plan.Result{}, "False",
			"Conflict", "Failed", "the volumes have data of several database systems, and all must belong to one: data-db-0 of the system 7, " +
				"data-db-1 of the system 8: nothing there was changed"},
		"volumes of one system": {fresh, says(says(running(fresh, 2), 0, contract.Report{State: "Waiting", System: "7"}), 1,
			contract.Report{State: "Waiting", System: "7"}), Decision{Replicas: 2}, plan.Result{}, "False", "Creating", "Creating",
			"db-0 (Waiting)"},
		"another system beside a primary, which its instance has not noticed yet": {db, aged(says(says(running(db, 3), 0, contract.Report{
			Role: contract.Primary, State: "Leading", Term: 4, System: "7"}), 1, contract.Report{State: "Waiting", System: "8"})),
			Decision{Replicas: 3}, plan.Result{}, "False", "InstanceNotReady", "Degraded", "not ready: db-1"},
		"a pod that has just been made": {db, says(running(db, 3), 2, contract.Report{State: "Starting"}), Decision{Replicas: 3}, plan.Result{},
			"False", "Updating", "Updating", "1 instance is starting: db-2 (Starting)"},
		"a replica that is away": {db, aged(says(running(db, 3), 2, contract.Report{State: "Waiting"})), Decision{Replicas: 3}, plan.Result{},
			"False", "InstanceNotReady", "Degraded", "2 of 3 instances are ready; not ready: db-2 (Waiting)"},
		"a replica that complains": {db, aged(says(running(db, 3), 1, contract.Report{Role: contract.Replica, State: "Following", Term: 4,
			Problem: "the disk is full"})), Decision{Replicas: 3}, plan.Result{}, "False", "InstanceProblem", "Degraded", "db-1: the disk is full"},
		"a foreign object": {db, aged(running(db, 3)), Decision{Replicas: 3}, foreign, "False", "Conflict", "Degraded",
			"kubectl annotate -n shop statefulset/db mainstay.dev/adopt=PostgreSQL/db"},
		"no image": {db, aged(noImage), Decision{Replicas: 3}, plan.Result{}, "False", "ImageNotConfigured", "Degraded",
			"this installation has no image for PostgreSQL 17"},
		"one more is wanted": {db, aged(running(db, 2)), Decision{Replicas: 3}, plan.Result{}, "False", "Scaling", "Updating",
			"spec.replicas is 3, and 2 instances are there"},
		"a pod is evicted": {db, aged(running(db, 3)), Decision{Replicas: 3, Evict: &database.Victim{Name: "db-2"}}, plan.Result{}, "False", "Updating",
			"Updating", "db-2 is being replaced"},
		"a budget forbids that": {db, aged(running(db, 3)), Decision{Replicas: 3, Evict: &database.Victim{Name: "db-2"}, Refused: "the budget"},
			plan.Result{}, "False", "Updating", "Updating", "db-2 can't be replaced now: the budget"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _ := Status(test.db, test.observed, test.decided, test.result)
			ready := condition(status, "Ready")
			if ready.Status != test.ready || ready.Reason != test.reason || status.Phase != test.phase ||
				!strings.Contains(ready.Message, test.says) {
				t.Errorf("got %s %s %s: %s", status.Phase, ready.Status, ready.Reason, ready.Message)
			}
		})
	}
}

// TestLate: a pod that does not end, or an instance that takes no connections for ten minutes, is a
// problem, whatever else is in progress.
func TestLate(t *testing.T) {
	db, fresh := newDatabase(replicas(3)), newDatabase(replicas(2))
	db.Status.FirstReadyTime = new(metav1.Now())
	const replacing, next = "a pod is being replaced", "db-1 is replaced when all are ready"
	late := unreadyFor(unreadyFor(running(fresh, 2), 0, 11*time.Minute), 1, 11*time.Minute)
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		waits    string
		want     string
	}{
		"a pod that ends": {db, deletedFor(running(db, 3), 2, 30*time.Second), replacing, "Updating Updating: a pod is being replaced"},
		"a replica whose node is gone": {db, deletedFor(aged(running(db, 3)), 2, 2*time.Minute), "", "Degraded InstanceNotReady: 2 of 3 instances " +
			"are ready; not ready: db-2 (Following): its pod does not end: if its node is gone for good, delete the Node"},
		"the same in a rollout": {db, deletedFor(aged(running(db, 3)), 2, 11*time.Minute), replacing, "Degraded InstanceNotReady: 2 of 3 " +
			"instances are ready; not ready: db-2 (Following): its pod does not end: if its node is gone for good, delete the Node; " + replacing},
		"a rollout whose replica starts": {db, unreadyFor(running(db, 3), 2, 9*time.Minute), next, "Updating Updating: " + next},
		"a rollout whose replica does not come up": {db, unreadyFor(running(db, 3), 2, 11*time.Minute), next,
			"Degraded InstanceNotReady: 2 of 3 instances are ready; not ready: db-2 (Waiting: no leader answers); " + next},
		"a creation that gets nowhere": {fresh, late, "", "Creating Creating: the database is being created: " +
			"db-0 (Waiting: no leader answers), db-1 (Waiting: no leader answers)"},
	} {
		status, _ := Status(test.db, test.observed, Decision{Replicas: test.db.Spec.Replicas, Waits: test.waits}, plan.Result{})
		ready := condition(status, "Ready")
		if got := fmt.Sprintf("%s %s: %s", status.Phase, ready.Reason, ready.Message); got != test.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, test.want)
		}
		if isLate := condition(status, "Degraded").Status == metav1.ConditionTrue; isLate != (test.waits == "" || ready.Reason == "InstanceNotReady") {
			t.Errorf("%s: Degraded is %t", name, isLate)
		}
		if isUnderWay := condition(status, "Progressing").Status == metav1.ConditionTrue; isUnderWay != (test.waits != "") {
			t.Errorf("%s: Progressing is %t", name, isUnderWay)
		}
	}
}

// TestHibernationWithheld: what spec.paused keeps from being stopped or started goes on as it is,
// and is said to. What hibernates already when it is paused still hibernates.
func TestHibernationWithheld(t *testing.T) {
	pauses := func(spec *databasev1.PostgreSQLSpec) { spec.Paused = true }
	record := quorum(election.Rule{Set: make([]election.Member, 2), Acks: 1})
	for name, test := range map[string]struct {
		changes  []func(*databasev1.PostgreSQLSpec)
		observed func(Observed) Observed
		want     []string
	}{
		"to be stopped": {[]func(*databasev1.PostgreSQLSpec){sleeps, pauses}, aged, []string{
			"PausedByUser spec.paused is true and withholds spec.hibernated, which is true: the instances are not stopped",
			"Settled", "Primary", "Quorum", "3/3",
		}},
		"to be started": {[]func(*databasev1.PostgreSQLSpec){pauses}, asleep, []string{
			"PausedByUser spec.paused is true and withholds spec.hibernated, which is false: no instance runs",
			"Settled", "Hibernated", "Hibernated", "0/0",
		}},
		"hibernated before": {[]func(*databasev1.PostgreSQLSpec){sleeps, pauses}, asleep, []string{
			"Hibernated spec.hibernated is true: no instance runs", "Settled", "Hibernated", "Hibernated", "0/0",
		}},
		"not paused": {[]func(*databasev1.PostgreSQLSpec){sleeps}, aged, []string{
			"Scaling spec.hibernated is true, and 3 instances are not stopped yet: db-0 (Leading), db-1 (Following), db-2 (Following)",
			"Scaling", "Primary", "Hibernated", "3/0",
		}},
	} {
		db := newDatabase(append(test.changes, replicas(3))...)
		db.Status.FirstReadyTime = new(metav1.Now())
		db.Status.Conditions = []metav1.Condition{
			{Type: databasev1.ConditionWritable, Status: metav1.ConditionFalse, Reason: databasev1.ReasonHibernated},
		}
		observed := test.observed(running(db, 3)).with(db, record)
		status, _ := Status(db, observed, Decide(db, observed), plan.Result{})
		ready := condition(status, "Ready")
		got := []string{
			ready.Reason + " " + ready.Message, condition(status, "Progressing").Reason, condition(status, "Writable").Reason,
			condition(status, "Durable").Reason, status.InstanceSummary,
		}
		if !slices.Equal(got, test.want) || (status.Phase == databasev1.PhasePaused) != db.Spec.Paused {
			t.Errorf("%s: got %s %q, want %q", name, status.Phase, got, test.want)
		}
	}
}

// TestForeignSeverity: one wrong volume beside a primary is no standstill of the database; without
// a primary it is. A child that is being deleted, as the message may have advised, comes first.
func TestForeignSeverity(t *testing.T) {
	db := newDatabase(replicas(2))
	db.Status.FirstReadyTime = new(metav1.Now())
	foreign := contract.Report{State: "Ended", Problem: "p", Foreign: "has a"}
	beside := says(aged(running(db, 2)), 1, foreign)
	claim := []plan.Ref{Ref(db, "PersistentVolumeClaim", "data-db-1")}
	for name, test := range map[string]struct {
		observed Observed
		result   plan.Result
		reason   string
		degraded metav1.ConditionStatus
		stalled  metav1.ConditionStatus
	}{
		"beside a primary":     {beside, plan.Result{}, "Conflict", "True", ""},
		"without a primary":    {says(says(aged(running(db, 2)), 1, foreign), 0, foreign), plan.Result{}, "Conflict", "True", "True"},
		"its claim is deleted": {beside, plan.Result{Terminating: claim}, "Terminating", "False", ""},
		"a change is withheld": {beside, plan.Result{Withheld: claim}, "PausedByUser", "False", ""},
	} {
		status, _ := Status(db, test.observed, Decision{Replicas: 2}, test.result)
		ready, degraded, stalled := condition(status, "Ready"), condition(status, "Degraded"), condition(status, "Stalled")
		if ready.Reason != test.reason || degraded.Status != test.degraded || stalled.Status != test.stalled {
			t.Errorf("%s: got %+v", name, status.Conditions)
		}
	}
}

// TestSeveralSystems: what is advised loses no volume. With deletionPolicy Delete, all would go
// with the PostgreSQL. Claims that are left must be those of the first instances: a new PostgreSQL
// has all pods up to its highest claim, and one without data, db-0 above all, keeps it from ever
// having a primary.
func TestSeveralSystems(t *testing.T) {
	deletes := func(spec *databasev1.PostgreSQLSpec) { spec.DeletionPolicy = databasev1.DeletionDelete }
	withLog := func(spec *databasev1.PostgreSQLSpec) { spec.WALStorage = &databasev1.WALStorage{} }
	const again = "nothing there was changed: delete the PostgreSQL and the claims that don't belong to the database to keep, and create it " +
		"again with as many instances as claims are left. The claims must be numbered from 0 on, because an instance without data keeps the " +
		"others from electing a primary"
	const move = "retain its PersistentVolumes and bind that of "
	for name, test := range map[string]struct {
		db      *databasev1.PostgreSQL
		systems []string
		want    string
	}{
		"each system keeps the first, or is moved there": {newDatabase(replicas(2)), []string{"7", "8"},
			again + "; to keep 8, first " + move + "data-db-1 to a new claim data-db-0"},
		"two after a foreign one": {newDatabase(replicas(3)), []string{"7", "8", "8"},
			again + "; to keep 8, first " + move + "data-db-2 to a new claim data-db-0"},
		"a foreign one between two": {newDatabase(replicas(3)), []string{"8", "7", "8"},
			again + "; to keep 8, first " + move + "data-db-2 to a new claim data-db-1; to keep 7, first " + move + "data-db-1 to a new claim data-db-0"},
		"with the log on its own": {newDatabase(replicas(2), withLog), []string{"7", "8"},
			again + "; to keep 8, first " + move + "data-db-1 to a new claim data-db-0, that of wal-db-1 to a new claim wal-db-0"},
		"all would be deleted": {newDatabase(replicas(2), deletes), []string{"7", "8"},
			"nothing there was changed: set spec.deletionPolicy to Retain first, or all volumes are deleted with the PostgreSQL; then this " +
				"message says what to do next"},
	} {
		observed := running(test.db, test.db.Spec.Replicas)
		for ordinal, system := range test.systems {
			observed = says(observed, ordinal, contract.Report{State: "Waiting", System: system})
		}
		status, _ := Status(test.db, observed, Decision{Replicas: test.db.Spec.Replicas}, plan.Result{})
		if got := condition(status, "Ready").Message; !strings.HasSuffix(got, test.want) {
			t.Errorf("%s: got %s\nwant %s", name, got, test.want)
		}
		for name, led := range map[string]databasev1.PostgreSQLStatus{"a term": {Term: 4}, "a time": {FirstReadyTime: new(metav1.Now())}} {
			before := test.db.DeepCopy()
			before.Status = led
			status, _ := Status(before, observed, Decision{Replicas: test.db.Spec.Replicas}, plan.Result{})
			if got := condition(status, "Ready").Message; strings.Contains(got, "several database systems") {
				t.Errorf("the Lease is missing, and the status has %s: got %s", name, got)
			}
		}
	}
}

func condition(status databasev1.PostgreSQLStatus, kind string) metav1.Condition {
	for _, one := range status.Conditions {
		if one.Type == kind {
			return one
		}
	}
	return metav1.Condition{}
}

// TestConditions: what a database promises is said apart from whether all is well.
func TestConditions(t *testing.T) {
	db := newDatabase(replicas(3))
	status, _ := Status(db, aged(says(says(running(db, 3), 1, contract.Report{State: "Waiting", Full: 90}), 2, contract.Report{})),
		Decision{Replicas: 3}, plan.Result{})
	if status.Primary != "db-0" || status.Term != 4 || status.Timeline != 2 || status.InstanceSummary != "1/3" {
		t.Errorf("got %+v", status)
	}
	for kind, want := range map[string]string{
		"Writable": "True Primary", "Durable": "Unknown RecordUnreadable", "StorageHealthy": "False NearlyFull", "Paused": "False Active",
	} {
		if got := condition(status, kind); string(got.Status)+" "+got.Reason != want {
			t.Errorf("%s: got %+v", kind, got)
		}
	}
}

// quorum is a record by which commits wait for so many of the members, under each rule.
func quorum(rules ...election.Rule) election.Record {
	member := func(pod string) election.Member { return election.Member{Name: pod, Incarnation: "1"} }
	record := election.Record{System: "1", Term: 4, Open: true, Holder: election.Holder{Member: member("db-0")}}
	for _, rule := range rules {
		made := election.Rule{Leader: member("db-0"), Acks: rule.Acks}
		for i := range rule.Set {
			made.Set = append(made.Set, member(database.PodName("db", i+1)))
		}
		record.Rules = append(record.Rules, made)
	}
	return record
}

// TestDurable: what commits wait for is what the record says, not what the pods do; the weakest
// rule counts, and fewer than the spec promises is said.
func TestDurable(t *testing.T) {
	set := make([]election.Member, 2)
	one, alone := election.Rule{Set: set, Acks: 1}, election.Rule{}
	preferred := func(s *databasev1.PostgreSQLSpec) { s.Durability = databasev1.DurabilityPreferred }
	asynchronous := func(s *databasev1.PostgreSQLSpec) { s.Durability = databasev1.DurabilityAsynchronous }
	accepts := func(term int64) func(*databasev1.PostgreSQLSpec) {
		return func(s *databasev1.PostgreSQLSpec) { s.Failover.AcceptLoss = term }
	}
	whole := func(db *databasev1.PostgreSQL) Observed { return running(db, db.Spec.Replicas) }
	lonely := func(db *databasev1.PostgreSQL) Observed { return away(away(running(db, 3), 1), 2) }
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed func(*databasev1.PostgreSQL) Observed
		record   election.Record
		want     string
	}{
		"well": {newDatabase(replicas(3)), whole, quorum(one), "True Quorum a commit waits for 1 of 2 replicas, and spec.durability needs 1: 2 receive what the primary writes"},
		"a server that may not wait at its start": {newDatabase(replicas(3), func(s *databasev1.PostgreSQLSpec) { s.Image = "r.io/pg:17.4" }),
			whole, quorum(one), "True Quorum a commit waits for 1 of 2 replicas, and spec.durability needs 1: 2 receive what the primary writes; right after a start, PostgreSQL 17.4 may"},
		"the primary alone acknowledges, and replicas say that they follow": {newDatabase(replicas(3), preferred), whole, quorum(alone),
			"False QuorumReduced a commit waits for 0 of 0 replicas, and spec.durability needs 1"},
		"it may still acknowledge alone": {newDatabase(replicas(3), preferred), whole, quorum(alone, one), "False QuorumReduced a commit waits for 0 of 0"},
		"more instances are wanted":      {newDatabase(replicas(5)), whole, quorum(one), "False QuorumReduced a commit waits for 1 of 2 replicas, and spec.durability needs 2"},
		"writes wait":                    {newDatabase(replicas(3)), lonely, quorum(one), "False TooFewInstances a commit waits for 1 of 2 replicas, and spec.durability needs 1: 0 receive what the primary writes"},
		"nothing was written yet":        {newDatabase(replicas(3)), whole, election.Record{Initialise: "db-0"}, "False Creating"},
		"a loss is accepted":             {newDatabase(replicas(3), accepts(4)), whole, quorum(one), "False LossAccepted spec.failover.acceptLoss is 4, which is the current term"},
		"that of an earlier term":        {newDatabase(replicas(3), accepts(3)), whole, quorum(one), "True Quorum"},
		"asynchronous":                   {newDatabase(replicas(3), asynchronous), whole, quorum(alone), "False Asynchronous 2 replicas receive"},
		"hibernated":                     {newDatabase(sleeps), whole, quorum(alone), "False Hibernated"},
		"one instance":                   {newDatabase(), whole, quorum(alone), "False OneInstance"},
	} {
		decided := Decision{Replicas: test.db.Spec.Replicas}
		status, _ := Status(test.db, aged(test.observed(test.db)).with(test.db, test.record), decided, plan.Result{})
		got := condition(status, "Durable")
		if said := string(got.Status) + " " + got.Reason + " " + got.Message; !strings.HasPrefix(said, test.want) {
			t.Errorf("%s: got %q, want %q", name, said, test.want)
		}
	}
}

// TestTwoPrimaries: of two that say so for a moment, the later one counts; what a pod says that
// can't be read counts as nothing.
func TestTwoPrimaries(t *testing.T) {
	db := newDatabase(replicas(3))
	observed := says(running(db, 3), 2, contract.Report{Role: contract.Primary, State: "Leading", Term: 5})
	if got := database.PrimaryOf(observed.Instances(Common(db, observed))); got.Pod.Name != "db-2" {
		t.Errorf("got %s", got.Pod.Name)
	}
	observed.Pods[2].Annotations[api.AnnotationInstance] = "{" + strings.Repeat("x", 5000)
	if got := database.PrimaryOf(observed.Instances(Common(db, observed))); got.Pod.Name != "db-0" {
		t.Errorf("got %s", got.Pod.Name)
	}
}
