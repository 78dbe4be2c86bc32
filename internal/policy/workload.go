package policy

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Workload is a workload of another owner, or a pod.
type Workload struct {
	// Labels are those of the object.
	Labels map[string]string
	// Template has the metadata and the spec of its pods; At is the path of that spec.
	Template *corev1.PodTemplateSpec
	At       *field.Path
	// Replicas are spec.replicas, or nil if the kind has none.
	Replicas *int32
}

// Subject returns what policies check in a workload. The paths name containers and volumes by name,
// and ephemeral containers are checked like all others, except for limits, which they cannot have.
func (w Workload) Subject() Subject {
	subject := Subject{
		Labels:       w.Labels,
		Volumes:      Volumes(&w.Template.Spec, w.At.Child("volumes")),
		ProfileField: w.At.Child("securityContext"),
		Unrestricted: func() []string { return Unrestricted(&w.Template.ObjectMeta, &w.Template.Spec) },
	}
	if w.Replicas != nil {
		subject.Replicas = []Replicas{{Field: field.NewPath("spec", "replicas"), Count: *w.Replicas}}
	}
	for i, volume := range subject.Volumes {
		subject.Volumes[i].Field = w.At.Child("volumes").Key(volume.Name).Child("image", "reference")
	}
	for _, list := range []struct {
		name       string
		containers []corev1.Container
		ephemeral  bool
	}{
		{"initContainers", w.Template.Spec.InitContainers, false},
		{"containers", w.Template.Spec.Containers, false},
		{"ephemeralContainers", ephemeral(&w.Template.Spec), true},
	} {
		pod := &corev1.PodSpec{SecurityContext: w.Template.Spec.SecurityContext, Containers: list.containers}
		containers := Containers(pod, func(name string) *field.Path { return w.At.Child(list.name).Key(name) })
		for i := range containers {
			containers[i].IsEphemeral = list.ephemeral
		}
		subject.Containers = append(subject.Containers, containers...)
	}
	return subject
}

func ephemeral(pod *corev1.PodSpec) []corev1.Container {
	containers := make([]corev1.Container, len(pod.EphemeralContainers))
	for i := range pod.EphemeralContainers {
		containers[i] = corev1.Container(pod.EphemeralContainers[i].EphemeralContainerCommon)
	}
	return containers
}
