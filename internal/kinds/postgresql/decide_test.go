package postgresql

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// outdated are pods of an earlier template.
func outdated(observed Observed, ordinals ...int) Observed {
	for _, ordinal := range ordinals {
		observed.Pods[ordinal].Labels[appsv1.ControllerRevisionHashLabelKey] = "db-1"
	}
	return observed
}

// away lets a pod take no connections.
func away(observed Observed, ordinal int) Observed {
	pod := newPod(observed.Pods[ordinal].Name, contract.Report{State: "Starting"})
	pod.Labels, pod.Status.Conditions[0].Status = observed.Pods[ordinal].Labels, corev1.ConditionFalse
	observed.Pods[ordinal] = pod
	return observed
}

// TestReplace: replicas first, then the primary; one at a time, and only while all others are
// ready.
func TestReplace(t *testing.T) {
	db, first := newDatabase(replicas(3)), election.Member{Name: "db-0", Incarnation: "1"}
	back := succeeded(running(db, 3)).with(db, election.Record{
		System: "1", Term: 6, Open: true, Holder: election.Holder{Member: first}, Rules: []election.Rule{{Leader: first}},
	})
	for name, test := range map[string]struct {
		observed Observed
		evict    string
		waits    string
	}{
		"all are of the template":              {observed: running(db, 3)},
		"all are of an earlier one":            {observed: outdated(running(db, 3), 0, 1, 2), evict: "db-2"},
		"a replica is left":                    {observed: outdated(running(db, 3), 0, 1), evict: "db-1"},
		"the primary is left":                  {observed: outdated(running(db, 3), 0), evict: "db-0"},
		"another is not ready":                 {observed: away(outdated(running(db, 3), 0, 1), 2), waits: "2 of 3 are"},
		"the one to replace is not ready":      {observed: away(outdated(running(db, 3), 1, 2), 1), evict: "db-1"},
		"a pod ends already":                   {observed: ending(outdated(running(db, 3), 0, 1), 2), waits: "a pod is being replaced"},
		"the primary is not ready":             {observed: unready(outdated(running(db, 3), 0)), waits: "2 of 3 are"},
		"a former primary can't start":         {observed: unready(outdated(succeeded(running(db, 3)), 0, 1, 2)), evict: "db-0"},
		"a former primary does not know yet":   {observed: outdated(succeeded(running(db, 3)), 0, 1), evict: "db-0"},
		"a former primary leads again":         {observed: unready(outdated(back, 0)), waits: "2 of 3 are"},
		"the only one":                         {observed: outdated(running(newDatabase(), 1), 0), evict: "db-0"},
		"the only one that there is":           {observed: gone(outdated(running(db, 3), 0), 2), waits: "1 of 3 are"},
		"the StatefulSet was not looked at":    {observed: unseen(db, outdated(running(db, 3), 0, 1, 2))},
		"its template has no revision yet":     {observed: unnamed(db, running(db, 3))},
		"a foreign pod with a name of our own": {observed: foreign(running(db, 3))},
	} {
		t.Run(name, func(t *testing.T) {
			of := db
			if name == "the only one" {
				of = newDatabase()
			}
			decided := Decide(of, test.observed)
			evict := ""
			if decided.Evict != nil {
				evict = decided.Evict.Name
			}
			if evict != test.evict || !strings.Contains(decided.Waits, test.waits) || (test.waits == "") != (decided.Waits == "") {
				t.Errorf("got %q, %q; want %q, %q", evict, decided.Waits, test.evict, test.waits)
			}
		})
	}
}

// unready lets the first pod take no connections, and say what it said before.
func unready(observed Observed) Observed {
	observed.Pods[0].Status.Conditions[0].Status = corev1.ConditionFalse
	return observed
}

// succeeded lets the second instance lead, in a later term than the first one says that it leads.
func succeeded(observed Observed) Observed {
	observed.Pods[1] = newPod("db-1", contract.Report{Role: contract.Primary, State: "Leading", Term: 5})
	return observed
}

func ending(observed Observed, ordinal int) Observed {
	observed.Pods[ordinal].DeletionTimestamp = new(metav1.Now())
	return observed
}

// gone removes the last pods, which have not been recreated yet.
func gone(observed Observed, count int) Observed {
	observed.Pods = observed.Pods[:len(observed.Pods)-count]
	return observed
}

func unseen(db *databasev1.PostgreSQL, observed Observed) Observed {
	observed.StatefulSet(Common(db, observed)).Generation++
	return observed
}

// unnamed lets the StatefulSet not say which revision its template is.
func unnamed(db *databasev1.PostgreSQL, observed Observed) Observed {
	observed.StatefulSet(Common(db, observed)).Status.UpdateRevision = ""
	return observed
}

func foreign(observed Observed) Observed {
	leader := contract.Report{Role: contract.Primary, Term: 9}
	observed.Pods = append(observed.Pods, newPod("db-1x", leader), newPod("other-0", contract.Report{}))
	return outdated(observed, 3, 4)
}

// TestScaleIn: no instance is removed that leads, or may be the only one with acknowledged writes.
func TestScaleIn(t *testing.T) {
	db := newDatabase(replicas(1))
	member := func(pod string) election.Member { return election.Member{Name: pod, Incarnation: "1"} }
	record := func(holder string, sets ...string) election.Record {
		made := election.Record{System: "1", Term: 4, Open: true, Holder: election.Holder{Member: member(holder)}}
		if len(sets) == 0 {
			made.Rules = []election.Rule{{Leader: member(holder)}}
		}
		for _, name := range sets {
			made.Rules = append(made.Rules, election.Rule{Leader: member(holder), Set: []election.Member{member(name)}, Acks: 1})
		}
		return made
	}
	released := election.Record{System: "1", Term: 4, Rules: []election.Rule{{Leader: member("db-0")}}}
	stands, all := record("db-0"), []string{"db-0", "db-1", "db-2"}
	stands.Open = false
	noPrimary := Decision{Replicas: 3, RequeueAfter: database.LookAgain, Pods: all, Waits: "there is no primary"}
	for name, test := range map[string]struct {
		observed Observed
		want     Decision
	}{
		"nothing is known": {running(db, 3), Decision{Replicas: 3, RequeueAfter: database.LookAgain, Pods: all,
			Waits: "the Lease can't be read, so it is unknown whether the instances to be removed have data that the others lack"}},
		"one to be removed leads": {led(running(db, 3), 2).with(db, record("db-2", "db-0")), Decision{Replicas: 3,
			RequeueAfter: database.LookAgain, Pods: []string{"db-0", "db-2"}, SwitchFrom: 4, SwitchTo: "db-0", SwitchOnly: true,
			Waits: "db-2, which is to be removed, hands over to another instance"}},
		"one to be removed leads, and no other can take over": {away(led(running(db, 3), 2), 0).with(db, record("db-2", "db-0")),
			Decision{Replicas: 3, RequeueAfter: database.LookAgain, Pods: []string{"db-0", "db-2"},
				Waits: "db-2, which is to be removed, waits for a remaining replica that receives"}},
		"a rule names one to be removed": {running(db, 3).with(db, record("db-0", "db-1")), Decision{Replicas: 3,
			RequeueAfter: database.LookAgain, Waits: "commits may still depend on db-1, which is to be removed"}},
		"no instance leads":   {running(db, 3).with(db, released), noPrimary},
		"one stands":          {running(db, 3).with(db, stands), noPrimary},
		"the primary is away": {away(running(db, 3), 0).with(db, record("db-0", "db-1")), noPrimary},
		"none is needed":      {running(db, 3).with(db, record("db-0")), Decision{Replicas: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Decide(db, test.observed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEarlierVolumes: of the volumes that an earlier database left, each one may have what the
// others lack. So all of their instances are made and elect, until a record says which data count.
func TestEarlierVolumes(t *testing.T) {
	db := newDatabase()
	elect := func(decided Decision) []string {
		told, err := contract.ParseSettings(settings(db, empty(), decided).Data[contract.SettingsKey])
		if err != nil {
			t.Fatal(err)
		}
		return told.Pods
	}
	left := func(observed Observed) Observed {
		for _, ordinal := range []int{0, 2} {
			observed.Children[Ref(db, "PersistentVolumeClaim", database.VolumeName("db", ordinal))] = plan.Found{
				Ownership: plan.Consenting, Object: &corev1.PersistentVolumeClaim{},
			}
		}
		return observed
	}
	led := election.Record{System: "1", Term: 4, Rules: []election.Rule{{Leader: election.Member{Name: "db-0", Incarnation: "1"}}}}
	named := election.Record{System: "1", Term: 4, Rules: []election.Rule{{Leader: election.Member{Name: "db-0", Incarnation: "1"},
		Set: []election.Member{{Name: "db-1", Incarnation: "1"}}, Acks: 1}}}
	made := running(db, 3).with(db, election.Record{})
	made.Pods = nil
	for name, test := range map[string]struct {
		observed Observed
		replicas int32
		pods     []string
	}{
		"there is none":               {empty(), 1, []string{"db-0"}},
		"nothing was made":            {left(empty()), 3, []string{"db-0", "db-1", "db-2"}},
		"the Lease was made":          {left(empty()).with(db, election.Record{}), 3, []string{"db-0", "db-1", "db-2"}},
		"the StatefulSet was made":    {left(made), 3, []string{"db-0", "db-1", "db-2"}},
		"the StatefulSet was deleted": {left(empty()).with(db, led), 1, []string{"db-0"}},
		"a rule names another":        {left(empty()).with(db, named), 2, []string{"db-0", "db-1"}},
		"it hibernated":               {asleep(made.with(db, led)), 1, []string{"db-0"}},
		"it hibernated with others":   {asleep(made.with(db, named)), 2, []string{"db-0", "db-1"}},
	} {
		decided := Decide(db, test.observed)
		if pods := elect(decided); decided.Replicas != test.replicas || !slices.Equal(pods, test.pods) {
			t.Errorf("%s: %d pods are made, and %v elect: want %d, %v", name, decided.Replicas, pods, test.replicas, test.pods)
		}
	}
}

// asleep is what is observed of a database that hibernated: a StatefulSet without pods.
func asleep(observed Observed) Observed {
	observed.Pods, observed.Children = nil, maps.Clone(observed.Children)
	for ref, found := range observed.Children {
		if set, is := found.Object.(*appsv1.StatefulSet); is {
			set = set.DeepCopy()
			set.Spec.Replicas = new(int32)
			observed.Children[ref] = plan.Found{Ownership: found.Ownership, Object: set}
		}
	}
	return observed
}

// TestHibernated: no pods and no budget, and everything else stays.
func TestHibernated(t *testing.T) {
	db := newDatabase(replicas(3), sleeps)
	wanted := Desired(db, running(db, 3), Decide(db, running(db, 3)))
	kinds := map[string]int{}
	for _, child := range wanted.Children {
		kinds[reflect.TypeOf(child.Object).Elem().Name()]++
		if set, is := child.Object.(*appsv1.StatefulSet); is && *set.Spec.Replicas != 0 {
			t.Errorf("%d pods are to be", *set.Spec.Replicas)
		}
	}
	if kinds["StatefulSet"] != 1 || kinds["PodDisruptionBudget"] != 0 || kinds["Service"] != 4 || kinds["Lease"] != 1 {
		t.Errorf("got %v", kinds)
	}
}

// led lets another instance than the first one lead.
func led(observed Observed, ordinal int) Observed {
	observed.Pods[0] = newPod("db-0", contract.Report{Role: contract.Replica, State: "Following", Term: 4})
	observed.Pods[ordinal] = newPod(database.PodName("db", ordinal), contract.Report{Role: contract.Primary, State: "Leading", Term: 4})
	return observed
}

// TestPaused: what is paused is left as it is.
func TestPaused(t *testing.T) {
	db := newDatabase(replicas(1), func(spec *databasev1.PostgreSQLSpec) { spec.Paused = true })
	if diff := cmp.Diff(Decision{Replicas: 3}, Decide(db, outdated(running(db, 3), 1))); diff != "" {
		t.Error(diff)
	}
	if !Desired(db, empty(), Decision{}).Withhold {
		t.Error("a paused database is written")
	}
}
