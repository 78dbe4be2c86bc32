package webapp

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

func count(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }

var (
	cpu      = corev1.ResourceList{"cpu": resource.MustParse("10m")}
	memory   = corev1.ResourceList{"memory": resource.MustParse("10Mi")}
	mounts   = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	declared = []msappsv1.Volume{{Name: "data", EmptyDir: &corev1.EmptyDirVolumeSource{}}}
)

// validateCases has, for each rule, one app that is refused and one that is accepted. The rules of
// the Restricted profile are in security_test.go.
var validateCases = map[string]struct {
	change func(*msappsv1.WebAppSpec)
	field  string // empty: accepted
	detail string
}{
	"the least spec is accepted": {func(*msappsv1.WebAppSpec) {}, "", ""},
	"an image that is none": {
		func(s *msappsv1.WebAppSpec) { s.Image = "shop/Web:1" }, "spec.image", "must be an image reference",
	},
	"an init container's image that is none": {
		func(s *msappsv1.WebAppSpec) {
			s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a:1"}, {Name: "b", Image: "a b"}}
		},
		"spec.initContainers[1].image", "must be an image reference",
	},
	"a side-car's image that is none": {
		func(s *msappsv1.WebAppSpec) { s.Sidecars = []msappsv1.Container{{Name: "b", Image: "http://a"}} }, "spec.sidecars[0].image",
		"must be an image reference",
	},
	"images that are some are accepted": {func(s *msappsv1.WebAppSpec) {
		s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a:1"}}
		s.Sidecars = []msappsv1.Container{{Name: "b", Image: "localhost:5000/b"}}
	}, "", ""},
	"a rollout that can't move": {
		func(s *msappsv1.WebAppSpec) { s.Strategy.MaxSurge = count("0") }, "spec.strategy.maxSurge", "greater than 0 if maxUnavailable is 0",
	},
	"a rollout that can't move, in percent": {
		func(s *msappsv1.WebAppSpec) {
			s.Strategy.MaxSurge, s.Strategy.MaxUnavailable = count("0%"), count("0%")
		},
		"spec.strategy.maxSurge", "greater than 0",
	},
	"a rollout that takes pods away first is accepted": {
		func(s *msappsv1.WebAppSpec) { s.Strategy.MaxSurge, s.Strategy.MaxUnavailable = count("0"), count("1") }, "", "",
	},
	"a rollout that adds pods first is accepted": {
		func(s *msappsv1.WebAppSpec) { s.Strategy.MaxSurge, s.Strategy.MaxUnavailable = count("1"), count("0") }, "", "",
	},
	"autoscaling without a CPU request": {
		func(s *msappsv1.WebAppSpec) { s.Autoscaling = &msappsv1.Autoscaling{Max: 2} }, "spec.resources.requests[cpu]",
		"spec.autoscaling.cpu is a percentage",
	},
	"autoscaling by memory without its request": {
		func(s *msappsv1.WebAppSpec) {
			s.Autoscaling, s.Resources.Requests = &msappsv1.Autoscaling{Max: 2, Memory: ptr.To[int32](50)}, cpu
		}, "spec.resources.requests[memory]", "spec.autoscaling.memory is a percentage",
	},
	"autoscaling with a request is accepted": {
		func(s *msappsv1.WebAppSpec) { s.Autoscaling, s.Resources.Requests = &msappsv1.Autoscaling{Max: 2}, cpu }, "", "",
	},
	"a limit is a request as well": {
		func(s *msappsv1.WebAppSpec) {
			s.Autoscaling, s.Resources.Limits = &msappsv1.Autoscaling{Max: 2, Memory: ptr.To[int32](50)}, memory
		}, "", "",
	},
	"a mount of no volume": {
		func(s *msappsv1.WebAppSpec) { s.VolumeMounts = mounts }, "spec.volumeMounts[0].name", `"data"`,
	},
	"an init container's mount of no volume": {
		func(s *msappsv1.WebAppSpec) {
			s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a", VolumeMounts: mounts}}
		},
		"spec.initContainers[0].volumeMounts[0].name", `"data"`,
	},
	"a side-car's mount of no volume": {
		func(s *msappsv1.WebAppSpec) {
			s.Sidecars = []msappsv1.Container{{Name: "b", Image: "a", VolumeMounts: mounts}}
		},
		"spec.sidecars[0].volumeMounts[0].name", `"data"`,
	},
	"mounts of a volume are accepted": {func(s *msappsv1.WebAppSpec) {
		s.Volumes, s.VolumeMounts = declared, mounts
		s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a", VolumeMounts: mounts}}
		s.Sidecars = []msappsv1.Container{{Name: "b", Image: "a", VolumeMounts: mounts}}
	}, "", ""},
	"an init container with a probe": {
		func(s *msappsv1.WebAppSpec) {
			s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a", StartupProbe: &corev1.Probe{}}}
		},
		"spec.initContainers[0].startupProbe", "runs to completion",
	},
	"a side-car with a probe is accepted": {
		func(s *msappsv1.WebAppSpec) {
			s.Sidecars = []msappsv1.Container{{Name: "b", Image: "a", StartupProbe: byCommand}}
		}, "", "",
	},
	"the name tmp under Restricted": {func(s *msappsv1.WebAppSpec) {
		s.SecurityProfile, s.Volumes = "Restricted", []msappsv1.Volume{{Name: "tmp", EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	}, "spec.volumes", "must have another name"},
	"the name tmp is accepted elsewhere": {
		func(s *msappsv1.WebAppSpec) {
			s.Volumes = []msappsv1.Volume{{Name: "tmp", EmptyDir: &corev1.EmptyDirVolumeSource{}}}
		}, "", "",
	},
}

func TestValidate(t *testing.T) {
	for name, test := range validateCases {
		t.Run(name, func(t *testing.T) {
			problems := Validate(admitted(spec(test.change)))
			if test.field == "" {
				if len(problems) > 0 {
					t.Errorf("refused: %v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Field != test.field || !strings.Contains(problems[0].Error(), test.detail) {
				t.Errorf("got %v", problems)
			}
		})
	}
}

func TestValidateReportsAllProblems(t *testing.T) {
	problems := Validate(admitted(spec(func(s *msappsv1.WebAppSpec) {
		s.Image = "A/b:c:d"
		s.Strategy.MaxSurge = count("0")
		s.VolumeMounts = []corev1.VolumeMount{{Name: "x"}}
	})))
	if len(problems) != 3 {
		t.Errorf("got %v", problems)
	}
}
