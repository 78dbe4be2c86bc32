package webapp

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// newApp returns the minimal WebApp, as a user writes it, with changes.
func newApp(changes ...func(*msappsv1.WebApp)) *msappsv1.WebApp {
	app := &msappsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1", Generation: 3},
		Spec:       msappsv1.WebAppSpec{Image: "docker.io/mainstay/demo-web:1.0"},
	}
	for _, change := range changes {
		change(app)
	}
	return app
}

// admitted returns newApp after admission.
func admitted(changes ...func(*msappsv1.WebApp)) *msappsv1.WebApp {
	app := newApp(changes...)
	Default(app)
	return app
}

// spec returns a change of the spec alone.
func spec(change func(*msappsv1.WebAppSpec)) func(*msappsv1.WebApp) {
	return func(app *msappsv1.WebApp) { change(&app.Spec) }
}

// withFields returns a change of the spec to fields as users write them, in YAML.
func withFields(fields string) func(*msappsv1.WebApp) {
	return spec(func(s *msappsv1.WebAppSpec) {
		if err := yaml.UnmarshalStrict([]byte(fields), s); err != nil {
			panic(fields + ": " + err.Error())
		}
	})
}

// rule is a rule for specs, with a spec that it refuses and the nearest one that it accepts.
// Without a refused one it is a spec that no rule may refuse.
type rule struct {
	refused, accepted string
	// want is the field of the only problem, and a part of its text.
	want string
}

func (r rule) check(t *testing.T) {
	t.Helper()
	field, detail, _ := strings.Cut(r.want, ": ")
	if problems := Validate(admitted(withFields(r.accepted))); len(problems) > 0 {
		t.Errorf("%s is refused: %v", r.accepted, problems)
	}
	if r.refused == "" {
		return
	}
	problems := Validate(admitted(withFields(r.refused)))
	if len(problems) != 1 || problems[0].Field != field {
		t.Fatalf("got %v, want one problem of %s", problems, field)
	}
	if text := problems[0].Error(); !strings.Contains(text, detail) || strings.Contains(text, "\n") {
		t.Errorf("got %s, want %s", text, r.want)
	}
}

// rolledOut returns the Deployment of an app whose two replicas are available.
func rolledOut(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", Generation: 2},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](2),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop", "app.kubernetes.io/component": "webapp"}},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2,
			Conditions: []appsv1.DeploymentCondition{{Type: "Progressing", Status: "True", Reason: "NewReplicaSetAvailable"}},
		},
	}
	for _, change := range changes {
		change(deployment)
	}
	return deployment
}

// found returns the Deployment of app web/shop as a child.
func found(ownership plan.Ownership, object plan.Object) plan.Children {
	return plan.Children{{Group: "apps", Kind: "Deployment", Namespace: "web", Name: "shop"}: {Object: object, Ownership: ownership}}
}
