package webapp

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/image"
)

// Warn tells what in a defaulted, valid app is legal and unwise.
func Warn(app *msappsv1.WebApp) []string {
	spec, at := &app.Spec, field.NewPath("spec")
	var warnings []string
	floating := func(reference string, at *field.Path) {
		if parsed, err := image.Parse(reference); err == nil && parsed.IsFloating() {
			warnings = append(warnings, fmt.Sprintf("%s: %s may become another image at any time: give a tag that stays, or a digest", at,
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
		warnings = append(warnings, fmt.Sprintf("%s: Recreate stops all %d replicas at once at each change", at.Child("strategy", "type"),
			*spec.Replicas))
	}
	if spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 0 {
		warnings = append(warnings, fmt.Sprintf("%s: 0 kills the application without a chance to end its requests",
			at.Child("terminationGracePeriodSeconds")))
	}
	return warnings
}
