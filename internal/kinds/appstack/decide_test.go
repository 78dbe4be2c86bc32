package appstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestFormer: what an object depended on stays until the object is ready without it, also if the
// spec loses it only later. What no longer exists is forgotten, and so is what an object depended
// on that is gone itself.
func TestFormer(t *testing.T) {
	const waits, goes = "db2 Apply, back Apply, db1 Wait[back]", "db2 Apply, back Apply, db1 Delete"
	for name, test := range map[string]struct {
		// spec is that of the first pass; with nil, that of the second one.
		spec []platformv1.Component
		// change is what happens between them, while the pods of back are replaced.
		change      func(w world, back plan.Object)
		first, want string
		// former is what back keeps in the second pass.
		former string
	}{
		"it is not ready yet": {nil, func(world, plan.Object) {}, waits, waits, "db1"},
		"it fails":            {nil, func(_ world, back plan.Object) { setReady(back, "Broken") }, waits, waits, "db1"},
		"it is ready":         {nil, func(_ world, back plan.Object) { setReady(back, "") }, waits, goes, ""},
		"it is being deleted": {nil, func(_ world, back plan.Object) { deleteNow(back) }, waits, waits, "db1"},
		"it is gone": {nil, func(w world, _ plan.Object) { delete(w.found, kinds[0].Ref("web", "shop-back")) },
			waits, "db2 Apply, back Wait[db2], db1 Delete", ""},
		"what it used is gone": {nil, func(w world, _ plan.Object) { delete(w.found, kinds[0].Ref("web", "shop-db1")) },
			waits, "db2 Apply, back Apply", ""},
		"the spec loses it later": {[]platformv1.Component{web("db1"), web("db2"), web("back", "db2")}, func(world, plan.Object) {},
			"db1 Apply, db2 Apply, back Apply", waits, "db1"},
		"the stack is paused": {nil, func(w world, back plan.Object) {
			w.stack.Spec.Paused = true
			setReady(back, "")
		}, waits, goes, "db1"},
		"it depends on it again": {nil, func(w world, _ plan.Object) {
			w.stack.Spec.Components = []platformv1.Component{web("db1"), web("back", "db1")}
		}, waits, "db1 Apply, back Apply", ""},
	} {
		t.Run(name, func(t *testing.T) {
			last := []platformv1.Component{web("db2"), web("back", "db2")}
			w := world{newStack(last...), plan.Children{}}
			if test.spec != nil {
				w.stack = newStack(test.spec...)
			}
			w.make(t, web("db1"), "")
			back := w.make(t, web("back", "db1"), "")
			decided := Decide(w.stack, w.observed())
			if got := summaryOf(decided); got != test.first {
				t.Errorf("first: got  %s\nwant %s", got, test.first)
			}
			back.SetAnnotations(stepOf(decided.Steps, "back").desired().GetAnnotations())
			back.SetGeneration(2)
			w.stack.Spec.Components = last
			test.change(w, back)
			decided = Decide(w.stack, w.observed())
			if got := summaryOf(decided); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := stepOf(decided.Steps, "back").desired().GetAnnotations()["platform.mainstay.dev/depended-on"]; got != test.former {
				t.Errorf("it keeps %q, want %q", got, test.former)
			}
			for _, c := range Status(w.stack, w.observed(), decided, plan.Result{}).Components {
				if c.Name == "db1" && test.want == waits && c.Message != "is deleted once these are ready without it, or gone: back" {
					t.Errorf("its status says %q", c.Message)
				}
			}
		})
	}
}

// TestFormerIsNoChange: what an object may still use is no change of what the spec asks for.
func TestFormerIsNoChange(t *testing.T) {
	w := world{newStack(web("db2"), web("back", "db2")), plan.Children{}}
	w.make(t, web("db2"), "")
	back := w.make(t, web("back", "db2"), "Starting")
	w.make(t, web("db1"), "")
	setAnnotations(back, back.GetAnnotations(), map[string]string{"platform.mainstay.dev/depended-on": "db1"})
	if _, sentences := Preview(w.stack, w.stack, w.observed()); len(sentences) != 1 {
		t.Errorf("want nothing but the deletion of db1: %v", sentences)
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

// TestOthersFieldsOfData: what others have set on an object that has data, or may have some, is
// never removed.
func TestOthersFieldsOfData(t *testing.T) {
	w := world{newStack(one("db", "postgresql", `{}`), web("back"), queue()), plan.Children{}}
	got := map[string]bool{}
	for _, child := range Desired(w.stack, Decide(w.stack, w.observed())).Children {
		got[child.Object.GetName()] = child.KeepOthers
	}
	if diff := cmp.Diff(map[string]bool{"shop-db": true, "shop-back": false, "shop-queue": true}, got); diff != "" {
		t.Error(diff)
	}
}
