package observe

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
)

// stripper reduces workloads.
type stripper struct {
	// more returns what else is kept of pod templates; nil means nothing.
	more func(*corev1.PodTemplateSpec) corev1.PodTemplateSpec
}

// strip reduces a workload in place, unless it is ours.
func (s stripper) strip(object client.Object) {
	if watch.IsWhole(object) {
		return
	}
	object.SetAnnotations(onlyKept(object.GetAnnotations()))
	object.SetOwnerReferences(onlyController(object))
	object.SetFinalizers(nil)
	object.SetManagedFields(nil)
	switch object := object.(type) {
	case *appsv1.Deployment:
		spec := &object.Spec
		object.Spec = appsv1.DeploymentSpec{
			Replicas: spec.Replicas, Selector: spec.Selector, Paused: spec.Paused,
			Strategy: appsv1.DeploymentStrategy{Type: spec.Strategy.Type}, Template: s.template(&spec.Template),
		}
	case *appsv1.StatefulSet:
		spec := &object.Spec
		object.Spec = appsv1.StatefulSetSpec{
			Replicas: spec.Replicas, Selector: spec.Selector, UpdateStrategy: spec.UpdateStrategy, Template: s.template(&spec.Template),
			PodManagementPolicy: spec.PodManagementPolicy,
		}
	case *appsv1.DaemonSet:
		spec := &object.Spec
		object.Spec = appsv1.DaemonSetSpec{
			Selector: spec.Selector, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: spec.UpdateStrategy.Type},
			Template: s.template(&spec.Template),
		}
	}
}

// template keeps, of a pod template, its labels, our annotations, the references to ConfigMaps and
// Secrets, and what s.more returns of annotations and spec.
func (s stripper) template(template *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	stripped := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: onlyKept(template.Annotations)},
		Spec: corev1.PodSpec{
			InitContainers: stripContainers(template.Spec.InitContainers),
			Containers:     stripContainers(template.Spec.Containers),
		},
	}
	for _, volume := range template.Spec.Volumes {
		source := corev1.VolumeSource{ConfigMap: volume.ConfigMap, Secret: volume.Secret, Projected: stripProjected(volume.Projected)}
		if source != (corev1.VolumeSource{}) {
			stripped.Spec.Volumes = append(stripped.Spec.Volumes, corev1.Volume{Name: volume.Name, VolumeSource: source})
		}
	}
	if s.more != nil {
		more := s.more(template)
		if len(more.Annotations) > 0 {
			stripped.Annotations = naming.Merged(stripped.Annotations, more.Annotations)
		}
		add(&stripped.Spec, more.Spec)
	}
	return stripped
}

// add adds what more returns. Its containers replace the others, because they have all that
// restarts need. Of init containers and volumes it has only some, which are complete.
func add(spec *corev1.PodSpec, more corev1.PodSpec) {
	spec.OS, spec.NodeSelector, spec.Resources, spec.Containers = more.OS, more.NodeSelector, more.Resources, more.Containers
	for _, container := range more.InitContainers {
		at := slices.IndexFunc(spec.InitContainers, func(one corev1.Container) bool { return one.Name == container.Name })
		if at < 0 {
			spec.InitContainers = append(spec.InitContainers, container)
		} else {
			spec.InitContainers[at] = container
		}
	}
	spec.Volumes = append(spec.Volumes, more.Volumes...)
}

// stripProjected returns nil if a volume contains no ConfigMap or Secret.
func stripProjected(volume *corev1.ProjectedVolumeSource) *corev1.ProjectedVolumeSource {
	if volume == nil {
		return nil
	}
	var kept []corev1.VolumeProjection
	for _, source := range volume.Sources {
		if source.ConfigMap != nil || source.Secret != nil {
			kept = append(kept, corev1.VolumeProjection{ConfigMap: source.ConfigMap, Secret: source.Secret})
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return &corev1.ProjectedVolumeSource{Sources: kept}
}

func stripContainers(containers []corev1.Container) []corev1.Container {
	var stripped []corev1.Container
	for i := range containers {
		kept := corev1.Container{Name: containers[i].Name, EnvFrom: containers[i].EnvFrom}
		for _, variable := range containers[i].Env {
			from := variable.ValueFrom
			if from != nil && (from.ConfigMapKeyRef != nil || from.SecretKeyRef != nil) {
				kept.Env = append(kept.Env, corev1.EnvVar{Name: variable.Name, ValueFrom: from})
			}
		}
		stripped = append(stripped, kept)
	}
	return stripped
}
