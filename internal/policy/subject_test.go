package policy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestEffectiveSecurity(t *testing.T) {
	podSays := &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(7))}
	for name, test := range map[string]struct {
		pod       *corev1.PodSecurityContext
		container *corev1.SecurityContext
		want      Security
	}{
		"Kubernetes' defaults": {nil, nil, Security{AllowPrivilegeEscalation: true}},
		"empty ones":           {&corev1.PodSecurityContext{}, &corev1.SecurityContext{}, Security{AllowPrivilegeEscalation: true}},
		"the pod's":            {podSays, nil, Security{AllowPrivilegeEscalation: true, RunAsNonRoot: true, RunAsUser: new(int64(7))}},
		"the container is asked first": {
			podSays, &corev1.SecurityContext{RunAsNonRoot: new(false), RunAsUser: new(int64(0))},
			Security{AllowPrivilegeEscalation: true, RunAsUser: new(int64(0))},
		},
		"no escalation": {nil, &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}, Security{}},
		"the privileged escalate": {
			nil, &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Privileged: new(true)},
			Security{AllowPrivilegeEscalation: true, Privileged: true},
		},
		"read-only": {nil, &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true)},
			Security{ReadOnlyRootFilesystem: true}},
		"capabilities": {
			nil, &corev1.SecurityContext{AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"A"},
				Drop: []corev1.Capability{"B"}}},
			Security{Adds: []corev1.Capability{"A"}, Drops: []corev1.Capability{"B"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, effective(test.pod, test.container)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestContainersAndVolumesOfAPod: every place where an image can be (security.md, rule 8).
func TestContainersAndVolumesOfAPod(t *testing.T) {
	pod := &corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(7))},
		InitContainers:  []corev1.Container{{Name: "first", Image: "a:1"}},
		Containers: []corev1.Container{{
			Name: "main", Image: "b:1", Resources: corev1.ResourceRequirements{Limits: quantities("cpu", "1")},
			SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(8))},
		}},
		Volumes: []corev1.Volume{
			{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "files", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "c:1"}}},
		},
	}
	containers := Containers(pod, func(name string) *field.Path { return at("containers").Key(name) })
	volumes := Volumes(pod, at("volumes"))
	if len(containers) != 2 || len(volumes) != 1 {
		t.Fatalf("got %v, %v", containers, volumes)
	}
	first, main, files := containers[0], containers[1], volumes[0]
	got := []string{
		first.Field.String(), first.Name, first.Image, main.Field.String(), main.Name, main.Image, main.Limits.Cpu().String(),
		files.Field.String(), files.Name, files.Image,
	}
	want := []string{
		"spec.containers[first]", "first", "a:1", "spec.containers[main]", "main", "b:1", "1",
		"spec.volumes[1].image.reference", "files", "c:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if *first.Security.RunAsUser != 7 || *main.Security.RunAsUser != 8 {
		t.Errorf("uids %d and %d", *first.Security.RunAsUser, *main.Security.RunAsUser)
	}
}

// restrictedPod returns a pod that meets the profile, with changes.
func restrictedPod(changes ...func(*corev1.PodSpec)) *corev1.PodSpec {
	pod := &corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}},
		Containers: []corev1.Container{{Name: "main", SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}}},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

// debugged adds an ephemeral container like the first one, but for its root.
func debugged(readOnly bool) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		debugger := p.Containers[0].DeepCopy()
		debugger.Name, debugger.SecurityContext.ReadOnlyRootFilesystem = "debugger", new(readOnly)
		p.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(*debugger)}}
	}
}

func TestUnrestricted(t *testing.T) {
	for name, test := range map[string]struct {
		change      func(*corev1.PodSpec)
		annotations map[string]string
		want        bool
	}{
		"as the profile asks": {func(*corev1.PodSpec) {}, nil, true},
		"a uid":               {func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(1)) }, nil, true},
		"one capability": {func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_BIND_SERVICE"}
		}, nil, true},
		"no context": {func(p *corev1.PodSpec) { *p = corev1.PodSpec{Containers: p.Containers} }, nil, false},
		"root":       {func(p *corev1.PodSpec) { p.SecurityContext.RunAsUser = new(int64(0)) }, nil, false},
		"maybe root": {func(p *corev1.PodSpec) { p.SecurityContext.RunAsNonRoot = nil }, nil, false},
		"escalation": {func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.AllowPrivilegeEscalation = nil }, nil, false},
		"a file system that it may write": {
			func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.ReadOnlyRootFilesystem = nil }, nil, false,
		},
		"the usual capabilities": {func(p *corev1.PodSpec) { p.Containers[0].SecurityContext.Capabilities = nil }, nil, false},
		"the host's network":     {func(p *corev1.PodSpec) { p.HostNetwork = true }, nil, false},
		"an init container":      {func(p *corev1.PodSpec) { p.InitContainers = []corev1.Container{{Name: "first"}} }, nil, false},
		"a path of the host": {func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, nil, false},
		"an ephemeral container":                         {debugged(true), nil, true},
		"an ephemeral container that may write its root": {debugged(false), nil, false},
		"AppArmor is turned off": {func(*corev1.PodSpec) {},
			map[string]string{"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if lapses := Unrestricted(&metav1.ObjectMeta{Annotations: test.annotations}, restrictedPod(test.change)); (lapses == nil) != test.want {
				t.Errorf("got %q", lapses)
			}
		})
	}
}
