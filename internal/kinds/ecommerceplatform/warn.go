package ecommerceplatform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// maxChanges limits how many changed fields of a component a warning has.
const maxChanges = 8

// WarnOfChange returns warnings of what a change does that the plan of the AppStack does not say:
// what follows from another environment, by component, and what a cache loses. before is the
// platform as it is stored. existing is its AppStack; nil if there is none.
func WarnOfChange(platform, before *platformv1.EcommercePlatform, existing *platformv1.AppStack, installation Installation) []string {
	was, will := Compile(before, existing, installation), Compile(platform, existing, installation)
	from, _ := installation.Environments.Parse(before.Spec.Environment)
	to, _ := installation.Environments.Parse(platform.Spec.Environment)
	var warnings []string
	if from != to {
		warnings = warnOfEnvironment(was, will, from, to)
		unmade := platform.DeepCopy()
		unmade.Status.Database = nil
		kept := formerly(will, databaseName).size()
		fresh := formerly(Compile(unmade, nil, installation), databaseName).size()
		if kept != nil && fresh != nil && kept.Cmp(*fresh) > 0 {
			warnings = append(warnings, fmt.Sprintf("component %s: its volumes stay at %s, more than the %s of %s: volumes never shrink",
				databaseName, kept, fresh, to))
		}
	}
	return append(warnings, warnOfCache(platform, before, was, will, existing)...)
}

// warnOfCache returns a warning if what a cache has may be lost. A platform's cache is in memory
// alone, so that nothing is left of one that is deleted, or whose only instance is replaced.
func warnOfCache(platform, before *platformv1.EcommercePlatform, was, will, existing *platformv1.AppStack) []string {
	if componentOf(existing, cacheName) == nil {
		return nil
	}
	former, next := componentOf(was, cacheName), componentOf(will, cacheName)
	switch {
	case *before.Spec.Cache.Enabled && !*platform.Spec.Cache.Enabled:
		return []string{fmt.Sprintf("spec.cache.enabled: Cache %s is deleted once the backend runs without it, and what it has in memory is lost",
			objectName(platform, cacheName))}
	case former != nil && next != nil && (!bytes.Equal(former.Spec.Raw, next.Spec.Raw) || !maps.Equal(was.Spec.Labels, will.Spec.Labels)):
		return []string{fmt.Sprintf("component %s: its instances are replaced, and what it has in memory may be lost: it stores nothing on volumes",
			cacheName)}
	}
	return nil
}

// warnOfEnvironment returns what another environment changes, by component.
func warnOfEnvironment(was, will *platformv1.AppStack, from, to policy.Environment) []string {
	warnings := []string{fmt.Sprintf("spec.environment: %s instead of %s changes all parts, and replaces their pods", to, from)}
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
		warnings = append(warnings, fmt.Sprintf("component %s: the volumes of the instances that are removed are kept", databaseName))
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
