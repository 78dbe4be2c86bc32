package appstackcontroller

import (
	"context"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/install/crds"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// TestCheckSchema: what a schema refuses is reported, unless it was so before, or what was
// before can't be checked any more. All components of a request share one budget.
func TestCheckSchema(t *testing.T) {
	kind := component.Kind{Kind: msappsv1.GroupVersion.WithKind("WebApp")}
	app := func(port int32, arguments int) *msappsv1.WebApp {
		return &msappsv1.WebApp{Spec: msappsv1.WebAppSpec{Image: "a", Port: port, Args: slices.Repeat([]string{"x"}, arguments)}}
	}
	var spent crds.Budget
	if _, err := checkSchema(kind, app(80, 2900), nil, &spent); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		object, before *msappsv1.WebApp
		budget         *crds.Budget
		want           int
	}{
		"a new one":             {app(70000, 0), nil, &crds.Budget{}, 1},
		"a new defect":          {app(70000, 0), app(80, 0), &crds.Budget{}, 1},
		"an old defect":         {app(70000, 1), app(70000, 0), &crds.Budget{}, 0},
		"the former is too big": {app(70000, 0), app(70000, 3000), &crds.Budget{}, 0},
		"too little is left":    {app(70000, 200), nil, &spent, 0},
	} {
		var before component.Object
		if test.before != nil {
			before = test.before
		}
		problems, err := checkSchema(kind, test.object, before, test.budget)
		if err != nil || len(problems) != test.want {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

// TestReviewedPaths: a problem of a component's own variable has the path that the user has
// written, although injected variables come before it.
func TestReviewedPaths(t *testing.T) {
	queue := component.NewExternal(schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Queue"}, nil)
	app := component.Kind{Traits: component.Traits{Type: "webApp", TakesVariables: true}, Kind: msappsv1.GroupVersion.WithKind("WebApp"),
		New: func() component.Object { return &msappsv1.WebApp{} }}
	review := func(_ context.Context, object, _ component.Object) (admission.Review, error) {
		var found admission.Review
		if reviewed, isApp := object.(*msappsv1.WebApp); isApp {
			for i, variable := range reviewed.Spec.Env {
				if variable.Name == "MINE" {
					found.Problems = append(found.Problems, field.Invalid(field.NewPath("spec", "env").Index(i), variable.Name, "no"))
				}
			}
		}
		return found, nil
	}
	stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}}
	stack.Spec.Components = []platformv1.Component{
		{Name: "queue", Type: "object", Spec: runtime.RawExtension{Raw: []byte(`{"apiVersion":"mq.example.com/v1","kind":"Queue"}`)},
			Outputs: []platformv1.Output{{Name: "HOST", SecretKeyRef: &platformv1.OutputSecretKey{Name: "s", Key: "host"}}}},
		{Name: "web", Type: "webApp", DependsOn: []string{"queue"},
			Spec: runtime.RawExtension{Raw: []byte(`{"image":"a","port":80,"env":[{"name":"MINE"}]}`)}},
	}
	r := reviewer{components: []registration.Component{{Kind: queue, Review: review}, {Kind: app, Review: review}},
		kinds: component.Kinds{queue, app}, stack: stack, budget: &crds.Budget{}}
	found, err := r.review(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Problems) != 1 || found.Problems[0].Field != "spec.components[1].spec.env[0]" {
		t.Errorf("got %v", found.Problems)
	}
}

// cachingManager is a manager of which only the cache is used.
type cachingManager struct {
	ctrl.Manager
	client client.Client
}

func (m cachingManager) GetClient() client.Client { return m.client }

// TestTypeChange: a component gets no other type if the objects of both would own something of the
// same name, unless the object of that type is there already.
func TestTypeChange(t *testing.T) {
	policy := func(object component.Object) []component.Object {
		return []component.Object{&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: object.GetName()}}}
	}
	kinds := component.Kinds{
		{Traits: component.Traits{Type: "postgresql", Children: policy}, Kind: databasev1.GroupVersion.WithKind("PostgreSQL"),
			New: func() component.Object { return &databasev1.PostgreSQL{} }},
		{Traits: component.Traits{Type: "cache", Children: policy}, Kind: databasev1.GroupVersion.WithKind("Cache"),
			New: func() component.Object { return &databasev1.Cache{} }},
		{Traits: component.Traits{Type: "configMonitor"}, Kind: configv1.GroupVersion.WithKind("ConfigMonitor"),
			New: func() component.Object { return &configv1.ConfigMonitor{} }},
	}
	newStack := func(name, typeName string) *platformv1.AppStack {
		stack := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid"}}
		stack.Spec.Components = []platformv1.Component{
			{Name: "watch", Type: "configMonitor"}, {Name: name, Type: typeName, Spec: runtime.RawExtension{Raw: []byte("{}")}},
		}
		return stack
	}
	scheme := runtime.NewScheme()
	if err := databasev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mine := &databasev1.Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-db", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(newStack("db", "cache"), platformv1.GroupVersion.WithKind("AppStack"))}}}
	foreign := &databasev1.Cache{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-db"}}
	const refusal = `spec.components[1].type: Invalid value: "cache": must stay postgresql: objects of both types have a ` +
		"NetworkPolicy shop-db, and the former object stays until the new one is ready: give the new component another name"
	for name, test := range map[string]struct {
		before, after *platformv1.AppStack
		existing      []client.Object
		want          string
	}{
		"a new stack":             {nil, newStack("db", "cache"), nil, ""},
		"the same type":           {newStack("db", "cache"), newStack("db", "cache"), nil, ""},
		"their children collide":  {newStack("db", "postgresql"), newStack("db", "cache"), nil, refusal},
		"and the object is there": {newStack("db", "postgresql"), newStack("db", "cache"), []client.Object{mine}, ""},
		"and it is another's":     {newStack("db", "postgresql"), newStack("db", "cache"), []client.Object{foreign}, refusal},
		"another name":            {newStack("db", "postgresql"), newStack("sessions", "cache"), nil, ""},
		"one has no children":     {newStack("db", "postgresql"), newStack("db", "configMonitor"), nil, ""},
		"the other has none":      {newStack("db", "configMonitor"), newStack("db", "cache"), nil, ""},
		"the former kind is off":  {newStack("db", "mysql"), newStack("db", "cache"), nil, ""},
	} {
		cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(test.existing...).Build()
		r := reviewer{in: registration.Input{Manager: cachingManager{client: cached}}, kinds: kinds, stack: test.after, before: test.before}
		found, err := r.review(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(found.Problems) > 0 {
			got = found.Problems.ToAggregate().Error()
		}
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, test.want)
		}
	}
}
