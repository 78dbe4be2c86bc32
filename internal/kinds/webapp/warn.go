package webapp

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Warn warns about what is legal but unwise in a defaulted, valid app.
func Warn(app *msappsv1.WebApp) []string {
	spec, at := &app.Spec, field.NewPath("spec")
	var warnings []string
	floating := func(reference string, at *field.Path) {
		if parsed, err := image.Parse(reference); err == nil && parsed.IsFloating() {
			warnings = append(warnings, fmt.Sprintf("%s: %s may refer to another image at any time: use an immutable tag, or a digest", at,
				reference))
		}
	}
	floating(spec.Image, at.Child("image"))
	for i, container := range spec.InitContainers {
		floating(container.Image, at.Child("initContainers").Index(i).Child("image"))
	}
	for i, container := range spec.Sidecars {
		floating(container.Image, at.Child("sidecars").Index(i).Child("image"))
	}
	if spec.Strategy.Type == msappsv1.StrategyRecreate && spec.Replicas != nil && *spec.Replicas > 1 {
		warnings = append(warnings, fmt.Sprintf("%s: Recreate stops all %d replicas at once on every change", at.Child("strategy", "type"),
			*spec.Replicas))
	}
	if spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 0 {
		warnings = append(warnings, fmt.Sprintf("%s: 0 kills the application without time to complete its requests",
			at.Child("terminationGracePeriodSeconds")))
	}
	return append(warnings, warnOfValues(spec.Env, spec.Resources, at)...)
}

// smallestMemory is less than any program needs: a memory limit below it is a wrong unit, such as
// 512m for 512Mi.
var smallestMemory = resource.MustParse("1Mi")

// warnOfValues warns about names and quantities of the application container that Kubernetes
// accepts, and that are most likely mistakes.
func warnOfValues(env []corev1.EnvVar, resources corev1.ResourceRequirements, at *field.Path) []string {
	var warnings []string
	for i, variable := range env {
		if len(validation.IsEnvVarName(variable.Name)) > 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %q can't be read by shells and many programs: use letters, digits and _",
				at.Child("env").Index(i).Child("name"), conditions.Short(variable.Name)))
		}
	}
	for _, given := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", resources.Requests}, {"limits", resources.Limits}} {
		if memory, found := given.list[corev1.ResourceMemory]; found && !memory.IsZero() && memory.Cmp(smallestMemory) < 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s is %d bytes: use for example 64Mi",
				at.Child("resources", given.name, "memory"), memory.String(), memory.Value()))
		}
	}
	return warnings
}
