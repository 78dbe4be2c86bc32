package rollout_test

import (
	"math/rand/v2"
	"strconv"
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

// exempt returns a unit that runs the change without having started for it.
func exempt(name string) rollout.Unit {
	return rollout.Unit{Kind: "Deployment", Name: name, State: rollout.Done, Exempt: true}
}

// refused returns a unit that the API server did not let start some minutes ago.
func refused(name string, minutes int) rollout.Unit {
	return rollout.Unit{Kind: "Deployment", Name: name, RefusedAt: noon.Add(time.Duration(-minutes) * time.Minute)}
}

// chosen returns a unit that the caller has chosen as a canary.
func chosen(name string, state rollout.State) rollout.Unit {
	marked := unit(name, state)
	marked.Canary = true
	return marked
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestNext(t *testing.T) {
	night := &rolloutv1.Window{Start: "22:00", End: "04:00"}
	const pending, going, done, failed, suspended = rollout.Pending, rollout.Progressing, rollout.Done, rollout.Failed, rollout.Suspended
	checkNext(t, map[string]nextTest{
		"no unit":                     {want: ""},
		"the zero policy selects all": {units: []rollout.Unit{unit("b", pending), unit("a", pending)}, want: "a b"},
		"only pending units start":    {units: []rollout.Unit{unit("a", going), unit("b", done), unit("c", pending)}, want: "c"},
		"kind, then name":             {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)}, want: "a a"},
		"one at a time": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)},
			want:   "a | b WaitingForOthers: waiting: 1 workload is rolling out (maxParallel 1)"},
		"progressing units count": {units: []rollout.Unit{unit("a", going), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](2)},
			want:   "b | c WaitingForOthers: waiting: 2 workloads are rolling out (maxParallel 2)"},
		"a unit in the order starts first": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Order: []string{"b"}},
			want:   "b | a WaitingForOrder: waiting for the workloads before it in the order: Deployment/b"},
		"a unit in the order is progressing": {units: []rollout.Unit{unit("a", pending), unit("b", going)},
			policy: rolloutv1.Policy{Order: []string{"b"}},
			want:   " | a WaitingForOrder: waiting for the workloads before it in the order: Deployment/b"},
		"a unit in the order is done": {units: []rollout.Unit{unit("a", pending), unit("b", done)},
			policy: rolloutv1.Policy{Order: []string{"b"}}, want: "a"},
		"a unit in the order waits for a user": {units: []rollout.Unit{unit("a", pending), unit("b", suspended)},
			policy: rolloutv1.Policy{Order: []string{"b"}},
			want:   " | a WaitingForOrder: waiting for the workloads before it in the order: Deployment/b"},
		"the canary waits for a user": {units: []rollout.Unit{unit("a", suspended), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{}},
			want:   " | b WaitingForCanary: waiting for the canaries: Deployment/a"},
		"units that wait for a user do not count": {units: []rollout.Unit{unit("a", suspended), unit("b", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)}, want: "b"},
		"a refused unit takes no place": {units: []rollout.Unit{refused("a", 1), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)},
			want: "b | a WaitingForOthers: waiting: 1 workload is rolling out (maxParallel 1)" +
				" | c WaitingForOthers: waiting: 1 workload is rolling out (maxParallel 1)"},
		"refused units are tried in turns, in the place that others leave": {
			units:  []rollout.Unit{refused("a", 1), refused("b", 2), unit("c", done)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1)},
			want:   "b | a WaitingForOthers: waiting: 1 workload is rolling out (maxParallel 1)"},
		"a refused unit keeps its place in the order": {units: []rollout.Unit{unit("a", pending), refused("b", 1)},
			policy: rolloutv1.Policy{Order: []string{"b"}},
			want:   "b | a WaitingForOrder: waiting for the workloads before it in the order: Deployment/b"},
		"a refused canary remains one": {units: []rollout.Unit{refused("a", 1), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{}},
			want:   "a | b WaitingForCanary: waiting for the canaries: Deployment/a"},
		"a name without a unit": {units: []rollout.Unit{unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"gone", "StatefulSet/a"}}, want: "a"},
		"a name with its kind": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"StatefulSet/a"}},
			want:   "a | a WaitingForOrder: waiting for the workloads before it in the order: StatefulSet/a"},
		"kind and name before name": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"a",
				"StatefulSet/a"}}, want: "a | a WaitingForOrder: waiting for the workloads before it in the order: Deployment/a"},
		"one name, two kinds": {units: []rollout.Unit{{Kind: "StatefulSet", Name: "a"}, unit("a", pending)},
			policy: rolloutv1.Policy{Order: []string{"a"}}, want: "a a"},
		"waiting for many": {units: []rollout.Unit{unit("a", going), unit("b", going), unit("c", going), unit("d", going),
			unit("e", going), unit("f", pending)}, policy: rolloutv1.Policy{Order: []string{"e", "d", "c", "b",
			"a"}}, want: " | f WaitingForOrder: waiting for the workloads before it in the order: Deployment/e, Deployment/d, Deployment/c and 2 more"},
		"a unit failed": {units: []rollout.Unit{unit("a", pending), unit("b", failed)},
			policy: rolloutv1.Policy{Window: night}, want: " | a RolloutFailed: the rollout has failed: Deployment/b"},
		"the window is closed": {units: []rollout.Unit{unit("a", pending)}, policy: rolloutv1.Policy{Window: night},
			want: " | a OutsideWindow: waiting for the maintenance window, which opens 2026-11-18 22:00 UTC", requeueAfter: 10 * time.Hour},
		"the window is closed, none is pending": {units: []rollout.Unit{unit("a", going)}, policy: rolloutv1.Policy{Window: night}, want: ""},
		"the window is open": {units: []rollout.Unit{unit("a", pending)},
			policy: rolloutv1.Policy{Window: &rolloutv1.Window{Start: "11:00", End: "13:00"}}, want: "a"},
		"a unit is progressing and the window will close": {units: []rollout.Unit{unit("a", going), unit("b", pending)},
			policy: rolloutv1.Policy{MaxParallel: ptr.To[int32](1), Window: &rolloutv1.Window{Start: "11:00",
				End: "13:00"}}, want: " | b WaitingForOthers: waiting: 1 workload is rolling out (maxParallel 1)", requeueAfter: time.Hour},
	})
}

// TestNextOfCanaries: who starts first, and who waits for whom.
func TestNextOfCanaries(t *testing.T) {
	const pending, going, done = rollout.Pending, rollout.Progressing, rollout.Done
	checkNext(t, map[string]nextTest{
		"the canary first": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{}},
			want:   "a | b WaitingForCanary: waiting for the canaries: Deployment/a"},
		"two canaries": {units: []rollout.Unit{unit("a", done), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 2}},
			want:   "b | c WaitingForCanary: waiting for the canaries: Deployment/b"},
		"more canaries than units": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 5}}, want: "a b"},
		"33 percent of three": {units: []rollout.Unit{unit("a", pending), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](33)}},
			want:   "a | b WaitingForCanary: waiting for the canaries: Deployment/a | c WaitingForCanary: waiting for the canaries: Deployment/a"},
		"34 percent of three, rounded up": {units: []rollout.Unit{unit("a", pending), unit("b", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](34)}},
			want:   "a b | c WaitingForCanary: waiting for the canaries: Deployment/a, Deployment/b"},
		"100 percent": {units: []rollout.Unit{unit("a", pending), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](100)}}, want: "a b"},
		"percent of no unit": {policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](50)}}},
		"the canary is done": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1}}, want: "b"},
		"a new unit is no canary": {units: []rollout.Unit{exempt("a"), unit("b", done), unit("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Hour)}},
			want:   " | c WaitingForCanary: waiting for the canaries to soak for 1h0m0s", requeueAfter: 59 * time.Minute},
		"nor is it counted": {units: []rollout.Unit{exempt("a"), exempt("b"), unit("c", pending), unit("d", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](50)}},
			want:   "c | d WaitingForCanary: waiting for the canaries: Deployment/c"},
		"a new unit takes the place in the order": {units: []rollout.Unit{exempt("b"), unit("a", pending), unit("c", pending)},
			policy: rolloutv1.Policy{Order: []string{"b"}, Canary: &rolloutv1.Canary{Count: 1}},
			want:   "a | c WaitingForCanary: waiting for the canaries: Deployment/a"},
		"the canary is first in the order": {units: []rollout.Unit{unit("a", pending), unit("b", done)},
			policy: rolloutv1.Policy{Order: []string{"b"},
				Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Hour)}},
			want: " | a WaitingForCanary: waiting for the canaries to soak for 1h0m0s", requeueAfter: 59 * time.Minute},
		"the caller has chosen another canary": {units: []rollout.Unit{unit("a", pending), chosen("b", going)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1}},
			want:   " | a WaitingForCanary: waiting for the canaries: Deployment/b"},
		"more are chosen than the count": {units: []rollout.Unit{unit("a", pending), chosen("b", done), chosen("c", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1}},
			want:   "c | a WaitingForCanary: waiting for the canaries: Deployment/c"},
		"the chosen canary soaks": {units: []rollout.Unit{unit("a", done), unit("c", pending), chosen("b", done)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Hour)}},
			want:   " | c WaitingForCanary: waiting for the canaries to soak for 1h0m0s", requeueAfter: 59 * time.Minute},
		"chosen, and the policy has no canaries": {units: []rollout.Unit{unit("a", pending), chosen("b", going)}, want: "a"},
		"the canary has soaked": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Count: 1, Soak: duration(time.Minute)}}, want: "b"},
		"the window closes before the soak": {units: []rollout.Unit{unit("a", done), unit("b", pending)},
			policy: rolloutv1.Policy{Canary: &rolloutv1.Canary{Soak: duration(2 * time.Hour)},
				Window: &rolloutv1.Window{Start: "11:00",
					End: "13:00"}}, want: " | b WaitingForCanary: waiting for the canaries to soak for 2h0m0s", requeueAfter: time.Hour},
	})
}

// nextTest is what Next answers: see format.
type nextTest struct {
	units        []rollout.Unit
	policy       rolloutv1.Policy
	want         string
	requeueAfter time.Duration
}

func checkNext(t *testing.T, tests map[string]nextTest) {
	t.Helper()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			selection, err := rollout.Next(test.units, test.policy, noon)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, format(test.units, selection)); diff != "" {
				t.Error(diff)
			}
			if selection.RequeueAfter != test.requeueAfter {
				t.Errorf("RequeueAfter is %s, want %s", selection.RequeueAfter, test.requeueAfter)
			}
		})
	}
}

// format returns a selection in one line: the units that start, and the blockers of the others.
func format(units []rollout.Unit, selection rollout.Selection) string {
	var names []string
	for _, index := range selection.Go {
		names = append(names, units[index].Name)
	}
	parts := []string{strings.Join(names, " ")}
	for index := range units {
		if blocker, isBlocked := selection.Blocked[index]; isBlocked {
			parts = append(parts, units[index].Name+" "+string(blocker.Reason)+": "+blocker.Message)
		}
	}
	return strings.Join(parts, " | ")
}

func TestNextOfABadWindow(t *testing.T) {
	_, err := rollout.Next(nil, rolloutv1.Policy{Window: &rolloutv1.Window{Start: "25:00", End: "04:00"}}, noon)
	if err == nil || err.Error() != `reading the window: start: "25:00" must be a time of day from 00:00 to 23:59` {
		t.Errorf("the error is %v", err)
	}
}

func TestTimeout(t *testing.T) {
	if got := rollout.Timeout(rolloutv1.Policy{}); got != 10*time.Minute {
		t.Errorf("the default timeout is %s, want 10m0s", got)
	}
	if got := rollout.Timeout(rolloutv1.Policy{Timeout: duration(time.Second)}); got != time.Second {
		t.Errorf("the timeout is %s, want 1s", got)
	}
}

// TestNextKeepsInvariants rolls out random units under random policies. Never are more than
// maxParallel units progressing. The order and the canaries are respected. The result does not
// depend on the order of the units. When all progressing units become Done, the rollout continues,
// to the end.
func TestNextKeepsInvariants(t *testing.T) {
	for seed := range cases.Seeds(t, 2000, 100_000) {
		random := rand.New(rand.NewPCG(seed, 20)) //nolint:gosec // a test must be repeatable
		units, policy := someUnits(random), somePolicy(random)
		now := noon
		for step := 0; ; step++ {
			if step > 3*len(units)+40 {
				t.Fatalf("no end: %+v under %+v", units, policy)
			}
			selection, err := rollout.Next(units, policy, now)
			if err != nil {
				t.Fatal(err)
			}
			checkSelection(t, units, policy, selection)
			for _, index := range selection.Go {
				units[index].State, units[index].Since = rollout.Progressing, now
			}
			if !advance(random, units, now) {
				if len(selection.Blocked) == 0 {
					break
				}
				if selection.RequeueAfter <= 0 {
					t.Fatalf("stuck: %s of %+v under %+v", format(units, selection), units, policy)
				}
				now = now.Add(selection.RequeueAfter)
			}
		}
	}
}

// advance makes some of the progressing units Done. It reports whether any unit was progressing.
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
				one := rollout.Unit{Kind: kind, Name: name, State: rollout.State(random.IntN(3)), Since: noon}
				if random.IntN(4) == 0 {
					one.RefusedAt = noon.Add(-time.Duration(random.IntN(3)) * time.Minute)
				}
				units = append(units, one)
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

func checkSelection(t *testing.T, units []rollout.Unit, policy rolloutv1.Policy, selection rollout.Selection) {
	t.Helper()
	progressing, pending := 0, 0
	for _, u := range units {
		switch u.State {
		case rollout.Progressing:
			progressing++
		case rollout.Pending:
			pending++
		case rollout.Done, rollout.Failed, rollout.Suspended:
		}
	}
	if len(selection.Go)+len(selection.Blocked) != pending {
		t.Fatalf("%d of %d pending units are selected or blocked", len(selection.Go)+len(selection.Blocked), pending)
	}
	if limit := policy.MaxParallel; limit != nil && len(selection.Go) > 0 && progressing+len(selection.Go) > int(*limit) {
		t.Fatalf("%d units would be progressing, but maxParallel is %d", progressing+len(selection.Go), *limit)
	}
	for _, index := range selection.Go {
		if units[index].State != rollout.Pending {
			t.Fatalf("%s is selected though it is not pending", units[index])
		}
	}
}

// TestNextCost: a pass over all units for each unit would take minutes for 300,000 units, on any
// machine; one pass takes a fraction of a second, on a busy one too.
func TestNextCost(t *testing.T) {
	policy := rolloutv1.Policy{Canary: &rolloutv1.Canary{Percent: ptr.To[int32](10)}, Order: []string{"0", "1", "2"}}
	units := make([]rollout.Unit, 300_000)
	for i := range units {
		units[i] = unit(strconv.Itoa(i), rollout.Pending)
	}
	start := time.Now()
	if _, err := rollout.Next(units, policy, noon); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("300,000 units take %s", took)
	}
}
