package webapp

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Validate checks, on a defaulted app, what the CRD's schema can't check or a client of an older
// version may bypass. Each error names the field, its value and what is accepted. An empty list
// means valid.
func Validate(app *msappsv1.WebApp) field.ErrorList {
	spec := field.NewPath("spec")
	problems := validateStash(app)
	problems = append(problems, validateForm(&app.Spec, spec)...)
	problems = append(problems, validateImages(&app.Spec, spec)...)
	problems = append(problems, validateStrategy(app.Spec.Strategy, spec.Child("strategy"))...)
	problems = append(problems, validateAutoscaling(&app.Spec, spec)...)
	problems = append(problems, validateMounts(&app.Spec, spec)...)
	problems = append(problems, validateInitContainers(&app.Spec, spec)...)
	problems = append(problems, validatePod(&app.Spec, spec)...)
	if app.Spec.SecurityProfile == msappsv1.SecurityRestricted {
		problems = append(problems, validateRestricted(&app.Spec, spec)...)
	}
	return problems
}

// validateStash refuses the annotation with the rest of a v1 spec, which belongs to v1beta1: a v1
// object has it only if it could not be read.
func validateStash(app *msappsv1.WebApp) field.ErrorList {
	text, given := app.Annotations[api.AnnotationV1Spec]
	if !given {
		return nil
	}
	reason := "belongs to the v1beta1 form only"
	if _, err := decodeStash(text); err != nil {
		reason = err.Error()
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(api.AnnotationV1Spec),
		reason+": leave it unchanged, or remove it")}
}

func validateImages(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	check := func(reference string, at *field.Path) {
		if _, err := image.Parse(reference); err != nil {
			problems = append(problems, field.Invalid(at, reference, err.Error()))
		}
	}
	check(spec.Image, path.Child("image"))
	for i, container := range spec.InitContainers {
		check(container.Image, path.Child("initContainers").Index(i).Child("image"))
	}
	for i, container := range spec.Sidecars {
		check(container.Image, path.Child("sidecars").Index(i).Child("image"))
	}
	return problems
}

// validateStrategy refuses a rolling update that could neither add nor remove a pod.
func validateStrategy(strategy msappsv1.Strategy, path *field.Path) field.ErrorList {
	surge, unavailable := strategy.MaxSurge, strategy.MaxUnavailable
	if surge == nil || !isZero(surge.String()) {
		return nil
	}
	if unavailable != nil && !isZero(unavailable.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("maxSurge"), surge.String(),
		"must be greater than 0 if maxUnavailable is 0 (its default): the rollout could neither add nor remove a pod")}
}

func isZero(count string) bool { return count == "0" || count == "0%" }

// validateAutoscaling requires the request that a target in percent refers to: without it the
// autoscaler never acts.
func validateAutoscaling(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	if spec.Autoscaling == nil {
		return nil
	}
	var problems field.ErrorList
	need := func(target *int32, name corev1.ResourceName) {
		_, requested := spec.Resources.Requests[name]
		_, limited := spec.Resources.Limits[name]
		if target != nil && !requested && !limited {
			problems = append(problems, field.Required(path.Child("resources", "requests").Key(string(name)),
				fmt.Sprintf("spec.autoscaling.%s is a percentage of this request: set the request, or the limit, which then is the request too", name)))
		}
	}
	need(spec.Autoscaling.CPU, corev1.ResourceCPU)
	need(spec.Autoscaling.Memory, corev1.ResourceMemory)
	return problems
}

// validateInitContainers refuses probes of containers that run to completion, as Kubernetes does.
func validateInitContainers(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, container := range spec.InitContainers {
		if container.StartupProbe != nil {
			problems = append(problems, field.Forbidden(path.Child("initContainers").Index(i).Child("startupProbe"),
				"an init container runs to completion: only sidecars may have a startup probe"))
		}
	}
	return problems
}

// validateMounts refuses mounts of volumes that are not declared.
func validateMounts(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	declared := map[string]bool{}
	for _, volume := range spec.Volumes {
		declared[volume.Name] = true
	}
	var problems field.ErrorList
	check := func(mounts []corev1.VolumeMount, at *field.Path) {
		for i, mount := range mounts {
			if !declared[mount.Name] {
				problems = append(problems, field.NotFound(at.Index(i).Child("name"), mount.Name))
			}
		}
	}
	check(spec.VolumeMounts, path.Child("volumeMounts"))
	for i, container := range spec.InitContainers {
		check(container.VolumeMounts, path.Child("initContainers").Index(i).Child("volumeMounts"))
	}
	for i, container := range spec.Sidecars {
		check(container.VolumeMounts, path.Child("sidecars").Index(i).Child("volumeMounts"))
	}
	if declared[tmpVolume] && needsTmp(spec) {
		problems = append(problems, field.Invalid(path.Child("volumes"), tmpVolume,
			"must have another name: with a read-only root file system this is the empty directory at /tmp"))
	}
	return problems
}
