package policy

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// Limits of a namespaceSelector.
const (
	maxRequirements = 16
	maxValues       = 32
)

var operators = []metav1.LabelSelectorOperator{
	metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
}

// ValidateSelector checks a namespaceSelector. What has too many parts is not read further.
func ValidateSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	if selector == nil {
		return nil
	}
	var problems field.ErrorList
	if n := len(selector.MatchLabels); n > maxRequirements {
		problems = append(problems, field.TooMany(at.Child("matchLabels"), n, maxRequirements))
	}
	if n := len(selector.MatchExpressions); n > maxRequirements {
		return append(problems, field.TooMany(at.Child("matchExpressions"), n, maxRequirements))
	}
	for i, requirement := range selector.MatchExpressions {
		if n := len(requirement.Values); n > maxValues {
			problems = append(problems, field.TooMany(at.Child("matchExpressions").Index(i).Child("values"), n, maxValues))
		}
		if !slices.Contains(operators, requirement.Operator) {
			problems = append(problems, field.NotSupported(at.Child("matchExpressions").Index(i).Child("operator"),
				metav1.LabelSelectorOperator(conditions.Short(string(requirement.Operator))), operators))
		}
	}
	if len(problems) > 0 {
		return problems
	}
	return metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, at)
}

// selects reports whether a selector selects labels; nil selects all. It parses nothing, and reads
// each part once, because it is called for each namespace. A requirement with an unknown operator,
// which validation refuses, selects all: a typo must not lift a rule.
func selects(selector *metav1.LabelSelector, labels map[string]string) bool {
	if selector == nil {
		return true
	}
	for key, value := range selector.MatchLabels {
		if given, has := labels[key]; !has || given != value {
			return false
		}
	}
	for _, requirement := range selector.MatchExpressions {
		given, has := labels[requirement.Key]
		isOne := has && slices.Contains(requirement.Values, given)
		switch requirement.Operator {
		case metav1.LabelSelectorOpIn:
			has = isOne
		case metav1.LabelSelectorOpNotIn:
			has = !isOne
		case metav1.LabelSelectorOpDoesNotExist:
			has = !has
		case metav1.LabelSelectorOpExists:
		default:
			has = true
		}
		if !has {
			return false
		}
	}
	return true
}
