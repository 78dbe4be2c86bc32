package appstack

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// variablesOf returns the environment of the component back in a decision, as text.
func variablesOf(decided Decision) string {
	var all []string
	for _, variable := range listOf(SpecOf(stepOf(decided.Steps, "back").Object)["env"]) {
		text := fmt.Sprint(variable["name"])
		if from, refers := variable["valueFrom"].(map[string]any); refers {
			secret := from["secretKeyRef"].(map[string]any)
			text += fmt.Sprintf("<%s.%s", secret["name"], secret["key"])
		} else {
			text += fmt.Sprintf("=%s", variable["value"])
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

func TestInject(t *testing.T) {
	const host, uri = "DB_HOST<shop-db-app.host", "DB_URI<shop-db-app.uri"
	key := func(name string) platformv1.Output {
		return platformv1.Output{Name: strings.ToUpper(name), SecretKeyRef: &platformv1.OutputSecretKey{Name: "shop-db-app", Key: name}}
	}
	db := queue(key("uri"), key("host"))
	db.Name = "db"
	own := one("back", "webApp", `{"image":"a","env":[{"name":"DB_URI","value":"mine"}]}`, "db")
	without := web("back", "db")
	without.Inject = new(false)
	for name, test := range map[string]struct {
		// has is the component that the existing object was made of; hasNone if there is no object.
		has        func(w world)
		dependency string
		want       string
	}{
		"a new one gets everything":               {nil, "", host + " " + uri},
		"a dependency that is ready is added":     {func(w world) { w.make(t, web("back"), "") }, "", host + " " + uri},
		"one that is not ready is not":            {func(w world) { w.make(t, web("back"), "") }, "Broken", ""},
		"one that fails later takes nothing away": {func(w world) { setVariables(w, t) }, "Broken", host + " " + uri},
		"one that is gone takes nothing away":     {func(w world) { setVariables(w, t) }, "gone", host + " " + uri},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(db, web("back", "db")), plan.Children{}}
			if test.dependency != "gone" {
				w.make(t, db, test.dependency)
			}
			if test.has != nil {
				test.has(w)
			}
			if got := variablesOf(Decide(w.stack, w.observed())); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	w := world{newStack(db, own), plan.Children{}}
	if got, want := variablesOf(Decide(w.stack, w.observed())), host+" DB_URI=mine"; got != want {
		t.Errorf("its own: got %s, want %s", got, want)
	}
	w = world{newStack(db, without), plan.Children{}}
	if got := variablesOf(Decide(w.stack, w.observed())); got != "" {
		t.Errorf("inject is false: got %s", got)
	}
}

// TestInjectedComeFirst: the component's own variables can refer to those that are injected. Where
// it is checked, its own come first, so that a problem has the path that the user has written.
func TestInjectedComeFirst(t *testing.T) {
	offers := queue(platformv1.Output{Name: "HOST", SecretKeyRef: &platformv1.OutputSecretKey{Name: "s", Key: "host"}},
		platformv1.Output{Name: "KEY", SecretKeyRef: &platformv1.OutputSecretKey{Name: "s", Key: "key"}})
	own := one("back", "webApp", `{"image":"a","env":[{"name":"URL","value":"amqp://$(QUEUE_HOST)"},{"name":"A","value":"b"}]}`, "queue")
	stack := newStack(offers, own)
	with := Whole(stack, &stack.Spec.Components[1], withQueues(""))
	for isOwnFirst, want := range map[bool]string{
		false: "QUEUE_HOST QUEUE_KEY URL A",
		true:  "URL A QUEUE_HOST QUEUE_KEY",
	} {
		with.OwnFirst = isOwnFirst
		object, err := Object(stack, &stack.Spec.Components[1], kinds[0], with)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, variable := range object.(*msappsv1.WebApp).Spec.Env {
			names = append(names, variable.Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("own first is %t: got %s, want %s", isOwnFirst, got, want)
		}
	}
	w := world{stack, plan.Children{}}
	w.make(t, offers, "")
	const want = "QUEUE_HOST<s.host QUEUE_KEY<s.key URL=amqp://$(QUEUE_HOST) A=b"
	if got := variablesOf(Decide(w.stack, w.observed())); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestInjectAnotherSource: a variable from a Secret that is to have a value of a status stays as it
// is until that is known.
func TestInjectAnotherSource(t *testing.T) {
	db := queue(platformv1.Output{Name: "HOST", SecretKeyRef: &platformv1.OutputSecretKey{Name: "shop-db-app", Key: "host"}})
	db.Name = "db"
	w := world{newStack(db, web("back", "db")), plan.Children{}}
	live := w.make(t, db, "").(*unstructured.Unstructured)
	setVariables(w, t)
	w.stack.Spec.Components[0].Outputs = []platformv1.Output{{Name: "HOST", Path: "status.host"}}
	if got, want := variablesOf(Decide(w.stack, w.observed())), "DB_HOST<shop-db-app.host"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	live.Object["status"] = map[string]any{"host": "db-1"}
	if got, want := variablesOf(Decide(w.stack, w.observed())), "DB_HOST=db-1"; got != want {
		t.Errorf("once it is known: got %s, want %s", got, want)
	}
}

// setVariables adds the object of back as the stack makes it once the database is ready.
func setVariables(w world, t *testing.T) {
	t.Helper()
	c := &w.stack.Spec.Components[1]
	object, err := Object(w.stack, c, kinds[0], Whole(w.stack, c, withQueues("")))
	if err != nil {
		t.Fatal(err)
	}
	object.SetGeneration(1)
	setReady(object, "")
	w.found[kinds[0].Ref("web", "shop-back")] = plan.Found{Object: object, Ownership: plan.Ours}
}

func TestVariableName(t *testing.T) {
	for component, want := range map[string]string{"db": "DB_URI", "main-db": "MAIN_DB_URI", "2nd": "_2ND_URI"} {
		if got := variableName(component, "URI"); got != want {
			t.Errorf("%s: got %s, want %s", component, got, want)
		}
	}
}

// TestHidden: clients are let in once the component and all that it depends on are ready, and are
// not shut out afterwards.
func TestHidden(t *testing.T) {
	front := one("front", "webApp", `{"image":"a","ingress":{"host":"a.example.com"}}`, "back")
	for name, test := range map[string]struct {
		front, back string
		with        Additions
		isExposed   bool
		hiddenBy    string
	}{
		"ready, as what it depends on":          {"", "", Additions{}, true, "[]"},
		"not ready":                             {"Starting", "", Additions{}, false, "[]"},
		"what it depends on is not":             {"", "Broken", Additions{}, false, "[back]"},
		"exposed already, and nothing is ready": {"Broken", "Broken", Additions{IsExposed: true}, true, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(web("back"), front), plan.Children{}}
			w.make(t, web("back"), test.back)
			object, err := Object(w.stack, &front, kinds[0], test.with)
			if err != nil {
				t.Fatal(err)
			}
			object.SetGeneration(1)
			setReady(object, test.front)
			w.found[kinds[0].Ref("web", "shop-front")] = plan.Found{Object: object, Ownership: plan.Ours}
			decided := Decide(w.stack, w.observed())
			step := stepOf(decided.Steps, "front")
			if got := SpecOf(step.Object)["ingress"] != nil; got != test.isExposed {
				t.Errorf("exposed is %t", got)
			}
			if got := fmt.Sprint(step.HiddenBy); got != test.hiddenBy {
				t.Errorf("hidden by %s", got)
			}
			reported := Status(w.stack, w.observed(), decided, plan.Result{}).Components[1]
			if got := fmt.Sprint(reported.WaitsFor); got != test.hiddenBy {
				t.Errorf("the status says that it waits for %s", got)
			}
		})
	}
}
