package rollout_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
	"github.com/mainstay-platform/mainstay/test/cases"
)

var noon = time.Date(2026, time.November, 18, 12, 0, 0, 0, time.UTC) // a Wednesday

func unit(name string, state rollout.State) rollout.Unit {
	return rollout.Unit{Kind: "Deployment", Name: name, State: state, Since: noon.Add(-time.Minute)}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestNext(t *testing.T) {
	night := &rolloutv1.Window{Start: "22:00", End: "04:00"}
	const pending, going, done, failed = rollout.Pending, rollout.Progressing, rollout.Done, rollout.Failed
	tests := map[string]struct {
		units  []rollout.Unit
		policy rolloutv1.Policy
		want   string
		again  time.Duration
	}{
		"no unit":                     {want: ""},
		"the zero policy lets all go": {units: []rollout.Unit{unit("b", pending), unit("a", pending)}, want: "a b"},
		"only pending units begin":    {units: []rollout.Unit{unit("a", going), unit("b", done), unit("c", pending)}, want: "c"},
		"kind, then name":             {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)}, want: "a a"},
		"one at a time": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)},
			want:   "a | b WaitingForOthers: waits its turn: 1 of 1 that may roll out at one time do"},
		"those under way count": {units: []rollout.Unit{unit("a", going), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](2)},
			want:   "b | c WaitingForOthers: waits its turn: 2 of 2 that may roll out at one time do"},
		"the named one first": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Order: []string{"b"}}, want: "b | a WaitingForOrder: waits for what goes before it: Deployment/b"},
		"the named one is under way": {units: []rollout.Unit{unit("a", pending), unit("b", going)},
			policy: rolloutv1.Policy{Order: []string{"b"}}, want: " | a WaitingForOrder: waits for what goes before it: Deployment/b"},
		"the named one is done": {units: []rollout.Unit{unit("a", pending), unit("b", done)},
			policy: rolloutv1.Policy{Order: []string{"b"}}, want: "a"},
		"a name that no unit has": {units: []rollout.Unit{unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"gone", "StatefulSet/a"}}, want: "a"},
		"a name with its kind": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"StatefulSet/a"}}, want: "a | a WaitingForOrder: waits for what goes before it: StatefulSet/a"},
		"kind and name before name": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"a",
				"StatefulSet/a"}}, want: "a | a WaitingForOrder: waits for what goes before it: Deployment/a"},
		"one name, two kinds": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"a"}}, want: "a a"},
		"many are waited for": {units: []rollout.Unit{unit("a", going), unit("b", going), unit("c", going), unit("d", going),
			unit("e", going), unit("f", pending)}, policy: rolloutv1.Policy{Order: []string{"e", "d", "c", "b",
			"a"}}, want: " | f WaitingForOrder: waits for what goes before it: Deployment/e, Deployment/d, Deployment/c and 2 more"},
		"one failed": {units: []rollout.Unit{unit("a", pending), unit("b", failed)},
			policy: rolloutv1.Policy{Window: night}, want: " | a RolloutFailed: the rollout has failed: Deployment/b"},
		"the window is closed": {units: []rollout.Unit{unit("a", pending)}, policy: rolloutv1.Policy{Window: night},
			want: " | a OutsideWindow: waits for the maintenance window, which opens 2026-11-18 22:00 UTC", again: 10 * time.Hour},
		"the window is closed, none waits": {units: []rollout.Unit{unit("a", going)}, policy: rolloutv1.Policy{Window: night}, want: ""},
		"the window is open": {units: []rollout.Unit{unit("a", pending)},
			policy: rolloutv1.Policy{Window: &rolloutv1.Window{Start: "11:00", End: "13:00"}}, want: "a"},
		"the window closes over one": {units: []rollout.Unit{unit("a", going), unit("b", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1), Window: &rolloutv1.Window{Start: "11:00",
				End: "13:00"}}, want: " | b WaitingForOthers: waits its turn: 1 of 1 that may roll out at one time do", again: time.Hour},
		"the canary first": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{}},
			want:   "a | b WaitingForCanary: waits for those that try the change first: Deployment/a"},
		"two canaries": {units: []rollout.Unit{unit("a", done), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 2}},
			want:   "b | c WaitingForCanary: waits for those that try the change first: Deployment/b"},
		"more canaries than units": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 5}}, want: "a b"},
		"a third of three": {units: []rollout.Unit{unit("a", pending), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](33)}},
			want:   "a | b WaitingForCanary: waits for those that try the change first: Deployment/a | c WaitingForCanary: waits for those that try the change first: Deployment/a"},
		"a little more is rounded up": {units: []rollout.Unit{unit("a", pending), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](34)}},
			want:   "a b | c WaitingForCanary: waits for those that try the change first: Deployment/a, Deployment/b"},
		"all of them": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](100)}}, want: "a b"},
		"a share of none": {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](50)}}},
		"the canary is done": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1}}, want: "b"},
		"the canary by the order": {units: []rollout.Unit{unit("a", pending), unit("b", done)},
			policy: rolloutv1.Policy{Order: []string{"b"},
				Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Hour)}},
			want: " | a WaitingForCanary: waits until those that try the change first have run it for 1h0m0s", again: 59 * time.Minute},
		"the canary has soaked": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Minute)}}, want: "b"},
		"the window closes before the soak": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Soak: duration(2 * time.Hour)},
				Window: &rolloutv1.Window{Start: "11:00",
					End: "13:00"}}, want: " | b WaitingForCanary: waits until those that try the change first have run it for 2h0m0s", again: time.Hour},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer, err := rollout.Next(test.units, test.policy, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, told(test.units, answer)); diff != "" {
				t.Error(diff)
			}
			if answer.Again != test.again {
				t.Errorf("it changes after %s, want %s", answer.Again, test.again)
			}
		})
	}
}

// told is an answer in one line: who goes, and who is held and why.
func told(units []rollout.Unit, answer rollout.Selection) string {
	var names []string
	for _, index := range answer.Go {
		names = append(names, units[index].Name)
	}
	parts := []string{strings.Join(names, " ")}
	for index := range units {
		if hold, held := answer.Held[index]; held {
			parts = append(parts, units[index].Name+" "+string(hold.Reason)+": "+hold.Message)
		}
	}
	return strings.Join(parts, " | ")
}

func TestNextOfABadWindow(t *testing.T) {
	_, err := rollout.Next(nil, rolloutv1.Policy{Window: &rolloutv1.Window{Start: "25:00", End: "04:00"}}, noon)
	if err == nil || err.Error() != `reading the window: start: "25:00" is given; accepted is a time of day from 00:00 to 23:59` {
		t.Errorf("the error is %v", err)
	}
}

func TestTimeout(t *testing.T) {
	if got := rollout.Timeout(rolloutv1.Policy{}); got != 10*time.Minute {
		t.Errorf("by default it is %s", got)
	}
	if got := rollout.Timeout(rolloutv1.Policy{Timeout: duration(time.Second)}); got != time.Second {
		t.Errorf("it is %s, not as given", got)
	}
}

// TestNextKeepsItsPromises rolls random units out under random policies: never more than maxParallel are under way, the
// order and the canaries are kept, the same question has the same answer in whatever order it is put, and when all that
// are under way become Done it goes on, to the end.
func TestNextKeepsItsPromises(t *testing.T) {
	for seed := range cases.Seeds(t, 2000, 100_000) {
		random := rand.New(rand.NewPCG(seed, 20)) //nolint:gosec // a test must repeat itself
		units, policy := someUnits(random), somePolicy(random)
		now := noon
		for step := 0; ; step++ {
			if step > 3*len(units)+40 {
				t.Fatalf("no end: %+v under %+v", units, policy)
			}
			answer, err := rollout.Next(units, policy, now)
			if err != nil {
				t.Fatal(err)
			}
			checkAnswer(t, units, policy, answer)
			for _, index := range answer.Go {
				units[index].State, units[index].Since = rollout.Progressing, now
			}
			if !advance(random, units, now) {
				if len(answer.Held) == 0 {
					break
				}
				if answer.Again <= 0 {
					t.Fatalf("stuck: %s of %+v under %+v", told(units, answer), units, policy)
				}
				now = now.Add(answer.Again)
			}
		}
	}
}

// advance makes some of those under way Done; false if none was.
func advance(random *rand.Rand, units []rollout.Unit, now time.Time) bool {
	was := false
	for i := range units {
		if units[i].State == rollout.Progressing && (!was || random.IntN(2) == 0) {
			units[i].State, units[i].Since, was = rollout.Done, now, true
		}
	}
	return was
}

func someUnits(random *rand.Rand) []rollout.Unit {
	var units []rollout.Unit
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			if random.IntN(2) == 0 {
				units = append(units, rollout.Unit{Kind: kind, Name: name, State: rollout.State(random.IntN(3)), Since: noon})
			}
		}
	}
	random.Shuffle(len(units), func(i, j int) { units[i], units[j] = units[j], units[i] })
	return units
}

func somePolicy(random *rand.Rand) rolloutv1.Policy {
	var policy rolloutv1.Policy
	for _, entry := range []string{"c", "StatefulSet/b", "gone", "a"} {
		if random.IntN(3) == 0 {
			policy.Order = append(policy.Order, entry)
		}
	}
	if random.IntN(2) == 0 {
		policy.MaxParallel = new(1 + random.Int32N(3))
	}
	if random.IntN(2) == 0 {
		policy.Canary = &rolloutv1.Canary{Count: 1 + random.Int32N(3), Soak: duration(time.Duration(random.IntN(300)) * time.Minute)}
	}
	if policy.Canary != nil && random.IntN(2) == 0 {
		policy.Canary.Count, policy.Canary.Percent = 0, new(1+random.Int32N(100))
	}
	if random.IntN(2) == 0 {
		policy.Window = &rolloutv1.Window{Start: "22:00", End: "02:00", TimeZone: "Europe/Berlin"}
	}
	return policy
}

func checkAnswer(t *testing.T, units []rollout.Unit, policy rolloutv1.Policy, answer rollout.Selection) {
	t.Helper()
	underWay, pending := 0, 0
	for _, u := range units {
		switch u.State {
		case rollout.Progressing:
			underWay++
		case rollout.Pending:
			pending++
		case rollout.Done, rollout.Failed:
		}
	}
	if len(answer.Go)+len(answer.Held) != pending {
		t.Fatalf("%d of %d pending units have an answer", len(answer.Go)+len(answer.Held), pending)
	}
	if limit := policy.MaxParallel; limit != nil && len(answer.Go) > 0 && underWay+len(answer.Go) > int(*limit) {
		t.Fatalf("%d would be under way where %d may", underWay+len(answer.Go), *limit)
	}
	for _, index := range answer.Go {
		if units[index].State != rollout.Pending {
			t.Fatalf("%s goes though it is not pending", units[index])
		}
	}
}
