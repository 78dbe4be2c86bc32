package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/test/cases"
	"github.com/mainstay-platform/mainstay/test/faults/campaign"
	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// scenarios has at least one scenario of each kind in a namespace. A PlatformPolicy belongs to the
// cluster, where all runs' managers would work on it: TestPolicySurvivesKills of test/integration
// kills its manager.
var scenarios = []campaign.Scenario{webApp(), usedConfig(), configMonitor(), instrumentation(), postgreSQL(), cacheOfTwo(), appStack(),
	platform()}

// longer are further scenarios, for `make faults`.
var longer = []campaign.Scenario{adoptingWebApp(), appConfig(), postgreSQLLife()}

// known caches the undisturbed runs by scenario name. Each value is a function that runs the
// scenario at its first call.
var known sync.Map

// undisturbed returns a run of the scenario without faults.
func undisturbed(t *testing.T, scenario campaign.Scenario) campaign.Outcome {
	t.Helper()
	run, _ := known.LoadOrStore(scenario.Name, sync.OnceValues(func() (campaign.Outcome, error) {
		return cluster.Run(context.Background(), scenario, campaign.Options{})
	}))
	outcome, err := run.(func() (campaign.Outcome, error))()
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Unsettled != nil {
		t.Fatal(outcome.Unsettled)
	}
	return outcome
}

// tally counts points and runs for the summary.
type tally struct {
	start        time.Time
	points, runs atomic.Int64
	// fired means that the summary shows the faults of plans too. A plan chosen by a user need not
	// affect every scenario.
	fired bool
	hits  atomic.Int64
}

// report adds the counts to the output of `make faults` and `make test`.
func (c *tally) report(t *testing.T) {
	t.Helper()
	t.Attr("faults", fmt.Sprintf("%s: %d points, %d runs in %s", t.Name(), c.points.Load(), c.runs.Load(),
		time.Since(c.start).Round(time.Second)))
}

// same runs a scenario with a disturbance, in parallel with others, and expects no difference.
func (c *tally) same(t *testing.T, name string, scenario campaign.Scenario, options campaign.Options) {
	t.Helper()
	base := undisturbed(t, scenario)
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		c.runs.Add(1)
		outcome, err := cluster.Run(t.Context(), scenario, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, firing := range outcome.Fired {
			if c.fired {
				t.Attr("faults", firing.String())
			}
		}
		c.hits.Add(int64(len(outcome.Fired)))
		mayMiss := c.fired || isOfStatus(options.Plan) && (scenario.HasManyChildren || isOfLater(options.Plan))
		differences := slices.DeleteFunc(campaign.Compare(scenario, base, outcome), func(difference campaign.Difference) bool {
			return difference.Reason == campaign.Unfired && mayMiss
		})
		for _, difference := range differences {
			t.Error(difference)
		}
		if len(differences) > 0 {
			t.Log(history(outcome))
		}
	})
}

// isOfStatus reports whether a plan affects status writes only.
func isOfStatus(plan proxy.Plan) bool {
	return !slices.ContainsFunc(plan.Rules, func(rule proxy.Rule) bool { return rule.Match.Subresource != "status" })
}

// isOfLater reports whether a plan affects a request only when it is made again. How often a status
// is written depends on which events a manager sees together: one run may have a write more.
func isOfLater(plan proxy.Plan) bool {
	return len(plan.Rules) > 0 && !slices.ContainsFunc(plan.Rules, func(rule proxy.Rule) bool { return rule.Nth < 2 })
}

// history returns the details of a run, for finding the cause of a failure.
func history(outcome campaign.Outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "fired: %v\nrequests:\n", outcome.Fired)
	for _, asked := range outcome.Requests {
		fmt.Fprintf(&text, "  client %d, %s: %s %s %d\n", asked.Client, asked.Step, asked.Request, asked.Fault, asked.Code)
	}
	if len(outcome.Options.Plan.Rules) > 0 {
		fmt.Fprintf(&text, "to repeat it: make faults PLAN=FILE, with a file of\n%s", outcome.Options.Plan)
	}
	return text.String()
}

// each runs a test for every scenario in parallel, and reports the numbers of points and runs.
func each(t *testing.T, test func(*testing.T, campaign.Scenario, *tally)) {
	t.Helper()
	eachCounted(t, &tally{start: time.Now()}, test)
}

func eachCounted(t *testing.T, count *tally, test func(*testing.T, campaign.Scenario, *tally)) {
	t.Helper()
	all := scenarios
	if *whole {
		all = slices.Concat(scenarios, longer)
	}
	t.Cleanup(func() { count.report(t) }) // when the runs have ended
	for _, scenario := range all {
		t.Run(scenario.Name, func(t *testing.T) {
			t.Parallel()
			test(t, scenario, count)
		})
	}
}

// TestUndisturbed checks that two undisturbed runs do not differ. Without that, the comparison of
// disturbed runs would mean nothing.
func TestUndisturbed(t *testing.T) {
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		count.same(t, "again", scenario, campaign.Options{})
	})
}

// TestPoints makes each request of an undisturbed run fail in each way that makes sense.
func TestPoints(t *testing.T) {
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		points := campaign.Points(undisturbed(t, scenario))
		for _, point := range points {
			faults := chosenFaults(scenario, point)
			if len(faults) == 0 {
				continue
			}
			count.points.Add(1)
			for _, fault := range faults {
				count.same(t, fmt.Sprintf("%s: %s", point, fault), scenario, campaign.Options{Plan: point.Plan(fault)})
			}
		}
	})
}

// chosenFaults returns all faults of a point. Without -whole, it returns only the kills around each
// write of the first step. With many children it returns fewer: before a write there is the state
// that the one before has left, and of the same reads each is as good as the first. Of a scenario
// that tries some requests only, it returns a kill after each such write but those of a status, in
// each step.
func chosenFaults(scenario campaign.Scenario, point campaign.Point) []proxy.Fault {
	isFirst := point.Step == scenario.Steps[0].Name
	switch {
	case scenario.SkipsCreation && isFirst, scenario.Tries != nil && !scenario.Tries(point.Request):
		return nil
	case scenario.Tries != nil && !*whole:
		if point.IsWrite() && point.Subresource == "" {
			return []proxy.Fault{proxy.KillAfter}
		}
		return nil
	case !scenario.HasManyChildren && *whole:
		return point.Faults()
	case !scenario.HasManyChildren && point.IsWrite() && isFirst:
		return []proxy.Fault{proxy.KillBefore, proxy.KillAfter}
	case !scenario.HasManyChildren:
		return nil
	case !*whole && point.IsWrite() && isFirst, *whole && point.Subresource == "status":
		return []proxy.Fault{proxy.KillAfter}
	case *whole && point.IsWrite():
		return []proxy.Fault{proxy.KillAfter, proxy.LoseAnswer, proxy.Conflict}
	case *whole && point.Nth == 1:
		return []proxy.Fault{proxy.InternalError}
	}
	return nil
}

// TestAway stops the manager while a user acts, in each step.
func TestAway(t *testing.T) {
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		for _, step := range scenario.Steps {
			if step.IsOfOthers && !*whole {
				continue
			}
			count.points.Add(1)
			count.same(t, step.Name, scenario, campaign.Options{AwayIn: step.Name})
		}
	})
}

// TestADeletionThatIsSeenLate deletes the owner while the manager receives no event of it. Children
// that the garbage collector deletes must not be created again.
func TestADeletionThatIsSeenLate(t *testing.T) {
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		if scenario.Finalizes {
			t.Skip("the garbage collector deletes nothing before the manager has seen the deletion")
		}
		last := scenario.Steps[len(scenario.Steps)-1].Name
		count.same(t, last, scenario, campaign.Options{SilentIn: last})
	})
}

// TestWatches makes each watch end, stall for a while, or expire when its next event is due.
func TestWatches(t *testing.T) {
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		for name, plan := range campaign.WatchPlans(undisturbed(t, scenario)) {
			watched := plan.Rules[0].Match
			isOfOthers := scenario.Tries != nil && !scenario.Tries(proxy.Request{Group: watched.Group, Resource: watched.Resource})
			if scenario.SkipsCreation || isOfOthers || !*whole && !slices.Contains([]string{"deployments", "statefulsets"}, watched.Resource) {
				continue
			}
			count.points.Add(1)
			count.same(t, name, scenario, campaign.Options{Plan: plan})
		}
	})
}

// TestStorm makes a share of all writes fail.
func TestStorm(t *testing.T) {
	first, number := cases.First(t, 1), 1
	if *whole {
		number = cases.Number(t, 10, 10)
	}
	each(t, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		for seed := first; seed < first+uint64(number); seed++ { //nolint:gosec // a small number
			count.same(t, fmt.Sprintf("seed %d", seed), scenario, campaign.Options{Plan: campaign.Storm(seed)})
		}
	})
}

// TestPlan runs the plan that MAINSTAY_FAULT_PLAN names, or the example of docs/faults.md. It must
// hit a request in at least one scenario.
func TestPlan(t *testing.T) {
	name := os.Getenv("MAINSTAY_FAULT_PLAN")
	if name == "" {
		name = filepath.Join("testdata", "example.yaml")
	}
	plan, err := proxy.ReadPlan(name)
	if err != nil {
		t.Fatal(err)
	}
	count := &tally{start: time.Now(), fired: true}
	t.Cleanup(func() {
		if count.hits.Load() == 0 && count.runs.Load() >= int64(len(scenarios)) { // not if -run selects some
			t.Error("no request of any scenario matches the plan")
		}
	})
	eachCounted(t, count, func(t *testing.T, scenario campaign.Scenario, count *tally) {
		count.same(t, "plan", scenario, campaign.Options{Plan: plan})
	})
}
