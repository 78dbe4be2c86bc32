package webapp

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
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
	return warnings
}
