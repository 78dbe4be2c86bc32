package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// differs names the first thing of one Instrumentation that differs between two templates; it
// returns "" if nothing does. Anything else in the templates is ignored. had and wanted are the
// Instrumentation's records in the two, or nil.
func differs(live, composed *corev1.PodTemplateSpec, had, wanted *Injection) string {
	if had == nil && wanted == nil {
		return ""
	}
	if had == nil || wanted == nil || had != wanted && digest(had) != digest(wanted) {
		return "the record"
	}
	name := partName(wanted.ID)
	same := equality.Semantic.DeepEqual
	isVolume := func(one corev1.Volume) bool { return one.Name == name }
	isInit := func(one corev1.Container) bool { return one.Name == name }
	switch {
	case !same(only(live.Spec.Volumes, isVolume), only(composed.Spec.Volumes, isVolume)):
		return "the volume " + name
	case !same(only(live.Spec.InitContainers, isInit), only(composed.Spec.InitContainers, isInit)):
		return "the init container " + name
	}
	for i := range wanted.Parts {
		if !wanted.Parts[i].isSameIn(live, composed, name) {
			return "the variables or mounts of container " + wanted.Parts[i].Name
		}
	}
	return ""
}

// isSameIn reports whether two templates have the same injected into one container.
func (p *Part) isSameIn(live, composed *corev1.PodTemplateSpec, volume string) bool {
	a, b := containerOf(live, p.Name), containerOf(composed, p.Name)
	if a == nil || b == nil {
		return a == b
	}
	isMount := func(one corev1.VolumeMount) bool { return one.Name == volume }
	names := map[string]bool{}
	for i := range p.Env {
		names[p.Env[i].Name] = true
	}
	for i := range p.Load {
		names[p.Load[i].Name], names[p.Load[i].helper()] = true, true
	}
	isVariable := func(one corev1.EnvVar) bool { return names[one.Name] }
	return equality.Semantic.DeepEqual(only(a.VolumeMounts, isMount), only(b.VolumeMounts, isMount)) &&
		equality.Semantic.DeepEqual(only(a.Env, isVariable), only(b.Env, isVariable))
}

func only[T any](list []T, isSo func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(list), func(one T) bool { return !isSo(one) })
}
