package injection

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Differs names the first thing of the Instrumentation with an id that differs between two
// templates; it returns "" if nothing does. Anything else in the templates is ignored. had is what
// the record of the first one says about it, or nil.
func Differs(live, composed *corev1.PodTemplateSpec, had *Injection, id string) string {
	wanted := had
	if live.Annotations[instrv1.AnnotationInjected] != composed.Annotations[instrv1.AnnotationInjected] {
		wanted = InjectedBy(composed.Annotations, id)
	}
	if had == nil && wanted == nil {
		return ""
	}
	if had == nil || wanted == nil || had != wanted && digest(had) != digest(wanted) {
		return "the record"
	}
	name := partName(id)
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
