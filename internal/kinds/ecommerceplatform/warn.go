package ecommerceplatform

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// maxChanges limits how many changed fields of a component a warning has.
const maxChanges = 8

// WarnOfChange returns warnings of what a change of the environment does: everything that follows
// from it, by component. before is the platform as it is stored. existing is its AppStack; nil if
// there is none.
func WarnOfChange(platform, before *platformv1.EcommercePlatform, existing *platformv1.AppStack, installation Installation) []string {
	from, _ := installation.Environments.Parse(before.Spec.Environment)
	to, _ := installation.Environments.Parse(platform.Spec.Environment)
	if from == to {
		return nil
	}
	warnings := []string{fmt.Sprintf("spec.environment: %s instead of %s changes all parts, and replaces their pods", to, from)}
	was, will := Compile(before, existing, installation), Compile(platform, existing, installation)
	for _, c := range will.Spec.Components {
		var changes []string
		if former := componentOf(was, c.Name); former != nil {
			compare("", valuesOf(former), valuesOf(&c), &changes)
		}
		if len(changes) > 0 {
			warnings = append(warnings, fmt.Sprintf("component %s: %s", c.Name, conditions.First(maxChanges, changes, ", ")))
		}
	}
	if a, b := table[from].instances, table[to].instances; b < a {
		warnings = append(warnings, fmt.Sprintf("component %s: the volumes of the instances that are removed stay", databaseName))
	}
	return warnings
}

// valuesOf returns the spec of a component as JSON values.
func valuesOf(c *platformv1.Component) map[string]any {
	values := map[string]any{}
	if bounded.Unmarshal(c.Spec.Raw, maxFormer, &values) != nil {
		return nil
	}
	return values
}

// compare appends the fields that differ, with both values.
func compare(path string, before, after map[string]any, changes *[]string) {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		inner, isObject := before[key].(map[string]any)
		outer, areObjects := after[key].(map[string]any)
		if isObject && areObjects {
			compare(path+key+".", inner, outer, changes)
			continue
		}
		if a, b := shown(before[key]), shown(after[key]); a != b {
			*changes = append(*changes, fmt.Sprintf("%s%s %s instead of %s", path, key, b, a))
		}
	}
}

func shown(value any) string {
	if value == nil {
		return "none"
	}
	if text, isText := value.(string); isText {
		return text
	}
	text, _ := json.Marshal(value) // It was JSON.
	return conditions.Short(string(text))
}
