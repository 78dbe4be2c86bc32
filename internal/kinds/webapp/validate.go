package webapp

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Validate checks, on a defaulted app, what the CRD's schema can't, and what a client of an older
// version gets around. Each error names the
// field, what was given and what is accepted. An empty list means valid.
func Validate(app *msappsv1.WebApp) field.ErrorList {
	spec := field.NewPath("spec")
	problems := validateStash(app)
	problems = append(problems, validateForm(&app.Spec, spec)...)
	problems = append(problems, validateImages(&app.Spec, spec)...)
	problems = append(problems, validateStrategy(app.Spec.Strategy, spec.Child("strategy"))...)
	problems = append(problems, validateAutoscaling(&app.Spec, spec)...)
	problems = append(problems, validateMounts(&app.Spec, spec)...)
	problems = append(problems, validateInitContainers(&app.Spec, spec)...)
	if app.Spec.SecurityProfile == msappsv1.SecurityRestricted {
		problems = append(problems, validateRestricted(&app.Spec, spec)...)
	}
	return problems
}

// validateStash refuses the annotation that carries the rest of a v1 spec in the older form: on this one
// it stands only if it could not be read.
func validateStash(app *msappsv1.WebApp) field.ErrorList {
	text, given := app.Annotations[api.AnnotationV1Spec]
	if !given {
		return nil
	}
	reason := "it belongs to the v1beta1 form alone"
	if _, err := decodeStash(text); err != nil {
		reason = err.Error()
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata", "annotations").Key(api.AnnotationV1Spec),
		reason+": leave it as it was read, or out")}
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

// validateStrategy refuses a rolling update that could not move: neither one more nor one fewer.
func validateStrategy(strategy msappsv1.Strategy, path *field.Path) field.ErrorList {
	surge, unavailable := strategy.MaxSurge, strategy.MaxUnavailable
	if surge == nil || !isZero(surge.String()) {
		return nil
	}
	if unavailable != nil && !isZero(unavailable.String()) {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("maxSurge"), surge.String(),
		"must be above 0 where maxUnavailable is 0 (its default): the rollout could neither add a pod nor take one away")}
}

func isZero(count string) bool { return count == "0" || count == "0%" }

// validateAutoscaling asks for the request that a target in percent refers to: without
// it the autoscaler never acts.
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
				fmt.Sprintf("spec.autoscaling.%s is a percentage of this request", name)))
		}
	}
	need(spec.Autoscaling.CPU, corev1.ResourceCPU)
	need(spec.Autoscaling.Memory, corev1.ResourceMemory)
	return problems
}

// validateInitContainers refuses probes of what runs to completion, as Kubernetes does.
func validateInitContainers(spec *msappsv1.WebAppSpec, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, container := range spec.InitContainers {
		if container.StartupProbe != nil {
			problems = append(problems, field.Forbidden(path.Child("initContainers").Index(i).Child("startupProbe"),
				"an init container runs to completion: only side-cars have a startup probe"))
		}
	}
	return problems
}

// validateMounts finds mounts of volumes that are not declared.
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
			"the name is taken: with a read-only root file system it is the empty directory at /tmp"))
	}
	return problems
}
