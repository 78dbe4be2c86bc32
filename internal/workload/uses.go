package workload

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Use is how the pods of a workload refer to a source.
type Use struct {
	// Keys are the keys that they refer to; nil means all.
	Keys []string
	// Required means that no pod can start without the source.
	Required bool
}

// Uses returns the ConfigMaps and Secrets that the pods of a template refer to, in variables and
// volumes of any container. Image pull secrets and tokens are not configuration.
func Uses(pod *corev1.PodSpec) map[SourceRef]Use {
	found := uses{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		found.ofContainer(&container)
	}
	for i := range pod.Volumes {
		found.ofVolume(&pod.Volumes[i])
	}
	return found
}

type uses map[SourceRef]Use

// add records a use of some keys; none means all.
func (u uses) add(ref SourceRef, optional *bool, keys ...string) {
	if ref.Name == "" {
		return
	}
	required := optional == nil || !*optional
	before, known := u[ref]
	use := Use{Required: before.Required || required}
	if len(keys) > 0 && (!known || before.Keys != nil) {
		set := map[string]bool{}
		for _, key := range slices.Concat(before.Keys, keys) {
			set[key] = true
		}
		use.Keys = slices.Sorted(maps.Keys(set))
	}
	u[ref] = use
}

func (u uses) ofContainer(container *corev1.Container) {
	for _, variable := range container.Env {
		from := variable.ValueFrom
		if from == nil {
			continue
		}
		if from.ConfigMapKeyRef != nil {
			u.add(SourceRef{ConfigMap, from.ConfigMapKeyRef.Name}, from.ConfigMapKeyRef.Optional, from.ConfigMapKeyRef.Key)
		}
		if from.SecretKeyRef != nil {
			u.add(SourceRef{Secret, from.SecretKeyRef.Name}, from.SecretKeyRef.Optional, from.SecretKeyRef.Key)
		}
	}
	for _, from := range container.EnvFrom {
		if from.ConfigMapRef != nil {
			u.add(SourceRef{ConfigMap, from.ConfigMapRef.Name}, from.ConfigMapRef.Optional)
		}
		if from.SecretRef != nil {
			u.add(SourceRef{Secret, from.SecretRef.Name}, from.SecretRef.Optional)
		}
	}
}

func (u uses) ofVolume(volume *corev1.Volume) {
	if from := volume.ConfigMap; from != nil {
		u.add(SourceRef{ConfigMap, from.Name}, from.Optional, itemKeys(from.Items)...)
	}
	if from := volume.Secret; from != nil {
		u.add(SourceRef{Secret, from.SecretName}, from.Optional, itemKeys(from.Items)...)
	}
	if volume.Projected == nil {
		return
	}
	for _, source := range volume.Projected.Sources {
		if from := source.ConfigMap; from != nil {
			u.add(SourceRef{ConfigMap, from.Name}, from.Optional, itemKeys(from.Items)...)
		}
		if from := source.Secret; from != nil {
			u.add(SourceRef{Secret, from.Name}, from.Optional, itemKeys(from.Items)...)
		}
	}
}

func itemKeys(items []corev1.KeyToPath) []string {
	var keys []string
	for _, item := range items {
		keys = append(keys, item.Key)
	}
	return keys
}
