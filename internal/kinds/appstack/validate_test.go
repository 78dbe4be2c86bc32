package appstack

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// TestValidate: each rule is refused once, with field and remedy, and accepted once.
func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 50)
	monitor := `{"configMap":"flags","podSelector":{"app":"web"}}`
	for name, test := range map[string]struct {
		bad, good []platformv1.Component
		want      string
	}{
		"no component": {nil, []platformv1.Component{web("a")}, "spec.components: Required value: must have at least one component"},
		"a name twice": {[]platformv1.Component{web("a"), web("a")}, []platformv1.Component{web("a"), web("b")},
			`spec.components[1].name: Duplicate value: "a"`},
		"an unknown type": {[]platformv1.Component{one("a", "mysql", `{}`)}, []platformv1.Component{one("a", "configMonitor", monitor)},
			`spec.components[0].type: Unsupported value: "mysql": supported values: "configMonitor", "postgresql", "webApp"`},
		"a name that is too long for the kind": {[]platformv1.Component{one(long, "postgresql", `{"version":"17"}`)},
			[]platformv1.Component{one(long[:45], "postgresql", `{"version":"17"}`)},
			"must be at most 50 characters: shorten this name to 45 characters"},
		"a dependency on itself": {[]platformv1.Component{web("a", "a")}, []platformv1.Component{web("b"), web("a", "b")},
			`spec.components[0].dependsOn[0]: Invalid value: "a": must not be the component itself`},
		"a dependency on nothing": {[]platformv1.Component{web("a", "db")}, []platformv1.Component{web("db"), web("a", "db")},
			`spec.components[0].dependsOn[0]: Not found: "db"`},
		"a dependency twice": {[]platformv1.Component{web("b"), web("a", "b", "b")}, []platformv1.Component{web("b"), web("a", "b")},
			`spec.components[1].dependsOn[1]: Duplicate value: "b"`},
		"a circle": {[]platformv1.Component{web("x"), web("a", "b", "x"), web("b", "c"), web("c", "a")},
			[]platformv1.Component{web("x"), web("a", "b", "c", "x"), web("b", "c"), web("c")},
			"spec.components[1].dependsOn: Invalid value: must not depend on itself through others: a -> b -> c -> a"},
		"an unknown field": {[]platformv1.Component{web("x"), one("a", "webApp", `{"image":"a","replcas":2}`)},
			[]platformv1.Component{web("x"), one("a", "webApp", `{"image":"a","replicas":2}`)},
			"spec.components[1].spec.replcas: Forbidden: unknown field"},
		"an unknown field within": {[]platformv1.Component{one("a", "webApp", `{"image":"a","env":[{"name":"A"},{"nam":"B"}]}`)},
			[]platformv1.Component{one("a", "webApp", `{"image":"a","env":[{"name":"A"},{"name":"B"}]}`)},
			"spec.components[0].spec.env[1].nam: Forbidden: unknown field"},
		"a field twice": {[]platformv1.Component{one("a", "webApp", `{"image":"a","image":"b"}`)}, []platformv1.Component{web("a")},
			"spec.components[0].spec.image: Duplicate value"},
		"a value of another type": {[]platformv1.Component{one("a", "webApp", `{"image":"a","replicas":"two"}`)}, []platformv1.Component{web("a")},
			`spec.components[0].spec.replicas: Invalid value: "string": must be of type int32`},
		"a quantity that is none": {[]platformv1.Component{one("a", "webApp", `{"image":"a","resources":{"limits":{"cpu":"much"}}}`)},
			[]platformv1.Component{one("a", "webApp", `{"image":"a","resources":{"limits":{"cpu":"1"}}}`)},
			`spec.components[0].spec.resources.limits.cpu: Invalid value: "much": use for example 500m`},
		"what the kind refuses": {[]platformv1.Component{web("x"), one("a", "webApp", `{"image":"a","port":1}`)},
			[]platformv1.Component{web("x"), one("a", "webApp", `{"image":"a","port":2}`)},
			"spec.components[1].spec.port: Invalid value: 1: must not be 1"},
	} {
		t.Run(name, func(t *testing.T) {
			problems := Validate(newStack(test.bad...), kinds).ToAggregate()
			if problems == nil || !strings.Contains(problems.Error(), test.want) {
				t.Errorf("got  %v\nwant %s", problems, test.want)
			}
			if problems := Validate(newStack(test.good...), kinds); len(problems) > 0 {
				t.Errorf("accepted should be what is refused: %v", problems)
			}
		})
	}
}

// TestValidateRest: what concerns the stack as a whole.
func TestValidateRest(t *testing.T) {
	many := newStack()
	for i := range MaxComponents + 1 {
		many.Spec.Components = append(many.Spec.Components, web(fmt.Sprintf("a%d", i)))
	}
	label := newStack(web("a"))
	label.Spec.Labels = msappsv1.Labels{"app": "x"}
	annotation := newStack(web("a"))
	annotation.Spec.Annotations = msappsv1.Annotations{"mainstay.dev/adopt": "x"}
	updates := newStack(web("a"))
	updates.Spec.Updates = "Sometimes"
	for want, stack := range map[string]*platformv1.AppStack{
		"spec.components: Too many: 101: must have at most 100 items":            many,
		"spec.labels[app]: Forbidden":                                            label,
		"spec.annotations[mainstay.dev/adopt]: Forbidden":                        annotation,
		`spec.updates: Unsupported value: "Sometimes": supported values: "Indep`: updates,
	} {
		if problems := Validate(stack, kinds).ToAggregate(); problems == nil || !strings.Contains(problems.Error(), want) {
			t.Errorf("got  %v\nwant %s", problems, want)
		}
	}
}

// TestObject: the object is what the component's spec says, with the stack's labels, which those of
// the component precede, and without those that are not the stack's to hand on.
func TestObject(t *testing.T) {
	c := one("web", "webApp", `{"image":"r.io/web:1","labels":{"team":"b"},"replicas":2}`, "b", "a")
	stack := newStack(c)
	stack.Labels = map[string]string{"cost": "1", "app.kubernetes.io/instance": "x", "mainstay.dev/environment": "prod"}
	stack.Spec.Labels = msappsv1.Labels{"team": "a", "tier": "1"}
	stack.Spec.Annotations = msappsv1.Annotations{"note": "n"}
	object, err := Object(stack, &c, kinds[0], Additions{IsExposed: true})
	if err != nil {
		t.Fatal(err)
	}
	app := object.(*msappsv1.WebApp)
	got := fmt.Sprint(app.Name, app.Namespace, *app.Spec.Replicas, app.Spec.Labels, app.Spec.Annotations, app.Labels, app.Annotations)
	want := "shop-web" + "web" + "2 map[team:b tier:1] map[note:n] map[app.kubernetes.io/component:web " +
		"app.kubernetes.io/instance:shop-web app.kubernetes.io/managed-by:mainstay app.kubernetes.io/name:shop " +
		"app.kubernetes.io/part-of:shop cost:1 team:a tier:1] map[note:n platform.mainstay.dev/depends-on:a,b]"
	if strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := Object(stack, new(one("x", "webApp", "[")), kinds[0], Additions{}); err == nil {
		t.Error("what is no JSON is accepted")
	}
}

// TestLongNames: an object whose name is too long for a label is refused if its kind takes no such
// name, and otherwise has labels that the API server takes. The labels of others are their names.
func TestLongNames(t *testing.T) {
	appConfig := component.Kind{
		Traits: component.Traits{Type: "appConfig", MaxName: 63}, Kind: configv1.GroupVersion.WithKind("AppConfig"),
		New:   func() component.Object { return &configv1.AppConfig{} },
		Check: func(component.Object) field.ErrorList { return nil },
	}
	all := append(withQueues(""), appConfig)
	fits, long := strings.Repeat("a", 58), strings.Repeat("a", 59)
	for typeName, test := range map[string]struct{ spec, refused string }{
		"appConfig": {`{"application":"shop"}`, `spec.components[0].name: Invalid value: "` + long + `": the AppConfig would be named shop-` + long +
			": must be at most 63 characters: shorten this name to 58 characters, or shorten the name of the AppStack"},
		"configMonitor": {`{"configMap":"flags"}`, ""},
		"object":        {queueSpec, ""},
	} {
		for _, name := range []string{fits, long} {
			c := one(name, typeName, test.spec)
			stack := newStack(c)
			refused := ""
			if problems := Validate(stack, all); len(problems) > 0 {
				refused = problems.ToAggregate().Error()
			}
			if want := map[bool]string{true: test.refused}[name == long]; refused != want {
				t.Errorf("%s of %d characters: got %q, want %q", typeName, len(name), refused, want)
			}
			kind, _ := KindOf(&c, all)
			object, err := Object(stack, &c, kind, Additions{})
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range object.GetLabels() {
				if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
					t.Errorf("%s: %s: %v", typeName, key, problems)
				}
			}
			if label := object.GetLabels()["app.kubernetes.io/instance"]; name == fits && label != object.GetName() {
				t.Errorf("%s: the label of an existing object is %s now", typeName, label)
			}
		}
	}
}

// FuzzValidate: no spec makes it panic, and what it accepts can be made.
func FuzzValidate(f *testing.F) {
	fuzz.AddBombs(f, `{"image":"a"}`)
	f.Add(`{"image":{"a":[1,2,{"b":null}]}}`)
	f.Add(`null`)
	f.Fuzz(func(t *testing.T, spec string) {
		defer fuzz.Budget(t, spec)()
		stack := newStack(one("a", "webApp", spec))
		if len(Validate(stack, kinds)) > 0 {
			return
		}
		if _, err := Object(stack, &stack.Spec.Components[0], kinds[0], Additions{IsExposed: true}); err != nil {
			t.Errorf("%s was accepted: %v", spec, err)
		}
	})
}
