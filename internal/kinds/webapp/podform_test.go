package webapp

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// asking returns requests and limits.
func asking(request, limit string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(request)},
		Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}
}

// getting returns a probe of an HTTP port.
func getting(port intstr.IntOrString) *corev1.Probe {
	return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: port}}}
}

var byCommand = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}

// TestPodForm has each rule once refused and once, for the nearest spec, accepted.
func TestPodForm(t *testing.T) {
	tolerating := func(toleration corev1.Toleration) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { s.Tolerations = []corev1.Toleration{toleration} }
	}
	env := func(variable corev1.EnvVar) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { s.Env = []corev1.EnvVar{variable} }
	}
	readiness := func(probe *corev1.Probe) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { s.Probes.Readiness = probe }
	}
	sidecar := func(probe *corev1.Probe) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) {
			s.Sidecars = []msappsv1.Container{{Name: "b", Image: "b", StartupProbe: probe}}
		}
	}
	resources := func(of corev1.ResourceRequirements) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { s.Resources = of }
	}
	helper := func(of corev1.ResourceRequirements) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) {
			s.InitContainers = []msappsv1.Container{{Name: "a", Image: "a", Resources: of}}
		}
	}
	volume := func(given msappsv1.Volume) func(*msappsv1.WebAppSpec) {
		return func(s *msappsv1.WebAppSpec) { given.Name = "v"; s.Volumes = []msappsv1.Volume{given} }
	}
	reference := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}
	for name, test := range map[string]struct {
		bad, good func(*msappsv1.WebAppSpec)
		want      string
	}{
		"a request above its limit": {resources(asking("1", "500m")), resources(asking("500m", "500m")),
			`spec.resources.requests.cpu: Invalid value: "1": must be at most the limit, 500m (spec.resources.limits.cpu)`},
		"a helper's request": {helper(asking("2", "1")), helper(asking("1", "2")),
			`spec.initContainers[0].resources.requests.cpu: Invalid value: "2": must be at most the limit, 1`},
		"a variable's name": {env(corev1.EnvVar{Name: "A=B"}), env(corev1.EnvVar{Name: "A B"}), `spec.env[0].name: Invalid value: "A=B"`},
		"a variable of two values": {env(corev1.EnvVar{Name: "A", Value: "x", ValueFrom: reference}),
			env(corev1.EnvVar{Name: "A", ValueFrom: reference}), `spec.env[0].valueFrom: Invalid value: "": must not be set together with value`},
		"a port without that name": {readiness(getting(intstr.FromString("web"))), readiness(getting(intstr.FromString("http"))),
			`spec.probes.readiness.httpGet.port: Invalid value: "web": must be http, which is the name of spec.port, or the number of a port`},
		"no port": {readiness(getting(intstr.FromString(""))), readiness(getting(intstr.FromInt32(9000))),
			`spec.probes.readiness.httpGet.port: Required value`},
		"a port out of range": {readiness(getting(intstr.FromInt32(70000))), readiness(getting(intstr.FromInt32(65535))),
			`spec.probes.readiness.httpGet.port: Invalid value: 70000: must be from 1 to 65535`},
		"a side-car's port": {sidecar(getting(intstr.FromString("http"))), sidecar(getting(intstr.FromInt32(9000))),
			`spec.sidecars[0].startupProbe.httpGet.port: Invalid value: "http": must be a number`},
		"a probe of nothing": {readiness(&corev1.Probe{PeriodSeconds: 5}), readiness(byCommand),
			`spec.probes.readiness: Required value: must have one of httpGet, tcpSocket, grpc and exec`},
		"a probe of two kinds": {readiness(&corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: byCommand.Exec,
			GRPC: &corev1.GRPCAction{Port: 1}}}), readiness(&corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}),
			`spec.probes.readiness: Forbidden: must have only one of httpGet, tcpSocket, grpc and exec`},
		"an effect": {tolerating(corev1.Toleration{Key: "a", Effect: "Sometimes"}), tolerating(corev1.Toleration{Key: "a", Effect: "NoSchedule"}),
			`spec.tolerations[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`},
		"an operator": {tolerating(corev1.Toleration{Key: "a", Operator: "Is"}), tolerating(corev1.Toleration{Key: "a", Operator: "Equal"}),
			`spec.tolerations[0].operator: Unsupported value: "Is": supported values: "Equal", "Exists"`},
		"a value that is not compared": {tolerating(corev1.Toleration{Key: "a", Operator: "Exists", Value: "b"}),
			tolerating(corev1.Toleration{Key: "a", Value: "b"}), `spec.tolerations[0].value: Invalid value: "b": must be empty`},
		"no key": {tolerating(corev1.Toleration{Value: "b"}), tolerating(corev1.Toleration{Operator: "Exists"}),
			`spec.tolerations[0].key: Required value`},
		"seconds without NoExecute": {tolerating(corev1.Toleration{Key: "a", TolerationSeconds: new(int64(1))}),
			tolerating(corev1.Toleration{Key: "a", Effect: "NoExecute", TolerationSeconds: new(int64(1))}),
			`spec.tolerations[0].effect: Invalid value: "": must be NoExecute with tolerationSeconds`},
		"a ConfigMap without a name": {volume(msappsv1.Volume{ConfigMap: &corev1.ConfigMapVolumeSource{}}),
			volume(msappsv1.Volume{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}),
			`spec.volumes[0].configMap.name: Required value`},
		"a Secret without a name": {volume(msappsv1.Volume{Secret: &corev1.SecretVolumeSource{}}),
			volume(msappsv1.Volume{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}), `spec.volumes[0].secret.secretName: Required value`},
		"a claim without a name": {volume(msappsv1.Volume{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}),
			volume(msappsv1.Volume{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}),
			`spec.volumes[0].persistentVolumeClaim.claimName: Required value`},
		"a label of a node": {func(s *msappsv1.WebAppSpec) { s.NodeSelector = map[string]string{"disk": "ssd fast"} },
			func(s *msappsv1.WebAppSpec) { s.NodeSelector = map[string]string{"disk": "ssd-fast"} },
			`spec.nodeSelector[disk]: Invalid value: "ssd fast": must be a label value`},
	} {
		t.Run(name, func(t *testing.T) {
			problems := Validate(admitted(spec(test.bad)))
			if len(problems) != 1 || !strings.HasPrefix(problems[0].Error(), test.want) {
				t.Errorf("got %v, want %s", problems, test.want)
			}
			if problems := Validate(admitted(spec(test.good))); len(problems) > 0 {
				t.Errorf("the neighbour is refused: %v", problems)
			}
		})
	}
}
