package appstack

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestPaused: while a stack is paused, each component that would be written or deleted says what
// would be done, also if that waits for others; one that is as it should be says nothing.
func TestPaused(t *testing.T) {
	next := one("api", "webApp", `{"image":"r.io/web:2"}`, "db")
	w := world{newStack(web("db"), next, web("front", "api"), web("new"), web("taken"), web("mine")), plan.Children{}}
	w.stack.Spec.Paused, w.stack.Spec.Updates = true, platformv1.UpdatesOrdered
	w.make(t, web("db"), "Broken")
	w.make(t, web("api", "db"), "Starting")
	w.make(t, web("old"), "")
	w.make(t, web("user", "old"), "")
	w.make(t, web("taken"), "")
	ref := kinds[0].Ref("web", "shop-taken")
	w.found[ref] = plan.Found{Object: w.found[ref].Object, Ownership: plan.Foreign}
	w.make(t, web("mine"), "")
	ref = kinds[0].Ref("web", "shop-mine")
	w.found[ref] = plan.Found{Object: w.found[ref].Object, Ownership: plan.Consenting}
	withheld := plan.Result{}
	for _, name := range []string{"new", "taken", "mine", "user"} { // those that the applier would write or delete now
		withheld.Withheld = append(withheld.Withheld, kinds[0].Ref("web", "shop-"+name))
	}
	status := Status(w.stack, w.observed(), Decide(w.stack, w.observed()), withheld)
	got := map[string]string{}
	for _, c := range status.Components {
		got[c.Name] = fmt.Sprintf("%s %v: %s", c.Phase, c.WaitsFor, c.Plan)
	}
	want := map[string]string{
		"old":   "Paused [user]: delete, after user",
		"user":  "Paused []: delete",
		"db":    "Failed []: ",
		"api":   "Paused [db]: change: spec.image, once these are ready: db",
		"front": "Paused [api]: create, once these are ready: api",
		"new":   "Paused []: create",
		"taken": "Paused []: leave alone: WebApp web/shop-taken exists and was not created by this AppStack",
		"mine":  "Paused []: adopt",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	w = world{newStack(web("db", "x"), web("x", "y"), web("y")), plan.Children{}}
	w.stack.Spec.Paused = true
	w.make(t, web("y"), "Starting")
	if status = Status(w.stack, w.observed(), Decide(w.stack, w.observed()), plan.Result{}); status.Phase != platformv1.PhasePaused ||
		!meta.IsStatusConditionTrue(status.Conditions, "Paused") {
		t.Errorf("only what waits is withheld: got phase %s", status.Phase)
	}
}

// TestStatusOfACircle: a stored spec whose components depend on each other in a circle is refused,
// and its components are as they were: none of them is being deleted.
func TestStatusOfACircle(t *testing.T) {
	w := world{newStack(web("a", "b"), web("b", "a"), web("c")), plan.Children{}}
	w.make(t, web("a"), "")
	w.make(t, web("b", "a"), "")
	w.make(t, web("c"), "Broken")
	refused := plan.Result{Failure: &plan.Failure{Reason: "InvalidSpec", Stalled: true}}
	status := Status(w.stack, w.observed(), Decide(w.stack, w.observed()), refused)
	var got []string
	for _, c := range status.Components {
		got = append(got, fmt.Sprintf("%s %s", c.Name, c.Phase))
	}
	if text := strings.Join(got, ", "); text != "a Ready, b Ready, c Failed" || status.ComponentSummary != "2/3" {
		t.Errorf("got %s; %s are ready", text, status.ComponentSummary)
	}
}

// TestEarlierObject: a component whose name an earlier object has, which is being deleted, waits
// for that and for no component; its status names what keeps the object.
func TestEarlierObject(t *testing.T) {
	const created = ": the component is created once that is gone"
	for name, test := range map[string]struct {
		change            func(w world, earlier plan.Object)
		message, waits    string
		isWaitingReported metav1.ConditionStatus
	}{
		"it is kept by a finalizer": {func(_ world, earlier plan.Object) {
			deleteNow(earlier)
			earlier.SetFinalizers([]string{"example.com/hold"})
		}, "an earlier object of this name is being deleted, and kept by its finalizers example.com/hold" + created,
			"WebApp shop-back is kept by example.com/hold", metav1.ConditionTrue},
		"it is about to be deleted": {func(_ world, earlier plan.Object) { earlier.SetFinalizers([]string{"example.com/hold"}) },
			"an earlier object of this name is being deleted" + created, "no component waits for another", metav1.ConditionFalse},
		"only the applier has seen it": {func(w world, _ plan.Object) { delete(w.found, kinds[0].Ref("web", "shop-back")) },
			"an earlier object of this name is being deleted" + created, "no component waits for another", metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(web("db"), web("back", "db")), plan.Children{}}
			w.make(t, web("db"), "")
			earlier, ref := w.make(t, web("back", "db"), ""), kinds[0].Ref("web", "shop-back")
			w.found[ref] = plan.Found{Object: earlier, Ownership: plan.Former}
			test.change(w, earlier)
			status := Status(w.stack, w.observed(), Decide(w.stack, w.observed()), plan.Result{Terminating: []plan.Ref{ref}})
			back := status.Components[1]
			if back.Phase != platformv1.ComponentDeleting || back.Reason != "Terminating" || len(back.WaitsFor) > 0 || status.Waiting != "" {
				t.Errorf("got %+v; the stack waits for %q", back, status.Waiting)
			}
			if back.Message != test.message {
				t.Errorf("got  %s\nwant %s", back.Message, test.message)
			}
			waiting := meta.FindStatusCondition(status.Conditions, "Waiting")
			if waiting.Status != test.isWaitingReported || waiting.Message != test.waits {
				t.Errorf("the condition Waiting is %s: %s", waiting.Status, waiting.Message)
			}
		})
	}
}

// TestFirstFailed: the stack names the failed component on which the other failed ones depend, even
// if it is not the first of the spec.
func TestFirstFailed(t *testing.T) {
	for name, test := range map[string]struct {
		components []platformv1.Component
		broken     []string
		want       string
	}{
		"one":               {[]platformv1.Component{web("a"), web("b", "a")}, []string{"b"}, "b"},
		"both are roots":    {[]platformv1.Component{web("a"), web("b")}, []string{"a", "b"}, "a"},
		"the second":        {[]platformv1.Component{web("a", "b"), web("b")}, []string{"a", "b"}, "b"},
		"through a third":   {[]platformv1.Component{web("a", "b"), web("b", "c"), web("c")}, []string{"a", "c"}, "c"},
		"in a stored cycle": {[]platformv1.Component{web("a", "b"), web("b", "a")}, []string{"a", "b"}, "a"},
	} {
		w := world{newStack(test.components...), plan.Children{}}
		for _, c := range test.components {
			reason := ""
			if slices.Contains(test.broken, c.Name) {
				reason = "Broken"
			}
			w.make(t, c, reason)
		}
		status := Status(w.stack, w.observed(), Decide(w.stack, w.observed()), plan.Result{})
		ready := meta.FindStatusCondition(status.Conditions, "Ready")
		if !strings.HasPrefix(ready.Message, "component "+test.want+" (") {
			t.Errorf("%s: %s", name, ready.Message)
		}
	}
}

// TestHeld: a component whose change comes after that of another waits for it, and one whose change
// was not written because of an error is not ready for its spec. One that needs no change is what
// its object says.
func TestHeld(t *testing.T) {
	next := one("api", "webApp", `{"image":"r.io/web:2"}`, "db")
	w := world{newStack(web("db"), next, web("front", "api")), plan.Children{}}
	w.stack.Spec.Updates = platformv1.UpdatesOrdered
	w.make(t, web("db"), "")
	w.make(t, web("api", "db"), "")
	w.make(t, web("front", "api"), "")
	held := plan.Result{Held: []plan.Ref{kinds[0].Ref("web", "shop-api"), kinds[0].Ref("web", "shop-front")}}
	for want, failure := range map[string]*plan.Failure{
		"db Ready [], api Waiting [db], front Ready []":   nil,
		"db Ready [], api Progressing [], front Ready []": {Transient: true},
	} {
		held.Failure = failure
		var got []string
		for _, c := range Status(w.stack, w.observed(), Decide(w.stack, w.observed()), held).Components {
			got = append(got, fmt.Sprintf("%s %s %v", c.Name, c.Phase, c.WaitsFor))
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Error(diff)
		}
	}
}

// TestStatusLimits: neither many objects nor long texts make the status large, and no character is
// cut in two.
func TestStatusLimits(t *testing.T) {
	w := world{newStack(web("a"), web("b")), plan.Children{}}
	for i := range MaxComponents + 20 {
		w.make(t, web(fmt.Sprintf("x%d", i)), "")
	}
	long := strings.Repeat("ö", 2000)
	refused := plan.Result{Refusals: map[plan.Ref]string{kinds[0].Ref("web", "shop-a"): long}, Failure: &plan.Failure{}}
	if got := len(Status(w.stack, w.observed(), Decide(w.stack, w.observed()), refused).Components); got != MaxComponents {
		t.Errorf("%d components are reported, want %d", got, MaxComponents)
	}
	w.found = plan.Children{}
	b := w.make(t, web("b"), "Broken")
	conditions := b.(interface{ GetConditions() []metav1.Condition }).GetConditions()
	conditions[0].Message = "x" + long
	for _, c := range Status(w.stack, w.observed(), Decide(w.stack, w.observed()), refused).Components {
		if len(c.Message) < 997 || len(c.Message) > 1000 || !utf8.ValidString(c.Message) || !strings.HasSuffix(c.Message, "...") {
			t.Errorf("%s: a message of %d bytes: %q", c.Name, len(c.Message), c.Message)
		}
	}
}

// TestWaitingSince: a wait keeps its beginning, whatever it is for, and the next one has its own.
func TestWaitingSince(t *testing.T) {
	now := metav1.NewTime(time.Unix(1000, 0))
	before := metav1.NewTime(time.Unix(500, 0))
	waiting := func(name string, since *metav1.Time, on ...string) platformv1.ComponentStatus {
		return platformv1.ComponentStatus{Name: name, WaitsFor: on, Since: since}
	}
	former := []platformv1.ComponentStatus{waiting("a", &before, "x"), waiting("b", nil), waiting("c", &before), waiting("d", nil, "x")}
	status := []platformv1.ComponentStatus{
		waiting("a", nil, "y"), waiting("b", nil, "x"), waiting("c", nil, "x"), waiting("d", nil, "x"), waiting("e", nil, "x"),
		waiting("f", &before), waiting("g", nil),
	}
	WaitingSince(status, former, now)
	want := []platformv1.ComponentStatus{
		waiting("a", &before, "y"), waiting("b", &now, "x"), waiting("c", &now, "x"), waiting("d", &now, "x"), waiting("e", &now, "x"),
		waiting("f", &before), waiting("g", nil),
	}
	if diff := cmp.Diff(want, status); diff != "" {
		t.Error(diff)
	}
}
