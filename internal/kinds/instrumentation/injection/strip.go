package injection

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// sizeKey is where a stripped template has the size of the annotations that it had before, without
// the record. No object in the cluster has it: the API server accepts no key with a space.
const sizeKey = "size of annotations"

// Strip reduces a pod template to what Compose reads. It commutes with Compose: composing changes a
// stripped template if and only if it changes the whole one. Values of variables are dropped,
// except for the names that Compose changes. Of the annotations it returns their size only: what of
// them is kept, is kept by others. The result shares memory with the template.
func Strip(template *corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	values := namesOfValues(template)
	stripped := corev1.PodSpec{OS: template.Spec.OS, Resources: template.Spec.Resources}
	if os, isGiven := template.Spec.NodeSelector[corev1.LabelOSStable]; isGiven {
		stripped.NodeSelector = map[string]string{corev1.LabelOSStable: os}
	}
	for i := range template.Spec.InitContainers {
		if isOurs(template.Spec.InitContainers[i].Name) {
			stripped.InitContainers = append(stripped.InitContainers, template.Spec.InitContainers[i])
		}
	}
	for i := range template.Spec.Volumes {
		if isOurs(template.Spec.Volumes[i].Name) {
			stripped.Volumes = append(stripped.Volumes, template.Spec.Volumes[i])
		}
	}
	for i := range template.Spec.Containers {
		stripped.Containers = append(stripped.Containers, stripContainer(&template.Spec.Containers[i], values))
	}
	var annotations map[string]string
	if size := sizeOfOthers(template.Annotations); size > 0 {
		annotations = map[string]string{sizeKey: strconv.Itoa(size)}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: stripped}
}

// sizeOfOthers returns the size of all annotations but the record, as the API server counts it:
// also of a template that was stripped.
func sizeOfOthers(annotations map[string]string) int {
	if noted, isStripped := annotations[sizeKey]; isStripped {
		size, _ := strconv.Atoi(noted) // Strip has written it.
		return size
	}
	size := 0
	for key, value := range annotations {
		if key != instrv1.AnnotationInjected {
			size += len(key) + len(value)
		}
	}
	return size
}

// isOurs reports whether a volume or init container has a name of the injected ones.
func isOurs(name string) bool { return strings.HasPrefix(name, partName("")) }

// namesOfValues returns the variables whose values matter: the loading variables of all languages,
// our helpers, and what is injected.
func namesOfValues(template *corev1.PodTemplateSpec) map[string]bool {
	names := map[string]bool{}
	for _, name := range allLoaderNames {
		names[name] = true
	}
	for _, injection := range Injected(template.Annotations) {
		for _, part := range injection.Parts {
			for _, variable := range part.Env {
				names[variable.Name] = true
			}
		}
	}
	return names
}

func stripContainer(container *corev1.Container, values map[string]bool) corev1.Container {
	stripped := corev1.Container{Name: container.Name, EnvFrom: container.EnvFrom, VolumeDevices: container.VolumeDevices}
	for _, variable := range container.Env {
		if !values[variable.Name] && !strings.HasPrefix(variable.Name, HelperPrefix) {
			variable.Value = ""
		}
		stripped.Env = append(stripped.Env, variable)
	}
	for _, mount := range container.VolumeMounts {
		if !isOurs(mount.Name) {
			mount = corev1.VolumeMount{Name: mount.Name, MountPath: mount.MountPath}
		}
		stripped.VolumeMounts = append(stripped.VolumeMounts, mount)
	}
	if own := container.SecurityContext; own != nil {
		kept := corev1.SecurityContext{RunAsUser: own.RunAsUser, RunAsGroup: own.RunAsGroup, RunAsNonRoot: own.RunAsNonRoot}
		if kept != (corev1.SecurityContext{}) {
			stripped.SecurityContext = &kept
		}
	}
	return stripped
}
