package campaign

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Point is a request of an undisturbed run at which something can fail.
type Point struct {
	// Step is the step in which the request was made.
	Step string
	proxy.Request
	// Nth is its number among the same requests, from 1.
	Nth int
}

// String returns a name for logs and subtests.
func (p Point) String() string {
	return fmt.Sprintf("%s: %s %d", p.Step, what(p.Request), p.Nth)
}

// what returns the subject of a request, without the namespace, which differs in each run.
func what(request proxy.Request) string {
	request.Namespace = ""
	return request.String()
}

// Points returns the requests of an undisturbed run, but not what was no longer found in its last
// step, the deletion: whether the manager looks once more before it sees that is chance.
func Points(undisturbed Outcome) []Point {
	seen := map[string]int{}
	var points []Point
	for _, asked := range undisturbed.Requests {
		key := what(asked.Request)
		seen[key]++
		if asked.Verb == "get" && asked.Code == http.StatusNotFound && asked.Step == undisturbed.Steps[len(undisturbed.Steps)-1].Step {
			continue
		}
		points = append(points, Point{asked.Step, asked.Request, seen[key]})
	}
	return points
}

// delay is how long a delayed request waits: longer than the manager's other work, and shorter than
// its timeouts.
const delay = 400 * time.Millisecond

// OfWrites are the faults that make sense for a write, OfReads those for a read or a dry run.
var (
	OfWrites = []proxy.Fault{
		proxy.KillBefore, proxy.KillAfter, proxy.LoseAnswer, proxy.Drop,
		proxy.Conflict, proxy.InternalError, proxy.TooManyRequests, proxy.Delay,
	}
	OfReads = []proxy.Fault{proxy.Drop, proxy.InternalError}
	// OfWatches are the faults of a watch at its first event.
	OfWatches = []proxy.Fault{proxy.Cut, proxy.Stall, proxy.Expire}
)

// Faults returns the faults that make sense at the point.
func (p Point) Faults() []proxy.Fault {
	if p.IsWrite() {
		return OfWrites
	}
	return OfReads
}

// Plan returns a plan with one fault at the point.
func (p Point) Plan(fault proxy.Fault) proxy.Plan {
	subresource := p.Subresource
	if subresource == "" {
		subresource = "-"
	}
	group := p.Group
	if group == "" {
		group = "core"
	}
	rule := proxy.Rule{
		Name: p.String(),
		Match: proxy.Match{
			Verb: p.Verb, Group: group, Resource: p.Resource, Subresource: subresource, Name: p.Name, DryRun: new(p.DryRun),
		},
		Nth:   p.Nth,
		Fault: fault,
	}
	if fault == proxy.Delay {
		rule.For = metav1.Duration{Duration: delay}
	}
	return proxy.Plan{Rules: []proxy.Rule{rule}}
}

// stall is how long a stalled watch is silent before its connection ends. Only a client with its
// own timeouts would notice an endless stall.
const stall = 700 * time.Millisecond

// WatchPlans returns plans that make each kind of a scenario's watches fail in each way at the
// first event.
func WatchPlans(undisturbed Outcome) map[string]proxy.Plan {
	plans := map[string]proxy.Plan{}
	for _, watched := range undisturbed.Watched {
		for _, fault := range OfWatches {
			rule := proxy.Rule{Name: watched.Resource, Match: proxy.Match{Verb: "watch", Group: watched.Group, Resource: watched.Resource},
				Fault: fault}
			if rule.Match.Group == "" {
				rule.Match.Group = "core"
			}
			if fault == proxy.Stall {
				rule.For = metav1.Duration{Duration: stall}
			}
			plans[fmt.Sprintf("watch %s: %s", watched.Resource, fault)] = proxy.Plan{Rules: []proxy.Rule{rule}}
		}
	}
	return plans
}

// Storm returns a plan that makes a share of a scenario's requests fail in all ways except kills.
func Storm(seed uint64) proxy.Plan {
	plan := proxy.Plan{Seed: seed}
	for _, fault := range []proxy.Fault{proxy.LoseAnswer, proxy.Drop, proxy.Conflict, proxy.InternalError} {
		plan.Rules = append(plan.Rules, proxy.Rule{
			Name: "storm", Match: proxy.Match{Verb: "write"}, Times: stormLength, Chance: stormChance, Fault: fault,
		})
	}
	return plan
}

// A storm hits about a third of the first requests and then ends: the intervals between retries
// grow, and tests should not.
const (
	stormLength = 15
	stormChance = 0.1
)

// Writes returns the points that are writes.
func Writes(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(point Point) bool { return !point.IsWrite() })
}
