package configmonitor

import (
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/rollout"
)

// Validate checks a defaulted monitor for what the CRD's schema can't check or a client may bypass.
// Each error names the field, its value and what is accepted. An empty list means valid.
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

// validateSource requires exactly one source, with a valid name.
func validateSource(spec *configv1.ConfigMonitorSpec, at *field.Path) field.ErrorList {
	if spec.ConfigMap != "" && spec.LowerConfigMap != "" {
		return field.ErrorList{field.Invalid(at.Child("configmap"), spec.LowerConfigMap,
			"configmap is another spelling of configMap, which is set too ("+spec.ConfigMap+"): set only one of them")}
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
		problems = append(problems, field.Required(at, "must set configMap or secret to the name of the object to watch"))
	case 2:
		problems = append(problems, field.Invalid(at.Child("secret"), spec.Secret,
			"may not be set together with configMap ("+spec.ConfigMap+"): create a second ConfigMonitor for one of them"))
	}
	return problems
}

// validateSelector refuses invalid labels, and a selector that would select every pod.
func validateSelector(spec *configv1.ConfigMonitorSpec, at *field.Path) field.ErrorList {
	if len(spec.PodSelector) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one label: an empty selector would select every pod of the namespace")}
	}
	problems := metav1validation.ValidateLabels(spec.PodSelector, at)
	return conditions.InOrder(problems)
}

// Warn warns about what is legal but unwise in a defaulted monitor.
func Warn(monitor *configv1.ConfigMonitor) []string {
	spec := &monitor.Spec
	var warnings []string
	switch evicts := spec.Strategy == configv1.StrategyEvict; {
	case evicts && spec.MaxParallel == nil:
		warnings = append(warnings, "spec.strategy: Evict evicts all selected pods at once, as far as PodDisruptionBudgets allow: set "+
			"spec.maxParallel to limit that")
	case !evicts && spec.AllowUnowned:
		warnings = append(warnings, "spec.allowUnowned has no effect with the strategy Rollout")
	}
	return warnings
}
