package webapp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

func TestWarn(t *testing.T) {
	const floats = " may refer to another image at any time: use an immutable tag, or a digest"
	for name, test := range map[string]struct {
		unwise, wise func(*msappsv1.WebAppSpec)
		want         []string
	}{
		"a tag that moves": {
			func(s *msappsv1.WebAppSpec) { s.Image = "nginx:latest" }, func(s *msappsv1.WebAppSpec) { s.Image = "nginx:1" },
			[]string{"spec.image: nginx:latest" + floats},
		},
		"no tag, unless there is a digest": {
			func(s *msappsv1.WebAppSpec) { s.Image = "localhost:5000/nginx" },
			func(s *msappsv1.WebAppSpec) {
				s.Image = "nginx:latest@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
			},
			[]string{"spec.image: localhost:5000/nginx" + floats},
		},
		"helpers": {
			func(s *msappsv1.WebAppSpec) {
				s.InitContainers, s.Sidecars = []msappsv1.Container{{Image: "a:1"}, {Image: "a"}}, []msappsv1.Container{{Image: "b"}}
			},
			func(s *msappsv1.WebAppSpec) {
				s.InitContainers, s.Sidecars = []msappsv1.Container{{Image: "a:1"}}, []msappsv1.Container{{Image: "b:1"}}
			},
			[]string{"spec.initContainers[1].image: a" + floats, "spec.sidecars[0].image: b" + floats},
		},
		"all at once": {
			func(s *msappsv1.WebAppSpec) { s.Strategy.Type, s.Replicas = "Recreate", new(int32(2)) },
			func(s *msappsv1.WebAppSpec) { s.Strategy.Type, s.Replicas = "Recreate", new(int32(1)) },
			[]string{"spec.strategy.type: Recreate stops all 2 replicas at once on every change"},
		},
		"a name that shells can't read": {
			func(s *msappsv1.WebAppSpec) { s.Env = []corev1.EnvVar{{Name: "A"}, {Name: "LOG LEVEL"}} },
			func(s *msappsv1.WebAppSpec) { s.Env = []corev1.EnvVar{{Name: "LOG_LEVEL"}} },
			[]string{`spec.env[1].name: "LOG LEVEL" can't be read by shells and many programs: use letters, digits and _`},
		},
		"memory in thousandths of a byte": {
			func(s *msappsv1.WebAppSpec) {
				s.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("512m")}
			},
			func(s *msappsv1.WebAppSpec) {
				s.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("512Mi")}
			},
			[]string{"spec.resources.limits.memory: 512m is 1 bytes: use for example 64Mi"},
		},
		"no grace": {
			func(s *msappsv1.WebAppSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) },
			func(s *msappsv1.WebAppSpec) { s.TerminationGracePeriodSeconds = new(int64(1)) },
			[]string{"spec.terminationGracePeriodSeconds: 0 kills the application without time to complete its requests"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, Warn(admitted(spec(test.unwise)))); diff != "" {
				t.Error(diff)
			}
			if warnings := Warn(admitted(spec(test.wise))); warnings != nil {
				t.Errorf("the neighbour is warned of: %q", warnings)
			}
		})
	}
}
