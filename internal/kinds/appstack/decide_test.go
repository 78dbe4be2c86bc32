package appstack

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestDecide: the table of Decide.
func TestDecide(t *testing.T) {
	db, back, front := web("db"), web("back", "db"), web("front", "back")
	for name, test := range map[string]struct {
		spec []platformv1.Component
		// existing maps components to the reason why they are not ready.
		existing map[string]string
		change   func(*platformv1.AppStack, plan.Children)
		want     string
	}{
		"only what depends on nothing is created": {
			spec: []platformv1.Component{front, back, db}, want: "db Apply, back Wait[db], front Wait[back]"},
		"what depends on what is ready is created": {
			spec: []platformv1.Component{front, back, db}, existing: map[string]string{"db": ""},
			want: "db Apply, back Apply, front Wait[back]"},
		"ready for a former generation is not ready": {
			spec: []platformv1.Component{db, back}, existing: map[string]string{"db": ""},
			change: func(_ *platformv1.AppStack, found plan.Children) { find(found, "shop-db").SetGeneration(2) },
			want:   "db Apply, back Wait[db]"},
		"what is being deleted is not ready": {
			spec: []platformv1.Component{db, back}, existing: map[string]string{"db": ""},
			change: func(_ *platformv1.AppStack, found plan.Children) { deleteNow(find(found, "shop-db")) },
			want:   "db Apply, back Wait[db]"},
		"what runs is changed although a dependency fails": {
			spec: []platformv1.Component{db, back, front}, existing: map[string]string{"db": "Broken", "back": ""},
			want: "db Apply, back Apply, front Apply"},
		"ordered, it waits": {
			spec: []platformv1.Component{db, back}, existing: map[string]string{"db": "Broken", "back": ""},
			change: func(stack *platformv1.AppStack, _ plan.Children) { stack.Spec.Updates = platformv1.UpdatesOrdered },
			want:   "db Apply, back Wait[db]"},
		"ordered, it waits also for a change that waits": {
			spec:     []platformv1.Component{db, one("back", "webApp", `{"image":"r.io/web:2"}`, "db"), front},
			existing: map[string]string{"db": "Broken", "back": "", "front": ""},
			change:   func(stack *platformv1.AppStack, _ plan.Children) { stack.Spec.Updates = platformv1.UpdatesOrdered },
			want:     "db Apply, back Wait[db], front Wait[back]"},
		"ordered, it does not wait for what is as it should be": {
			spec: []platformv1.Component{db, back, front}, existing: map[string]string{"db": "Broken", "back": "", "front": ""},
			change: func(stack *platformv1.AppStack, _ plan.Children) { stack.Spec.Updates = platformv1.UpdatesOrdered },
			want:   "db Apply, back Wait[db], front Apply"},
		"what left the spec is deleted": {
			spec: []platformv1.Component{db}, existing: map[string]string{"db": "", "front": ""},
			want: "db Apply, front Delete"},
		"a component of the spec that was made with it keeps it": {
			spec: []platformv1.Component{web("back")}, existing: map[string]string{"db": "", "back": ""},
			want: "back Apply, db Wait[back]"},
		"what left the spec goes in reverse order": {
			spec: []platformv1.Component{web("x")}, existing: map[string]string{"db": "", "back": "", "front": ""},
			want: "x Apply, back Wait[front], db Wait[back], front Delete"},
		"a deleted stack goes in reverse order": {
			spec: []platformv1.Component{db, back, front}, existing: map[string]string{"db": "", "back": "", "front": ""},
			change: func(stack *platformv1.AppStack, _ plan.Children) { deleteNow(stack) },
			want:   "back Wait[front], db Wait[back], front Delete"},
		"the next one waits until the object is gone": {
			spec: []platformv1.Component{db, back}, existing: map[string]string{"db": "", "back": ""},
			change: func(stack *platformv1.AppStack, found plan.Children) {
				deleteNow(stack)
				deleteNow(find(found, "shop-back"))
			},
			want: "back Leave, db Wait[back]"},
		"an orphaning stack deletes nothing": {
			spec: []platformv1.Component{db}, existing: map[string]string{"db": ""},
			change: func(stack *platformv1.AppStack, _ plan.Children) {
				deleteNow(stack)
				stack.Finalizers = []string{metav1.FinalizerOrphanDependents, Finalizer}
			},
			want: "db Leave"},
		"a paused stack that is deleted goes": {
			spec: []platformv1.Component{db}, existing: map[string]string{"db": ""},
			change: func(stack *platformv1.AppStack, _ plan.Children) {
				stack.Spec.Paused = true
				deleteNow(stack)
			},
			want: "db Delete"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(test.spec...), plan.Children{}}
			for _, c := range []platformv1.Component{db, back, front} {
				if reason, exists := test.existing[c.Name]; exists {
					w.make(t, c, reason)
				}
			}
			if test.change != nil {
				test.change(w.stack, w.found)
			}
			if got := summaryOf(Decide(w.stack, w.observed())); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestDecideCircle: objects that former specs made depend on each other go nevertheless.
func TestDecideCircle(t *testing.T) {
	w := world{newStack(web("x")), plan.Children{}}
	w.make(t, web("a", "b"), "")
	w.make(t, web("b", "a"), "")
	w.make(t, web("c", "a"), "")
	if got, want := summaryOf(Decide(w.stack, w.observed())), "x Apply, a Wait[b c], b Wait[a], c Delete"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	delete(w.found, kinds[0].Ref("web", "shop-c"))
	if got, want := summaryOf(Decide(w.stack, w.observed())), "x Apply, a Delete, b Wait[a]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestDecideForeign: an object that the stack did not make is no dependency that is ready, and is
// not deleted.
func TestDecideForeign(t *testing.T) {
	w := world{newStack(web("db"), web("back", "db")), plan.Children{}}
	w.make(t, web("db"), "")
	w.make(t, web("other"), "")
	for ref, found := range w.found {
		found.Ownership = plan.Foreign
		w.found[ref] = found
	}
	if got, want := summaryOf(Decide(w.stack, w.observed())), "db Apply, back Wait[db]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestDesired: what waits is kept, what exists already is applied in order, and a paused stack
// changes nothing, unless it is being deleted.
func TestDesired(t *testing.T) {
	w := world{newStack(web("db"), web("back", "db"), web("front", "back")), plan.Children{}}
	w.make(t, web("db"), "")
	w.make(t, web("cache"), "")
	w.make(t, web("user", "cache"), "")
	w.stack.Spec.Paused = true
	wanted := Desired(w.stack, Decide(w.stack, w.observed()))
	if len(wanted.Children) != 2 || wanted.Children[1].Object.GetName() != "shop-back" || len(wanted.Children[1].After) != 1 ||
		wanted.Children[1].After[0].Name != "shop-db" {
		t.Errorf("got %+v", wanted.Children)
	}
	if len(wanted.Keep) != 2 || !wanted.Withhold || !wanted.Independent || !wanted.Foreground {
		t.Errorf("got %+v", wanted)
	}
	deleteNow(w.stack)
	if wanted = Desired(w.stack, Decide(w.stack, w.observed())); wanted.Withhold || len(wanted.Children) > 0 {
		t.Errorf("a paused stack can't be deleted: %+v", wanted)
	}
}

// TestExposure: a WebApp gets its Ingress once it is ready, and keeps it, also if it had it before
// the stack adopts it.
func TestExposure(t *testing.T) {
	exposed := one("web", "webApp", `{"image":"r.io/web:1","ingress":{"host":"a.example.com"}}`)
	w := world{newStack(exposed), plan.Children{}}
	hasIngress := func() bool {
		object := Decide(w.stack, w.observed()).Steps[0].Object
		return SpecOf(object)["ingress"] != nil
	}
	if hasIngress() {
		t.Error("it is exposed before it exists")
	}
	object := w.make(t, exposed, "Starting")
	if hasIngress() {
		t.Error("it is exposed before it is ready")
	}
	setReady(object, "")
	if !hasIngress() {
		t.Error("it is not exposed although it is ready")
	}
	kind := kinds[0]
	whole, err := Object(w.stack, &exposed, kind, Additions{IsExposed: true})
	if err != nil {
		t.Fatal(err)
	}
	setReady(whole, "Broken")
	w.found[kind.Ref("web", "shop-web")] = plan.Found{Object: whole, Ownership: plan.Ours}
	if !hasIngress() {
		t.Error("it lost its Ingress because it is no longer ready")
	}
	for _, ownership := range []plan.Ownership{plan.Consenting, plan.Foreign} {
		w.found[kind.Ref("web", "shop-web")] = plan.Found{Object: whole, Ownership: ownership}
		if got, want := hasIngress(), ownership == plan.Consenting; got != want {
			t.Errorf("ownership %d: it has an Ingress: %t", ownership, got)
		}
	}
}

func find(found plan.Children, name string) plan.Object {
	for ref, one := range found {
		if ref.Name == name {
			return one.Object
		}
	}
	return nil
}

func deleteNow(object plan.Object) {
	now := metav1.Now()
	object.SetDeletionTimestamp(&now)
}
