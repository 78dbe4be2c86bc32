package campaign

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/test/faults/proxy"
)

// Point is a request of an undisturbed run at which something can fail.
type Point struct {
	// Step is the one in which the request was made.
	Step string
	proxy.Request
	// Nth is its number among the requests that ask the same, from 1.
	Nth int
}

// String is a name for people and tests.
func (p Point) String() string {
	return fmt.Sprintf("%s: %s %d", p.Step, what(p.Request), p.Nth)
}

// what a request asks for, without the namespace, which is another in each run.
func what(request proxy.Request) string {
	request.Namespace = ""
	return request.String()
}

// Points are the requests of an undisturbed run.
func Points(undisturbed Outcome) []Point {
	seen := map[string]int{}
	var points []Point
	for _, asked := range undisturbed.Requests {
		key := what(asked.Request)
		seen[key]++
		points = append(points, Point{asked.Step, asked.Request, seen[key]})
	}
	return points
}

// delay is how long a delayed request is held back: more than the manager's other work takes, and less than its limits.
const delay = 400 * time.Millisecond

// OfWrites are the faults that make sense at a write, and OfReads those at a read or a dry run.
var (
	OfWrites = []proxy.Fault{
		proxy.KillBefore, proxy.KillAfter, proxy.LoseAnswer, proxy.Drop,
		proxy.Conflict, proxy.InternalError, proxy.TooManyRequests, proxy.Delay,
	}
	OfReads = []proxy.Fault{proxy.Drop, proxy.InternalError}
	// OfWatches are those of a watch, when its first event comes.
	OfWatches = []proxy.Fault{proxy.Cut, proxy.Stall, proxy.Expire}
)

// Faults are those that make sense at the point.
func (p Point) Faults() []proxy.Fault {
	if p.IsWrite() {
		return OfWrites
	}
	return OfReads
}

// Plan lets one thing fail at the point.
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

// stall is how long a watch that stalls is silent before its connection ends. A stall without an end is noticed by
// nobody but who has limits for it.
const stall = 700 * time.Millisecond

// WatchPlans let each kind of a scenario's watches fail in each way, when the first event comes.
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

// Storm lets a share of all that a manager asks about something of a scenario fail, in all ways but killing.
func Storm(seed uint64) proxy.Plan {
	plan := proxy.Plan{Seed: seed}
	for _, fault := range []proxy.Fault{proxy.LoseAnswer, proxy.Drop, proxy.Conflict, proxy.InternalError} {
		plan.Rules = append(plan.Rules, proxy.Rule{
			Name: "storm", Match: proxy.Match{Verb: "write"}, Times: stormLength, Chance: stormChance, Fault: fault,
		})
	}
	return plan
}

// A storm hits some third of the first requests, and then ends: retries come ever later, and tests should not.
const (
	stormLength = 15
	stormChance = 0.1
)

// Writes are those of the points that change something.
func Writes(points []Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(point Point) bool { return !point.IsWrite() })
}
