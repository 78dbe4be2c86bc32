package bounded

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	duration = reflect.TypeFor[metav1.Duration]()
	point    = reflect.TypeFor[metav1.Time]()
)

// Unreadable returns the texts of an object that are not what its type takes them for: a quantity,
// a duration or a time, each with an example of one. Other values of a wrong type are left to the
// schema, which names them. It returns at most maxUnreadable. Check must have accepted the object.
func Unreadable(text []byte, of reflect.Type) []*Error {
	var object any
	if json.Unmarshal(text, &object) != nil {
		return nil
	}
	return unreadable(object, of)
}

// maxUnreadable limits what is found, because an object may have a hundred thousand such texts.
const maxUnreadable = 10

// unreadable is Unreadable for a value inside the object. Paths are relative to the value.
func unreadable(value any, of reflect.Type) []*Error {
	of = indirect(of)
	var found []*Error
	add := func(step string, problems []*Error) {
		for _, problem := range problems[:min(len(problems), maxUnreadable-len(found))] {
			problem.Path = step + problem.Path
			found = append(found, problem)
		}
	}
	switch value := value.(type) {
	case string:
		if example := exampleFor(value, of); example != "" {
			return []*Error{{Problem: fmt.Sprintf("Invalid value: %q: %s", value[:min(len(value), MaxQuantity)], example)}}
		}
	case []any:
		if of != nil && of.Kind() == reflect.Slice {
			for i, element := range value {
				if len(found) == maxUnreadable {
					break
				}
				add("["+strconv.Itoa(i)+"]", unreadable(element, of.Elem()))
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if len(found) == maxUnreadable {
				break
			}
			field, _ := fieldOf(of, key)
			add("."+key, unreadable(value[key], field))
		}
	}
	return found
}

// exampleFor returns what to write in place of a text of a type; empty if the text is readable.
func exampleFor(text string, of reflect.Type) string {
	switch of {
	case quantity:
		if _, err := resource.ParseQuantity(text); err != nil {
			return "use for example " + likely(text)
		}
	case duration:
		if _, err := time.ParseDuration(text); err != nil {
			return "use for example 30s, 5m or 1h30m"
		}
	case point:
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			return "use for example 2026-01-31T12:00:00Z"
		}
	}
	return ""
}

// units are the suffixes that people write for those of quantities.
var units = map[string]string{
	"b": "", "kb": "Ki", "mb": "Mi", "gb": "Gi", "tb": "Ti", "kib": "Ki", "mib": "Mi", "gib": "Gi", "tib": "Ti", "mi": "Mi", "gi": "Gi",
	"ki": "Ki", "g": "G", "core": "", "cores": "", "cpu": "", "cpus": "", "millicores": "m", "mcpu": "m",
}

// likely returns the quantity that a text probably means; examples if none is likely.
func likely(text string) string {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit, known := units[strings.ToLower(strings.TrimSpace(text[len(number):]))]
	if !known {
		return "500m or 64Mi"
	}
	// Without the unit it may be a number that takes hours to parse: 1e-999999999 cores.
	if QuantityProblem(number+unit) != "" {
		return "500m or 64Mi"
	}
	if _, err := resource.ParseQuantity(number + unit); err != nil {
		return "500m or 64Mi"
	}
	return number + unit
}
