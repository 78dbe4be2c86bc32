package appstack

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// SpecOf returns the spec of an object as JSON values, without nulls.
func SpecOf(object component.Object) map[string]any {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil
	}
	spec, _ := content["spec"].(map[string]any)
	return spec
}

// contentOf returns what users write of an object, besides its metadata.
func contentOf(object component.Object) map[string]any {
	external, isExternal := object.(*unstructured.Unstructured)
	if !isExternal {
		return map[string]any{"spec": SpecOf(object)}
	}
	content := maps.Clone(external.Object)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(content, name)
	}
	return content
}

// maxFields limits how many changed fields are named.
const maxFields = 8

// changes returns the first fields that differ between two objects, as a list for people: of the
// spec, and "labels" and "annotations". It returns "" if there are none. Fields that only before
// has count if isExact.
func changes(before, after component.Object, isExact bool) string {
	var fields []string
	compare("", contentOf(before), contentOf(after), isExact, &fields)
	if differs(before.GetLabels(), after.GetLabels(), isExact) {
		fields = append(fields, "labels")
	}
	if differs(before.GetAnnotations(), after.GetAnnotations(), isExact) {
		fields = append(fields, "annotations")
	}
	return conditions.First(maxFields, fields, ", ")
}

// differs reports whether before lacks an entry of after; with isExact also whether it has others.
func differs(before, after map[string]string, isExact bool) bool {
	for key, value := range after {
		if before[key] != value {
			return true
		}
	}
	return isExact && len(before) != len(after)
}

// compare appends the paths of values that differ, sorted. With isExact everything counts; without,
// only what after has, for others may have set the rest of before. A list is one value.
func compare(path string, before, after map[string]any, isExact bool, fields *[]string) {
	keys := slices.Collect(maps.Keys(after))
	if isExact {
		keys = slices.AppendSeq(keys, maps.Keys(before))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		below := strings.TrimPrefix(path+"."+key, ".")
		x, isObject := before[key].(map[string]any)
		y, areObjects := after[key].(map[string]any)
		switch {
		case isObject && areObjects:
			compare(below, x, y, isExact, fields)
		case !isExact && component.Contains(before[key], after[key]):
		case !reflect.DeepEqual(before[key], after[key]) && !isNothing(before[key], after[key]):
			*fields = append(*fields, below)
		}
	}
}

// isNothing reports whether two values are each absent or empty.
func isNothing(values ...any) bool {
	for _, value := range values {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			if len(value) > 0 {
				return false
			}
		default:
			return false
		}
	}
	return true
}
