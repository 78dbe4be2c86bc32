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
	changed := func(change func(*msappsv1.WebAppSpec)) msappsv1.WebAppSpec {
		other := *least.DeepCopy()
		change(&other)
		return other
	}
	for name, test := range map[string]struct {
		given func(*msappsv1.WebAppSpec)
		want  msappsv1.WebAppSpec
	}{
		"the least spec is completed, replicas are not": {func(*msappsv1.WebAppSpec) {}, least},
		"the Service's port follows the port": {
			func(s *msappsv1.WebAppSpec) { s.Port = 3000 },
			changed(func(s *msappsv1.WebAppSpec) { s.Port, s.ServicePort = 3000, 3000 }),
		},
		"no grace period is a choice": {
			func(s *msappsv1.WebAppSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](0) },
			changed(func(s *msappsv1.WebAppSpec) { s.TerminationGracePeriodSeconds = ptr.To[int64](0) }),
		},
		"an Ingress takes all paths": {
			func(s *msappsv1.WebAppSpec) { s.Ingress = &msappsv1.Ingress{Host: "a.example.com"} },
			changed(func(s *msappsv1.WebAppSpec) { s.Ingress = &msappsv1.Ingress{Host: "a.example.com", Path: "/"} }),
		},
		"metrics are those of the application": {
			func(s *msappsv1.WebAppSpec) { s.Port, s.Metrics = 3000, &msappsv1.Metrics{} },
			changed(func(s *msappsv1.WebAppSpec) {
				s.Port, s.ServicePort, s.Metrics = 3000, 3000, &msappsv1.Metrics{Port: 3000, Path: "/metrics"}
			}),
		},
		"autoscaling goes by CPU, from one pod on": {
			func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Max: 4} },
			changed(func(s *msappsv1.WebAppSpec) {
				s.Autoscaling = &msappsv1.Autoscaling{Min: 1, Max: 4, CPU: ptr.To[int32](80)}
			}),
		},
		"autoscaling by memory alone is no autoscaling by CPU": {
			func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Max: 4, Memory: ptr.To[int32](50)} },
			changed(func(s *msappsv1.WebAppSpec) {
				s.Autoscaling = &msappsv1.Autoscaling{Min: 1, Max: 4, Memory: ptr.To[int32](50)}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(spec(test.given))
			Default(app)
			if diff := cmp.Diff(test.want, app.Spec); diff != "" {
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
