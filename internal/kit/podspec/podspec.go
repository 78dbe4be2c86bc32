// Package podspec refuses what Kubernetes would refuse in a pod, where that is a plausible mistake
// in a field of one of its own types, for which our schemas can't have rules: the user then reads
// it at once, with the path in our object. It is pure.
package podspec

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckResources refuses amounts below 0, and requests above the limit. path is that of the
// resources.
func CheckResources(resources corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(resources.Limits)) {
		if limit := resources.Limits[name]; limit.Sign() < 0 {
			problems = append(problems, field.Invalid(path.Child("limits", string(name)), limit.String(), "must be 0 or more"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources.Requests)) {
		request, at := resources.Requests[name], path.Child("requests", string(name))
		limit, limited := resources.Limits[name]
		switch {
		case request.Sign() < 0:
			problems = append(problems, field.Invalid(at, request.String(), "must be 0 or more"))
		case limited && request.Cmp(limit) > 0:
			problems = append(problems, field.Invalid(at, request.String(),
				fmt.Sprintf("must be at most the limit, %s (%s)", limit.String(), path.Child("limits", string(name)))))
		}
	}
	return problems
}

var (
	effects   = []corev1.TaintEffect{"", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	operators = []corev1.TolerationOperator{"", corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt,
		corev1.TolerationOpGt}
)

// CheckTolerations refuses unknown effects and operators, and what does not fit the operator.
func CheckTolerations(tolerations []corev1.Toleration, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, toleration := range tolerations {
		at := path.Index(i)
		if !slices.Contains(effects, toleration.Effect) {
			problems = append(problems, field.NotSupported(at.Child("effect"), toleration.Effect, effects[1:]))
		}
		isExists := toleration.Operator == corev1.TolerationOpExists
		switch {
		case !slices.Contains(operators, toleration.Operator):
			problems = append(problems, field.NotSupported(at.Child("operator"), toleration.Operator, operators[1:3]))
		case isExists && toleration.Value != "":
			problems = append(problems, field.Invalid(at.Child("value"), toleration.Value,
				"must be empty with the operator Exists: remove it, or use the operator Equal"))
		case !isExists && toleration.Key == "":
			problems = append(problems, field.Required(at.Child("key"), "is the key of the taint; only the operator Exists needs none"))
		}
		if toleration.TolerationSeconds != nil && toleration.Effect != corev1.TaintEffectNoExecute {
			problems = append(problems, field.Invalid(at.Child("effect"), toleration.Effect, "must be NoExecute with tolerationSeconds"))
		}
	}
	return problems
}

// CheckNodeSelector requires keys and values that labels of nodes can have.
func CheckNodeSelector(labels map[string]string, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(validation.IsQualifiedName(key)) > 0 {
			problems = append(problems, field.Invalid(path.Key(key), key, "must be a label key: [domain/]name, the name of at most 63 "+
				"letters, digits, '-', '_' and '.'"))
		}
		if len(validation.IsValidLabelValue(labels[key])) > 0 {
			problems = append(problems, field.Invalid(path.Key(key), labels[key],
				"must be a label value: letters, digits, '-', '_' and '.', with a letter or digit at both ends"))
		}
	}
	return problems
}

// CheckName requires the name of an object of that kind, unless it is empty.
func CheckName(name, kind string, path *field.Path) field.ErrorList {
	if name == "" || len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, fmt.Sprintf("must be the name of a %s: lower-case letters, digits, '-' and '.'", kind))}
}
