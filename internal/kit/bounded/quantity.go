package bounded

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limits of quantities. The largest that Kubernetes keeps is 2^63, some 19 digits, and the smallest
// is 1n, 9 digits behind the point.
const (
	// MaxQuantity is the length of a quantity in bytes.
	MaxQuantity = 64
	// MaxExponent is the largest exponent of ten, and -MaxExponent the smallest.
	// resource.ParseQuantity computes all digits: it needs 11 s for 1e-30000000.
	MaxExponent = 30
)

var quantity = reflect.TypeFor[resource.Quantity]()

// QuantityProblem returns what is wrong with a text that resource.ParseQuantity may take long to
// parse: that has more than MaxQuantity bytes, or an exponent beyond MaxExponent; empty otherwise.
// It does not say whether the text is a quantity.
func QuantityProblem(text string) string {
	text = strings.TrimSpace(text)
	if len(text) > MaxQuantity {
		return fmt.Sprintf("must be a quantity, for example 500m or 64Mi, written in at most %d characters", MaxQuantity)
	}
	mark := strings.LastIndexAny(text, "eE")
	if mark < 0 {
		return ""
	}
	// The parser refuses at once what is not a number, such as nothing: 5E is five exa.
	exponent := text[mark+1:]
	parsed, err := strconv.Atoi(exponent)
	isNumber := exponent != "" && strings.Trim(exponent, "+-0123456789") == ""
	if !isNumber || err == nil && parsed >= -MaxExponent && parsed <= MaxExponent {
		return ""
	}
	return fmt.Sprintf("must be a quantity with an exponent between -%d and %d, for example 500m or 64Mi", MaxExponent, MaxExponent)
}

// checkQuantity returns the problem with the text of a field, if the field's type is
// resource.Quantity; nil for other types.
func checkQuantity(of reflect.Type, text string) error {
	if of != quantity {
		return nil
	}
	if problem := QuantityProblem(text); problem != "" {
		return &Error{Problem: fmt.Sprintf("Invalid value: %q: %s", text[:min(len(text), MaxQuantity)], problem)}
	}
	return nil
}
