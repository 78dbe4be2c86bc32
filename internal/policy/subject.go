package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// Subject is what policies check, in an object or in what runs for it. Fields are paths in the
// user's object.
type Subject struct {
	// Labels are the object's labels. What runs has none: only the object itself has them.
	Labels map[string]string
	// Replicas are the numbers of replicas, each checked by itself.
	Replicas []Replicas
	// Containers are the containers of the pods, including init containers and sidecars.
	Containers []Container
	// Volumes are the image volumes.
	Volumes []Volume
	// Unrestricted returns what the pods lack for the security profile Restricted. It is called only
	// if that matters. ProfileField is the field that selects the profile.
	Unrestricted func() []string
	ProfileField *field.Path
}

// Object is a Subject with the object that it is derived from.
type Object struct {
	Kind, Namespace, Name string
	Subject               Subject
}

// Replicas is a number of pods.
type Replicas struct {
	Field *field.Path
	Count int32
	// Part names pods beside those of the object itself, for which it is empty. Several numbers of one
	// part are the possible numbers of the same pods.
	Part string
}

// Container is one container.
type Container struct {
	// Field is the path of the container, which contains its fields (image, resources).
	Field *field.Path
	Name  string
	Image string
	// ImageField and UserField are the fields that select the image and the user, if they are not
	// image and securityContext.runAsUser of Field. An image that another field selects may be "",
	// because it is not known yet: then it is not checked.
	ImageField, UserField *field.Path
	// Limits are the limits by resource.
	Limits corev1.ResourceList
	// IsEphemeral is true for ephemeral containers, which cannot have limits.
	IsEphemeral bool
	// Security is the effective security context: the container's, and the pod's for what it omits.
	Security Security
}

// imageField returns the path of what selects the image.
func (c Container) imageField() *field.Path {
	if c.ImageField != nil {
		return c.ImageField
	}
	return c.Field.Child("image")
}

// securityField returns the path of a field of the security context.
func (c Container) securityField(name string) *field.Path {
	if c.UserField != nil && name == "runAsUser" {
		return c.UserField
	}
	return c.Field.Child("securityContext").Child(name)
}

// Security is the effective combination of a container's and its pod's security contexts.
type Security struct {
	RunAsNonRoot, AllowPrivilegeEscalation, Privileged, ReadOnlyRootFilesystem bool
	// RunAsUser is nil if the image chooses the user.
	RunAsUser   *int64
	Drops, Adds []corev1.Capability
}

// Volume is an image whose files are mounted.
type Volume struct {
	Field *field.Path
	Name  string
	Image string
}

// Containers returns the containers of a pod, in their order; at returns the path of a container.
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

// Volumes returns the image volumes of a pod; at is the path of the volumes.
func Volumes(pod *corev1.PodSpec, at *field.Path) []Volume {
	var volumes []Volume
	for i, volume := range pod.Volumes {
		if volume.Image != nil {
			volumes = append(volumes, Volume{Field: at.Index(i).Child("image", "reference"), Name: volume.Name, Image: volume.Image.Reference})
		}
	}
	return volumes
}

// effective combines two security contexts. Kubernetes allows privilege escalation by default, and
// always for a privileged container.
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

// Unrestricted returns why a pod does not meet the security profile Restricted; nothing if it does.
// It is the Pod Security Standard "restricted", in the standard's own words, and beyond it a
// read-only root file system. Each container is checked by itself, to distinguish violations.
//
// Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/
func Unrestricted(meta *metav1.ObjectMeta, pod *corev1.PodSpec) []string {
	level := psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}
	var lapses []string
	add := func(lapse string) {
		if !slices.Contains(lapses, lapse) {
			lapses = append(lapses, lapse)
		}
	}
	addWritable := func(container corev1.Container) {
		if !effective(nil, container.SecurityContext).ReadOnlyRootFilesystem {
			add(fmt.Sprintf("readOnlyRootFilesystem != true (container %q must set securityContext.readOnlyRootFilesystem=true)", container.Name))
		}
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		alone := *pod
		alone.InitContainers, alone.Containers = nil, []corev1.Container{container}
		for _, result := range standard.EvaluatePod(level, meta, &alone) {
			if !result.Allowed {
				add(result.ForbiddenReason + " (" + result.ForbiddenDetail + ")")
			}
		}
		addWritable(container)
	}
	for _, container := range ephemeral(pod) { // the standard has checked them beside each container
		addWritable(container)
	}
	return lapses
}
