package policy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psa "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// Subject is what policy looks at: in an object, or in what runs for it. Fields are paths as the
// user knows them.
type Subject struct {
	// Labels of the object. What runs has none: only the object itself carries them.
	Labels map[string]string
	// Replicas that may come to be, each by itself.
	Replicas []Replicas
	// Containers of the pods, init containers and side-cars too.
	Containers []Container
	// Volumes that are images.
	Volumes []Volume
	// Unrestricted is what the pods lack of the security profile Restricted, and ProfileField where to
	// ask for it. It is asked only where that counts.
	Unrestricted func() []string
	ProfileField *field.Path
}

// Object is a Subject and the object that it was made of.
type Object struct {
	Kind, Namespace, Name string
	Subject               Subject
}

// Replicas is a number of pods.
type Replicas struct {
	Field *field.Path
	Count int32
}

// Container is one container.
type Container struct {
	// Field is what the container's own fields (image, resources) stand under.
	Field *field.Path
	Name  string
	Image string
	// Limits by resource.
	Limits corev1.ResourceList
	// Security as it takes effect: the container's, and the pod's where it is silent.
	Security Security
}

// Security is what takes effect of a container's and its pod's security contexts.
type Security struct {
	RunAsNonRoot, AllowPrivilegeEscalation, Privileged, ReadOnlyRootFilesystem bool
	// RunAsUser is nil where the image chooses.
	RunAsUser   *int64
	Drops, Adds []corev1.Capability
}

// Volume is an image whose files are mounted.
type Volume struct {
	Field *field.Path
	Name  string
	Image string
}

// Containers are those of a pod, in their order; at tells where the user wrote one.
func Containers(pod *corev1.PodSpec, at func(name string) *field.Path) []Container {
	all := slices.Concat(pod.InitContainers, pod.Containers)
	containers := make([]Container, 0, len(all))
	for i := range all {
		containers = append(containers, Container{
			Field:    at(all[i].Name),
			Name:     all[i].Name,
			Image:    all[i].Image,
			Limits:   all[i].Resources.Limits,
			Security: effective(pod.SecurityContext, all[i].SecurityContext),
		})
	}
	return containers
}

// Volumes are the image volumes of a pod; at is where the user wrote volumes.
func Volumes(pod *corev1.PodSpec, at *field.Path) []Volume {
	var volumes []Volume
	for i, volume := range pod.Volumes {
		if volume.Image != nil {
			volumes = append(volumes, Volume{Field: at.Index(i).Child("image", "reference"), Name: volume.Name, Image: volume.Image.Reference})
		}
	}
	return volumes
}

// effective is what takes effect of two security contexts. Kubernetes' default for privilege
// escalation is to allow it, and a privileged container always has it.
func effective(pod *corev1.PodSecurityContext, container *corev1.SecurityContext) Security {
	pod, container = new(ptr.Deref(pod, corev1.PodSecurityContext{})), new(ptr.Deref(container, corev1.SecurityContext{}))
	security := Security{
		RunAsNonRoot:             ptr.Deref(container.RunAsNonRoot, ptr.Deref(pod.RunAsNonRoot, false)),
		AllowPrivilegeEscalation: ptr.Deref(container.AllowPrivilegeEscalation, true) || ptr.Deref(container.Privileged, false),
		Privileged:               ptr.Deref(container.Privileged, false),
		ReadOnlyRootFilesystem:   ptr.Deref(container.ReadOnlyRootFilesystem, false),
		RunAsUser:                pod.RunAsUser,
	}
	if container.RunAsUser != nil {
		security.RunAsUser = container.RunAsUser
	}
	if container.Capabilities != nil {
		security.Drops, security.Adds = container.Capabilities.Drop, container.Capabilities.Add
	}
	return security
}

// standard evaluates Pod Security Standards as the API server does.
var standard = func() psapolicy.Evaluator {
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		panic(err) //nolint:forbidigo // the checks are a constant of the library: every test would see it
	}
	return evaluator
}()

// Unrestricted is what keeps a pod from meeting the Pod Security Standard "restricted", in the
// standard's own words; nothing if it does. Each container is looked at by itself, so that one
// lapse can be told from another.
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func Unrestricted(meta *metav1.ObjectMeta, pod *corev1.PodSpec) []string {
	level := psa.LevelVersion{Level: psa.LevelRestricted, Version: psa.LatestVersion()}
	var lapses []string
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		alone := *pod
		alone.InitContainers, alone.Containers = nil, []corev1.Container{container}
		for _, result := range standard.EvaluatePod(level, meta, &alone) {
			lapse := result.ForbiddenReason + " (" + result.ForbiddenDetail + ")"
			if !result.Allowed && !slices.Contains(lapses, lapse) {
				lapses = append(lapses, lapse)
			}
		}
	}
	return lapses
}
