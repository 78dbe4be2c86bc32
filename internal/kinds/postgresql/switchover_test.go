package postgresql

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

var earlier, later = new(metav1.NewTime(noon)), new(metav1.NewTime(noon.Add(time.Hour)))

// asked is a PostgreSQL of three that was ready, and is asked to switch over.
func asked(from int64) *databasev1.PostgreSQL {
	db := newDatabase(replicas(3))
	db.Spec.SwitchoverAt = later
	db.Status = databasev1.PostgreSQLStatus{FirstReadyTime: earlier, Primary: "db-0", Term: 4, SwitchoverAt: earlier, SwitchoverFrom: from}
	if from != 0 {
		db.Status.SwitchoverFor = later
	}
	return db
}

// TestSwitchover: the term is stored, then the primary is told, then the request counts as carried
// out; a crash at any of these points causes no second handover.
func TestSwitchover(t *testing.T) {
	elected := says(running(asked(4), 3), 1, contract.Report{Role: contract.Primary, State: "Leading", Term: 5})
	never := asked(0)
	never.Status = databasev1.PostgreSQLStatus{}
	done := asked(0)
	done.Status.SwitchoverAt = later
	gone := asked(4)
	gone.Spec.SwitchoverAt = nil
	followed := &database.Switchover{At: later, PreferredTerm: 5, PreferredGeneration: 3}
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		note     *database.Switchover
		from     uint64
		to       string
	}{
		"asked":                             {asked(0), running(asked(0), 3), &database.Switchover{At: earlier, From: 4, For: later}, 0, ""},
		"noted":                             {asked(4), running(asked(4), 3), nil, 4, "db-1"},
		"a replica lags":                    {asked(4), says(running(asked(4), 3), 1, contract.Report{Role: contract.Replica, Term: 4, Lag: "Seconds"}), nil, 4, "db-2"},
		"another leads":                     {asked(4), elected, followed, 0, ""},
		"carried out":                       {done, running(done, 3), nil, 0, ""},
		"there from the beginning":          {never, running(never, 3), &database.Switchover{At: later}, 0, ""},
		"the wish is gone":                  {gone, running(gone, 3), nil, 4, "db-1"},
		"no primary":                        {asked(0), says(running(asked(0), 3), 0, contract.Report{}), nil, 0, ""},
		"no replica":                        {asked(0), away(away(running(asked(0), 3), 1), 2), nil, 0, ""},
		"pods are replaced":                 {asked(0), outdated(running(asked(0), 3), 1), nil, 0, ""},
		"a pod is being replaced":           {asked(0), ending(outdated(running(asked(0), 3), 1), 2), nil, 0, ""},
		"a replica of an earlier term only": {asked(0), says(away(running(asked(0), 3), 1), 2, contract.Report{Role: contract.Replica, Term: 3}), nil, 0, ""},
	} {
		decided := Decide(test.db, test.observed)
		if decided.SwitchFrom != test.from || decided.SwitchTo != test.to || (decided.Switchover == nil) != (test.note == nil) {
			t.Errorf("%s: got %+v, %+v", name, decided, decided.Switchover)
			continue
		}
		status, _ := Status(test.db, test.observed, decided, plan.Result{})
		want := noted(&test.db.Status)
		if test.note != nil {
			want = *test.note
		}
		if diff := cmp.Diff(want, noted(&status)); diff != "" {
			t.Errorf("%s: the status remembers: %s", name, diff)
		}
	}
}

// handovers lets the manager and a primary that obeys it run for some time, and returns the
// successive primaries. before is called before each step; a step's status is lost if it returns
// false.
func handovers(db *databasev1.PostgreSQL, before func(step int) bool) []string {
	leader, term, lasts := 0, uint64(4), 0
	leaders := []string{database.PodName(db.Name, leader)}
	for step := range 40 {
		observed := aged(running(db, 3))
		for ordinal := range 3 {
			report := contract.Report{Role: contract.Replica, State: "Following", Term: term}
			if ordinal == leader {
				report.Role, report.State = contract.Primary, "Leading"
			}
			observed = aged(says(observed, ordinal, report))
		}
		isStored := before(step)
		decided := Decide(db, observed)
		if status, _ := Status(db, observed, decided, plan.Result{}); isStored {
			status.FirstReadyTime = db.Status.FirstReadyTime
			db.Status = status
		}
		if decided.SwitchFrom != term {
			continue
		}
		if lasts++; lasts%3 == 0 { // It takes a while.
			leader, term = database.OrdinalOf(db.Name, decided.SwitchTo), term+1
			leaders = append(leaders, decided.SwitchTo)
		}
	}
	return leaders
}

// TestEachTimeIsOneHandover: a time that comes while another is being carried out has its turn
// after that, whichever writes are lost in between; a preferred primary is not fought over.
func TestEachTimeIsOneHandover(t *testing.T) {
	second := new(metav1.NewTime(noon.Add(2 * time.Hour)))
	for lost := range 12 {
		for name, test := range map[string]struct {
			change func(db *databasev1.PostgreSQL, step int)
			want   string
		}{
			"one": {func(*databasev1.PostgreSQL, int) {}, "db-0 db-1"},
			"another during the handover": {func(db *databasev1.PostgreSQL, step int) {
				if db.Status.SwitchoverFrom != 0 {
					db.Spec.SwitchoverAt = second
				}
			}, "db-0 db-1 db-0"},
			"another after it": {func(db *databasev1.PostgreSQL, step int) {
				if step == 25 {
					db.Spec.SwitchoverAt = second
				}
			}, "db-0 db-1 db-0"},
			"away from the preferred one": {func(db *databasev1.PostgreSQL, step int) {
				db.Spec.PreferredPrimary = "db-0"
			}, "db-0 db-1"},
			"another is preferred later": {func(db *databasev1.PostgreSQL, step int) {
				if step == 25 {
					db.Spec.PreferredPrimary, db.Generation = "db-2", db.Generation+1
				}
			}, "db-0 db-1 db-2"},
		} {
			db := asked(0)
			got := handovers(db, func(step int) bool {
				test.change(db, step)
				return step != lost
			})
			if strings.Join(got, " ") != test.want {
				t.Errorf("%s, the status of step %d is lost: %v", name, lost, got)
			}
		}
	}
}

// TestTimesThatNoStatusHas: a spec may have them, and a status that was stored does not. They are
// one handover, or none, all the same.
func TestTimesThatNoStatusHas(t *testing.T) {
	for name, test := range map[string]struct {
		at   metav1.Time
		want string
	}{
		"a fraction of a second": {metav1.NewTime(later.Add(time.Second / 3)), "db-0 db-1"},
		"the zero time":          {metav1.Time{}, "db-0"},
	} {
		db := asked(0)
		db.Spec.SwitchoverAt = &test.at
		got := handovers(db, func(int) bool {
			text, err := json.Marshal(db.Status)
			if err != nil {
				t.Fatal(err)
			}
			db.Status = databasev1.PostgreSQLStatus{}
			if err := json.Unmarshal(text, &db.Status); err != nil {
				t.Fatal(err)
			}
			return true
		})
		if decided := Decide(db, running(db, 3)); strings.Join(got, " ") != test.want || decided.Switchover != nil {
			t.Errorf("%s: %v, and at the end the status is to remember %+v", name, got, decided.Switchover)
		}
	}
}

// TestPreferredPrimary: when all is well, the primary hands over to the preferred one, once in its
// term, and again if the spec has changed.
func TestPreferredPrimary(t *testing.T) {
	wants := func(change func(*databasev1.PostgreSQL)) *databasev1.PostgreSQL {
		db := asked(0)
		db.Status.SwitchoverAt, db.Spec.PreferredPrimary = later, "db-2"
		change(db)
		return db
	}
	unchanged := func(*databasev1.PostgreSQL) {}
	tried := func(term, generation int64) func(*databasev1.PostgreSQL) {
		return func(db *databasev1.PostgreSQL) {
			db.Status.PreferredTerm, db.Status.PreferredGeneration = term, generation
		}
	}
	begun := func(db *databasev1.PostgreSQL) {
		tried(4, 3)(db)
		db.Status.SwitchoverFrom = 4
	}
	lags := func(db *databasev1.PostgreSQL) Observed {
		return says(all(db), 2, contract.Report{Role: contract.Replica, Term: 4, Lag: "Seconds"})
	}
	other := func(db *databasev1.PostgreSQL) Observed {
		return says(all(db), 1, contract.Report{Role: contract.Primary, State: "Leading", Term: 5})
	}
	begins := &database.Switchover{At: later, From: 4, PreferredTerm: 4, PreferredGeneration: 3}
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed func(*databasev1.PostgreSQL) Observed
		note     *database.Switchover
		from     uint64
	}{
		"another leads":          {wants(unchanged), all, begins, 0},
		"it is begun":            {wants(begun), all, nil, 4},
		"it can't any more":      {wants(begun), lags, &database.Switchover{At: later, PreferredGeneration: 3}, 0},
		"a third one got it":     {wants(begun), other, &database.Switchover{At: later, PreferredTerm: 5, PreferredGeneration: 3}, 0},
		"it leads":               {wants(func(db *databasev1.PostgreSQL) { db.Spec.PreferredPrimary = "db-0" }), all, nil, 0},
		"tried in this term":     {wants(tried(4, 3)), all, nil, 0},
		"tried in an earlier":    {wants(tried(3, 3)), all, begins, 0},
		"tried for another spec": {wants(tried(4, 2)), all, begins, 0},
		"it lags":                {wants(unchanged), lags, nil, 0},
		"another is not ready":   {wants(unchanged), func(db *databasev1.PostgreSQL) Observed { return away(all(db), 1) }, nil, 0},
	} {
		decided := Decide(test.db, test.observed(test.db))
		if diff := cmp.Diff(test.note, decided.Switchover); diff != "" || decided.SwitchFrom != test.from ||
			test.from != 0 && (decided.SwitchTo != "db-2" || !decided.SwitchOnly) {
			t.Errorf("%s: %+v, %s", name, decided, diff)
		}
	}
	wrong := wants(func(db *databasev1.PostgreSQL) { db.Spec.PreferredPrimary = "db-3" })
	if problems := Validate(wrong); len(problems) != 1 || problems[0].Field != "spec.preferredPrimary" {
		t.Errorf("got %v", problems)
	}
}

// TestSwitchoverWaits: the status says what a handover on request waits for.
func TestSwitchoverWaits(t *testing.T) {
	single := asked(0)
	single.Spec.Replicas = 1
	done := asked(0)
	done.Status.SwitchoverAt = later
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		want     string
	}{
		"no replica":   {asked(0), aged(away(away(all(asked(0)), 1), 2)), "Waiting spec.switchoverAt waits: no replica receives from db-0"},
		"one instance": {single, aged(running(single, 1)), "Waiting spec.switchoverAt waits: there is only one instance, so there is none to hand over to"},
		"no primary":   {asked(0), aged(away(all(asked(0)), 0)), "Waiting spec.switchoverAt waits: no instance takes writes"},
		"a rollout":    {asked(0), outdated(aged(all(asked(0))), 1), "Updating db-1 is being replaced"},
		"done":         {done, aged(all(done)), "Settled nothing is in progress"},
	} {
		status, _ := Status(test.db, test.observed, Decide(test.db, test.observed), plan.Result{})
		if got := condition(status, "Progressing"); got.Reason+" "+got.Message != test.want {
			t.Errorf("%s: got %s %s, want %s", name, got.Reason, got.Message, test.want)
		}
	}
}

// TestUpgrading: another image of the server is an upgrade, another template is not.
func TestUpgrading(t *testing.T) {
	db := asked(0)
	for image, want := range map[string]databasev1.PostgreSQLPhase{
		"registry.example.com/postgresql:17.11": databasev1.PhaseUpdating, "registry.example.com/postgresql:17.10": databasev1.PhaseUpgrading,
	} {
		observed := aged(outdated(all(db), 0))
		observed.Pods[0].Spec.Containers = []corev1.Container{{Name: ContainerName, Image: image}}
		if status, _ := Status(db, observed, Decide(db, observed), plan.Result{}); status.Phase != want {
			t.Errorf("%s: got %s, want %s", image, status.Phase, want)
		}
	}
}

// all are three instances that work.
func all(db *databasev1.PostgreSQL) Observed { return running(db, 3) }

// TestSwitchingOver: a primary that hands over is no failover, unless it takes too long.
func TestSwitchingOver(t *testing.T) {
	ends := aged(running(asked(0), 3))
	ends.Pods[0].DeletionTimestamp = new(metav1.Now())
	none := aged(says(running(asked(0), 3), 0, contract.Report{State: "Stopping"}))
	switching := func(since time.Duration) *databasev1.PostgreSQL {
		db := asked(4)
		db.Status.Primary, db.Status.FormerPrimary = "", "db-0"
		db.Status.Conditions = []metav1.Condition{
			{Type: databasev1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: databasev1.ReasonSwitchingOver},
			{Type: databasev1.ConditionWritable, Status: metav1.ConditionFalse, LastTransitionTime: metav1.NewTime(none.Now.Add(-since))},
		}
		return db
	}
	endless := switching(time.Minute)
	fewer := asked(0)
	fewer.Spec.Replicas, fewer.Status.Primary = 2, "db-2"
	for name, test := range map[string]struct {
		db       *databasev1.PostgreSQL
		observed Observed
		decided  Decision
		want     string
		phase    databasev1.PostgreSQLPhase
	}{
		"its pod ends": {asked(0), ends, Decision{Replicas: 3}, "SwitchingOver db-0 hands over, because its pod ends", "SwitchingOver"},
		"on request": {asked(4), aged(running(asked(4), 3)), Decision{Replicas: 3, SwitchFrom: 4, SwitchTo: "db-1"},
			"SwitchingOver db-0 hands over to db-1 on request", "SwitchingOver"},
		"in between":            {switching(time.Second), none, Decision{Replicas: 3}, "SwitchingOver no instance takes writes while the primary changes", "SwitchingOver"},
		"its pod ends for ever": {endless, ends, Decision{Replicas: 3}, "FailingOver no instance takes writes", "FailingOver"},
		"one that is to go": {fewer, aged(says(running(asked(0), 3), 0, contract.Report{State: "Stopping"})), Decision{Replicas: 3},
			"SwitchingOver no instance takes writes while the primary changes", "SwitchingOver"},
		"too long": {switching(time.Minute), none, Decision{Replicas: 3}, "FailingOver no instance takes writes", "FailingOver"},
	} {
		status, after := Status(test.db, test.observed, test.decided, plan.Result{})
		if test.phase == databasev1.PhaseSwitchingOver && (after == 0 || after > database.SwitchesFor) {
			t.Errorf("%s: nothing checks whether it takes too long: %s", name, after)
		}
		ready := condition(status, "Ready")
		if got := ready.Reason + " " + ready.Message; !strings.HasPrefix(got, test.want) || status.Phase != test.phase {
			t.Errorf("%s: got %s %q, want %q", name, status.Phase, got, test.want)
		}
	}
}
