package appstack

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// kinds are those of the tests, with the traits that package setup hands in.
var kinds = component.Kinds{
	{
		Traits: component.Traits{Type: "webApp", MaxName: 63, HasMetadata: true, TakesVariables: true,
			Exposes: []string{"ingress", "route"}},
		Kind: msappsv1.GroupVersion.WithKind("WebApp"), New: func() component.Object { return &msappsv1.WebApp{} },
		Check: func(object component.Object) field.ErrorList {
			if app := object.(*msappsv1.WebApp); app.Spec.Port == 1 {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "port"), app.Spec.Port, "must not be 1")}
			}
			return nil
		},
	},
	{
		Traits: component.Traits{Type: "postgresql", MaxName: 50, HasMetadata: true, DataAfter: dataAfter},
		Kind:   databasev1.GroupVersion.WithKind("PostgreSQL"), New: func() component.Object { return &databasev1.PostgreSQL{} },
		Check: func(component.Object) field.ErrorList { return nil },
	},
	{
		Traits: component.Traits{Type: "configMonitor"},
		Kind:   configv1.GroupVersion.WithKind("ConfigMonitor"), New: func() component.Object { return &configv1.ConfigMonitor{} },
		Check: func(component.Object) field.ErrorList { return nil },
	},
}

// dataAfter is that of the tests' kind with data. Nothing is certain of an object that is not live.
func dataAfter(object component.Object) string {
	if object.GetUID() == "" {
		return "its data stay only if data-" + object.GetName() + " does"
	}
	return "its data stay on data-" + object.GetName()
}

// one returns a component of a type; what it depends on follows.
func one(name, typeName, spec string, on ...string) platformv1.Component {
	return platformv1.Component{Name: name, Type: typeName, Spec: runtime.RawExtension{Raw: []byte(spec)}, DependsOn: on}
}

// web returns a WebApp as a component.
func web(name string, on ...string) platformv1.Component {
	return one(name, "webApp", `{"image":"r.io/web:1"}`, on...)
}

func newStack(components ...platformv1.Component) *platformv1.AppStack {
	stack := &platformv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid", Generation: 1},
		Spec:       platformv1.AppStackSpec{Components: components},
	}
	Default(stack)
	return stack
}

// world is what exists of a stack.
type world struct {
	stack *platformv1.AppStack
	found plan.Children
}

func (w world) observed() Observed { return Observed{Children: w.found, Kinds: withQueues("")} }

// make adds the object of a component as the stack would make it. Its condition Ready is True, or
// is False for the given reason. An object of another project is ready, or has failed.
func (w world) make(t *testing.T, c platformv1.Component, reason string) component.Object {
	t.Helper()
	kind, known := KindOf(&c, withQueues(""))
	if !known {
		t.Fatalf("there is no type %s", c.Type)
	}
	object, err := Object(w.stack, &c, kind, Additions{})
	if err != nil {
		t.Fatal(err)
	}
	object.SetGeneration(1)
	object.SetResourceVersion("1")
	object.SetUID("of-" + object.GetUID())
	setReady(object, reason)
	w.found[kind.Ref("web", object.GetName())] = plan.Found{Object: object, Ownership: plan.Ours}
	return object
}

// setReady sets the conditions of an object: Ready with an empty reason; with the reason Broken,
// something is wrong.
func setReady(object component.Object, reason string) {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Available", ObservedGeneration: object.GetGeneration()}
	degraded := ready
	degraded.Type, degraded.Status, degraded.Reason = "Degraded", metav1.ConditionFalse, "Healthy"
	if reason != "" {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, reason, "it is "+reason
	}
	if external, isExternal := object.(*unstructured.Unstructured); isExternal {
		if reason != "" {
			external.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Stalled", "status": "True", "reason": reason}}}
		}
		return
	}
	if reason == "Broken" {
		degraded.Status = metav1.ConditionTrue
	}
	object.(interface{ SetConditions([]metav1.Condition) }).SetConditions([]metav1.Condition{ready, degraded})
}

// summaryOf returns the actions of a decision as text: "db Apply, web Wait(db)".
func summaryOf(decided Decision) string {
	text := ""
	for _, step := range append(decided.Steps, decided.Left...) {
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", step.Name, step.Action)
		if len(step.WaitsFor) > 0 {
			text += fmt.Sprintf("%v", step.WaitsFor)
		}
	}
	return text
}
