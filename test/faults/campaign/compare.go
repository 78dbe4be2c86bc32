package campaign

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Reason is how a run differs from an undisturbed one.
type Reason string

// Reasons.
const (
	// Unsettled means that a step did not complete.
	Unsettled Reason = "unsettled"
	// Unquiet means that the manager did not stop writing.
	Unquiet Reason = "unquiet"
	// EndState means that the objects after a step differ.
	EndState Reason = "end state"
	// Counts means that an object was created or deleted more or less often.
	Counts Reason = "creates and deletes"
	// Rewritten means that a write was repeated without need.
	Rewritten Reason = "rewritten"
	// Claimed means that the owner reported itself ready while its children were not as its spec asks.
	Claimed Reason = "claimed"
	// Unfired means that no request matched the plan, so that the run shows nothing.
	Unfired Reason = "unfired"
)

// Difference is one difference, described in words.
type Difference struct {
	Reason Reason
	Text   string
}

// String returns one or more lines.
func (d Difference) String() string { return string(d.Reason) + ": " + d.Text }

// Compare returns how a disturbed run differs from an undisturbed one.
func Compare(scenario Scenario, undisturbed, disturbed Outcome) []Difference {
	var found []Difference
	differs := func(reason Reason, format string, arguments ...any) {
		found = append(found, Difference{reason, fmt.Sprintf(format, arguments...)})
	}
	if unsettled := disturbed.Unsettled; unsettled != nil {
		reason := Unsettled
		if unsettled.Missing == nil {
			reason = Unquiet
		}
		differs(reason, "%v", unsettled)
	}
	if len(disturbed.Options.Plan.Rules) > 0 && len(disturbed.Fired) == 0 {
		differs(Unfired, "no request matches the plan")
	}
	for i, step := range disturbed.Steps {
		if diff := cmp.Diff(undisturbed.Steps[i].Snapshot, step.Snapshot); diff != "" {
			differs(EndState, "after step %s (-undisturbed +disturbed):\n%s", step.Step, diff)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(union(undisturbed.Counts, disturbed.Counts))) {
		if want, got := undisturbed.Counts[name], disturbed.Counts[name]; want != got {
			differs(Counts, "%s was created %d times and deleted %d times; undisturbed %d and %d", name, got.Created, got.Deleted, want.Created,
				want.Deleted)
		}
	}
	for _, claim := range disturbed.Claims {
		if diff := cmp.Diff(after(undisturbed, claim.Step).without(scenario.Owner.Kind+" "),
			claim.Snapshot.without(scenario.Owner.Kind+" ")); diff != "" {
			differs(Claimed, "in step %s, when its manager was killed, the %s said it was ready (-undisturbed +disturbed):\n%s", claim.Step,
				scenario.Owner.Kind, diff)
		}
	}
	return append(found, rewritten(scenario, undisturbed, disturbed)...)
}

func after(undisturbed Outcome, step string) Snapshot {
	for _, observed := range undisturbed.Steps {
		if observed.Step == step {
			return observed.Snapshot
		}
	}
	return nil
}

func union(a, b map[string]Count) map[string]Count {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// moreStatus is how many more status writes one fault may cause: one that reports the failure, and
// one that reports the success.
const moreStatus = 2

// rewritten returns the writes that the API server carried out more often than in the undisturbed
// run. If several writes of one object belong together and one fails, all may be repeated. Every
// other write must be preceded by a read.
func rewritten(scenario Scenario, undisturbed, disturbed Outcome) []Difference {
	want, got := carriedOut(undisturbed), carriedOut(disturbed)
	var found []Difference
	for _, key := range slices.Sorted(maps.Keys(got)) {
		most := want[key].times
		if got[key].Subresource == "status" {
			most += moreStatus*len(disturbed.Fired) + scenario.MoreStatuses
		}
		for _, asked := range disturbed.Requests {
			if asked.Fault != "" && got[key].Subresource != "status" && isSameObject(asked.Request, got[key].Request) {
				most += max(0, writesIn(undisturbed, asked)-1)
			}
		}
		if got[key].times > most {
			found = append(found, Difference{Rewritten, fmt.Sprintf("%s: %d times, not %d", key, got[key].times, most)})
		}
	}
	return found
}

func isSameObject(a, b proxy.Request) bool {
	return a.Group == b.Group && a.Resource == b.Resource && a.Subresource == b.Subresource && a.Name == b.Name
}

// writesIn returns how often the object of a request is written in the same step.
func writesIn(outcome Outcome, as Asked) int {
	count := 0
	for _, asked := range outcome.Requests {
		if asked.Step == as.Step && asked.IsWrite() && isSameObject(asked.Request, as.Request) {
			count++
		}
	}
	return count
}

type carried struct {
	proxy.Request
	times int
}

// carriedOut counts the writes that the API server accepted.
func carriedOut(outcome Outcome) map[string]carried {
	all := map[string]carried{}
	for _, asked := range outcome.Requests {
		if asked.IsWrite() && asked.Arrived && asked.Code < 300 {
			key := what(asked.Request)
			all[key] = carried{asked.Request, all[key].times + 1}
		}
	}
	return all
}
