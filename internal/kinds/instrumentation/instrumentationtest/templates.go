package instrumentationtest

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Namespace is the namespace of everything that is generated.
const Namespace = "shop"

// Generator generates what an owner may write, and what may be injected into it.
type Generator struct{ chance *rand.Rand }

// New returns a Generator with a seed.
func New(seed uint64) *Generator {
	return &Generator{chance: rand.New(rand.NewPCG(seed, 6))} //nolint:gosec // tests need a repeatable sequence
}

// oneIn returns true once in so many times, on average.
func (g *Generator) oneIn(times int) bool { return g.chance.IntN(times) == 0 }

func pick[T any](g *Generator, from ...T) T { return from[g.chance.IntN(len(from))] }

// Template returns a valid pod template. It has labels by which a workload can select its pods.
func (g *Generator) Template() corev1.PodTemplateSpec {
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}
	switch g.chance.IntN(8) {
	case 0, 1:
		template.Annotations = map[string]string{"example.com/owner": "team-a"}
	case 2:
		template.Annotations = map[string]string{}
	case 3:
		template.Annotations = map[string]string{instrv1.AnnotationInject: pick(g, "true", "")}
	}
	spec := &template.Spec
	for _, name := range []string{"data", "config"}[:g.chance.IntN(3)] {
		spec.Volumes = append(spec.Volumes, g.volume(name))
	}
	for _, name := range []string{"prepare", "proxy"}[:g.chance.IntN(3)] {
		one := corev1.Container{Name: name, Image: "registry.example.com/prepare:1", Env: g.env(spec)}
		if name == "proxy" && g.oneIn(2) {
			one.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		spec.InitContainers = append(spec.InitContainers, one)
	}
	names := []string{"app", "app-b", "istio-proxy", "worker"}
	g.chance.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+g.chance.IntN(len(names))] {
		spec.Containers = append(spec.Containers, g.container(name, spec))
	}
	g.aroundPod(spec)
	return template
}

// aroundPod sets fields of the pod itself.
func (g *Generator) aroundPod(spec *corev1.PodSpec) {
	if g.oneIn(3) {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(10001)), FSGroup: new(int64(2000))}
	}
	switch g.chance.IntN(12) {
	case 0:
		spec.OS = &corev1.PodOS{Name: corev1.Linux}
	case 1:
		if spec.SecurityContext == nil && len(spec.InitContainers) == 0 {
			spec.OS = &corev1.PodOS{Name: corev1.Windows}
			for i := range spec.Containers {
				spec.Containers[i].SecurityContext = nil
			}
		}
	case 2:
		spec.NodeSelector = map[string]string{corev1.LabelOSStable: pick(g, "linux", "windows")}
	}
	if spec.OS == nil && g.oneIn(6) {
		spec.Resources = &corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("5m"), corev1.ResourceMemory: resource.MustParse("16Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")},
		}
	}
}

func (g *Generator) volume(name string) corev1.Volume {
	volume := corev1.Volume{Name: name}
	switch g.chance.IntN(3) {
	case 0:
		volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
	case 1:
		volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}
	default:
		volume.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}
	}
	return volume
}

func (g *Generator) container(name string, spec *corev1.PodSpec) corev1.Container {
	made := corev1.Container{Name: name, Image: "registry.example.com/" + name + ":1", Env: g.env(spec), EnvFrom: g.envFrom()}
	for _, volume := range spec.Volumes {
		if volume.PersistentVolumeClaim != nil && g.oneIn(4) {
			made.VolumeDevices = append(made.VolumeDevices, corev1.VolumeDevice{Name: volume.Name, DevicePath: pick(g, "/dev/",
				"/mainstay/agent/") + volume.Name})
			continue
		}
		if g.oneIn(2) {
			made.VolumeMounts = append(made.VolumeMounts, corev1.VolumeMount{Name: volume.Name, MountPath: g.mountPath(volume.Name),
				ReadOnly: g.oneIn(2)})
		}
	}
	switch g.chance.IntN(6) {
	case 0:
		made.SecurityContext = &corev1.SecurityContext{}
	case 1:
		made.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(0))}
	case 2:
		made.SecurityContext = &corev1.SecurityContext{
			RunAsUser: new(int64(10002)), RunAsGroup: new(int64(10002)), RunAsNonRoot: new(true), AllowPrivilegeEscalation: new(false),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	}
	if g.oneIn(4) {
		made.Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	}
	if g.oneIn(4) {
		made.Command = []string{"/run", "$(JAVA_TOOL_OPTIONS)"}
	}
	return made
}

// mountPath returns a path that sometimes collides with an agent's.
func (g *Generator) mountPath(name string) string {
	if name == "data" && g.oneIn(6) {
		return pick(g, "/mainstay", "/mainstay/agent/data", "/opt//agent/")
	}
	return "/srv/" + name
}

// names are names of variables: what loads agents, what agents set, and others.
var names = []string{
	"JAVA_TOOL_OPTIONS", "JAVA_TOOL_OPTIONS", "NODE_OPTIONS", "PYTHONPATH", "RUBYOPT", "CORECLR_PROFILER", "LOG", "TEAM", "GREETING", "PORT",
}

func (g *Generator) env(spec *corev1.PodSpec) []corev1.EnvVar {
	switch g.chance.IntN(8) {
	case 0:
		return nil
	case 1:
		return []corev1.EnvVar{}
	}
	var variables []corev1.EnvVar
	for range g.chance.IntN(7) {
		variable := corev1.EnvVar{Name: pick(g, names...)}
		switch g.chance.IntN(6) {
		case 0:
		case 1, 2:
			variable.ValueFrom = g.source(spec)
		default:
			variable.Value = pick(g, "a", "-Xmx64m -Dx=$(GREETING)", "1", "$(PORT)", "$$(PORT)", "ends with $", " ", "team-a")
		}
		variables = append(variables, variable) // sometimes two have the same name: the last one counts
	}
	return variables
}

// source returns a random source of a value. It sets every field that the API server would default.
func (g *Generator) source(spec *corev1.PodSpec) *corev1.EnvVarSource {
	optional := pick(g, nil, new(false), new(true))
	switch g.chance.IntN(5) {
	case 0:
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1",
			FieldPath: pick(g, "metadata.name", "metadata.labels['team']")}}
	case 1:
		return &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("0")}}
	case 2:
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "credentials"}, Key: pick(g, "NODE_OPTIONS", "missing"), Optional: optional,
		}}
	case 3:
		for _, volume := range spec.Volumes {
			if volume.EmptyDir != nil {
				return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: volume.Name, Path: "env", Key: "KEY",
					Optional: pick(g, new(false), new(true))}}
			}
		}
	}
	return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: pick(g, "LOG", "missing"), Optional: optional,
	}}
}

func (g *Generator) envFrom() []corev1.EnvFromSource {
	var sources []corev1.EnvFromSource
	for range max(0, g.chance.IntN(5)-2) {
		source := corev1.EnvFromSource{Prefix: pick(g, "", "", "JAVA_", "X_")}
		optional := pick(g, nil, new(false), new(true))
		if g.oneIn(2) {
			name := corev1.LocalObjectReference{Name: pick(g, "settings", "settings", "tools", "gone", "unseen")}
			source.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: name, Optional: optional}
		} else {
			source.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "credentials"}, Optional: optional}
		}
		sources = append(sources, source)
	}
	return sources
}

// Name returns the name of a workload.
func (g *Generator) Name() string { return fmt.Sprintf("web-%d", g.chance.IntN(4)) }
