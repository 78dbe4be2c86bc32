package webapp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

func TestDefault(t *testing.T) {
	least := msappsv1.WebAppSpec{
		Image: "docker.io/mainstay/demo-web:1.0", Port: 8080, ServicePort: 8080, TerminationGracePeriodSeconds: ptr.To[int64](30),
		SecurityProfile: "Default", TopologySpread: "Preferred", Strategy: msappsv1.Strategy{Type: "RollingUpdate", MinReadySeconds: 2,
			ProgressDeadlineSeconds: 600},
	}
	// want is how the least spec, completed, differs.
	for name, test := range map[string]struct{ given, want string }{
		"the least spec is completed, replicas are not": {`{}`, `{}`},
		"the Service's port follows the port":           {`port: 3000`, `{port: 3000, servicePort: 3000}`},
		"no grace period is a choice":                   {`terminationGracePeriodSeconds: 0`, `terminationGracePeriodSeconds: 0`},
		"an Ingress takes all paths":                    {`ingress: {host: a.example.com}`, `ingress: {host: a.example.com, path: /}`},
		"metrics are those of the application": {`{port: 3000, metrics: {}}`,
			`{port: 3000, servicePort: 3000, metrics: {port: 3000, path: /metrics}}`},
		"autoscaling goes by CPU, from one pod on": {`autoscaling: {max: 4}`, `autoscaling: {min: 1, max: 4, cpu: 80}`},
		"autoscaling by memory alone is no autoscaling by CPU": {`autoscaling: {max: 4, memory: 50}`,
			`autoscaling: {min: 1, max: 4, memory: 50}`},
	} {
		t.Run(name, func(t *testing.T) {
			app, want := newApp(withFields(test.given)), &msappsv1.WebApp{Spec: *least.DeepCopy()}
			Default(app)
			withFields(test.want)(want)
			if diff := cmp.Diff(want.Spec, app.Spec); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestDefaultKeepsWhatIsGivenAndIsIdempotent(t *testing.T) {
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			once := admitted(test.app)
			twice := once.DeepCopy()
			Default(twice)
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Error(diff)
			}
		})
	}
	app := newApp(everything)
	given := app.DeepCopy()
	Default(app)
	given.Spec.Strategy.Type = "RollingUpdate"
	if diff := cmp.Diff(given, app); diff != "" {
		t.Errorf("a value that was given has changed:\n%s", diff)
	}
}
