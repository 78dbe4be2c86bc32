package configmonitor

import (
	"cmp"
	"slices"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Validate checks a defaulted monitor for what the CRD's schema can't, and for what a client gets around. Each error
// names the field, what was given and what is accepted. An empty list means valid.
func Validate(monitor *configv1.ConfigMonitor) field.ErrorList {
	spec, at := &monitor.Spec, field.NewPath("spec")
	problems := validateSource(spec, at)
	for i, key := range spec.Keys {
		for _, message := range validation.IsConfigMapKey(key) {
			problems = append(problems, field.Invalid(at.Child("keys").Index(i), key, message))
		}
	}
	problems = append(problems, validateSelector(spec, at.Child("podSelector"))...)
	switch spec.Strategy {
	case configv1.StrategyRollout, configv1.StrategyEvict:
	default:
		problems = append(problems, field.NotSupported(at.Child("strategy"), spec.Strategy,
			[]configv1.Strategy{configv1.StrategyRollout, configv1.StrategyEvict}))
	}
	problems = append(problems, rollout.ValidateDuration(spec.Debounce, at.Child("debounce"))...)
	problems = append(problems, rollout.ValidateDuration(spec.Cooldown, at.Child("cooldown"))...)
	problems = append(problems, rollout.ValidateWindow(spec.Window, at.Child("window"))...)
	if limit := spec.MaxParallel; limit != nil && *limit < 1 {
		problems = append(problems, field.Invalid(at.Child("maxParallel"), *limit, "must be at least 1"))
	}
	return problems
}

// validateSource asks for exactly one source, which can exist.
func validateSource(spec *configv1.ConfigMonitorSpec, at *field.Path) field.ErrorList {
	if spec.ConfigMap != "" && spec.LowerConfigMap != "" {
		return field.ErrorList{field.Invalid(at.Child("configmap"), spec.LowerConfigMap,
			"configmap is another spelling of configMap, which is given too ("+spec.ConfigMap+"): give one of them")}
	}
	sources := []struct{ field, name string }{{"configMap", spec.ConfigMap}, {"secret", spec.Secret}}
	var problems field.ErrorList
	given := 0
	for _, source := range sources {
		if source.name == "" {
			continue
		}
		given++
		for _, message := range validation.IsDNS1123Subdomain(source.name) {
			problems = append(problems, field.Invalid(at.Child(source.field), source.name, message))
		}
	}
	switch given {
	case 0:
		problems = append(problems, field.Required(at, "give one of configMap and secret: the name of what is watched"))
	case 2:
		problems = append(problems, field.Invalid(at.Child("secret"), spec.Secret,
			"configMap is given too ("+spec.ConfigMap+"): give one of them, and make a second ConfigMonitor for the other"))
	}
	return problems
}

// validateSelector refuses labels that no pod can have, and a selector that would select every pod.
func validateSelector(spec *configv1.ConfigMonitorSpec, at *field.Path) field.ErrorList {
	if len(spec.PodSelector) == 0 {
		return field.ErrorList{field.Required(at, "nothing is given, which would select every pod of the namespace: give at least one label")}
	}
	problems := metav1validation.ValidateLabels(spec.PodSelector, at)
	// They were found in a map, and the text reaches a condition: it must not change by itself.
	slices.SortFunc(problems, func(a, b *field.Error) int { return cmp.Compare(a.Error(), b.Error()) })
	return problems
}

// Warn tells what in a defaulted monitor is legal and unwise.
func Warn(monitor *configv1.ConfigMonitor) []string {
	spec := &monitor.Spec
	var warnings []string
	switch evicts := spec.Strategy == configv1.StrategyEvict; {
	case evicts && spec.MaxParallel == nil:
		warnings = append(warnings, "spec.strategy: with Evict all selected pods go at once, as far as PodDisruptionBudgets allow: spec.maxParallel limits it")
	case !evicts && spec.AllowUnowned:
		warnings = append(warnings, "spec.allowUnowned has no effect with the strategy Rollout")
	}
	return warnings
}
