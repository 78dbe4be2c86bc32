package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestSlowedFailure: a child that has to wait until it may be put back is a failure: the object is
// not as its spec says.
func TestSlowedFailure(t *testing.T) {
	waiting := plan.Result{SlowedChildren: []plan.Contest{{Ref: plan.Ref{Kind: "Service", Namespace: "web", Name: "shop"}, By: "x"}}}
	failure := slowedFailure(waiting)
	if failure == nil || failure.Reason != "Contested" || failure.Transient || failure.Stalled || failure.Retry ||
		!strings.HasPrefix(failure.Message, "Service web/shop is changed again and again by x: ") {
		t.Errorf("got %+v", failure)
	}
	if failure := slowedFailure(plan.Result{Contested: []plan.Contest{{}}}); failure != nil {
		t.Errorf("of an object of another owner: %+v", failure)
	}
}

// TestNext: without an event an object is requeued only if something that we do not watch blocks
// it, or if the kind asks for it. The shortest time counts.
func TestNext(t *testing.T) {
	someone := []plan.Ref{{Kind: "Service", Namespace: "web", Name: "shop"}}
	for name, c := range map[string]struct {
		result          plan.Result
		asked, since    time.Duration
		atLeast, atMost time.Duration
	}{
		"at rest: never":        {},
		"a stalled spec: never": {result: plan.Result{Failure: &plan.Failure{Stalled: true}}},
		"a refusal just now: two seconds": {result: plan.Result{Failure: &plan.Failure{Retry: true}}, atLeast: 2 * time.Second,
			atMost: 2 * time.Second},
		"a refusal for a while: as long again": {result: plan.Result{Failure: &plan.Failure{Retry: true}}, since: 20 * time.Second,
			atLeast: 20 * time.Second, atMost: 20 * time.Second},
		"a refusal for long: about a minute": {result: plan.Result{Failure: &plan.Failure{Retry: true}}, since: time.Hour,
			atLeast: time.Minute, atMost: 72 * time.Second},
		"a patch is refused: two seconds": {result: plan.Result{Refused: map[plan.Ref]string{someone[0]: "no"}}, atLeast: 2 * time.Second,
			atMost: 2 * time.Second},
		"a patch is not made: two seconds": {result: plan.Result{Unwritten: map[plan.Ref]string{someone[0]: "no route"}},
			atLeast: 2 * time.Second, atMost: 2 * time.Second},
		"a conflict: ten seconds":       {result: plan.Result{Conflicts: someone}, atLeast: 10 * time.Second, atMost: 10 * time.Second},
		"a child that is deleted: five": {result: plan.Result{Terminating: someone}, atLeast: 5 * time.Second, atMost: 5 * time.Second},
		"what the kind asks":            {asked: 7 * time.Second, atLeast: 7 * time.Second, atMost: 7 * time.Second},
		"a conflict is sooner than what it asks": {result: plan.Result{Conflicts: someone}, asked: time.Hour, atLeast: 10 * time.Second,
			atMost: 10 * time.Second},
		"all at once: the soonest": {
			result:  plan.Result{Conflicts: someone, Terminating: someone, Failure: &plan.Failure{Retry: true}},
			asked:   time.Second,
			atLeast: time.Second, atMost: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := requeueAfter(c.result, c.asked, c.since); got < c.atLeast || got > c.atMost {
				t.Errorf("%s, want %s to %s", got, c.atLeast, c.atMost)
			}
		})
	}
}
