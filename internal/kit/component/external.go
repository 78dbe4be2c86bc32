package component

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// TypeObject is the type of components that are objects of other projects' kinds.
const TypeObject = "object"

// NewExternal returns a kind of another project. missing is that of the Kind. Whether its objects
// have data is not known, so they are treated as if they had.
func NewExternal(kind schema.GroupVersionKind, missing func() string) Kind {
	return Kind{
		Traits: Traits{Type: TypeObject, MaxName: 253, DataAfter: externalDataAfter}, Kind: kind, Missing: missing,
		New: func() Object {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(kind)
			return object
		},
		Check: func(Object) field.ErrorList { return nil },
	}
}

// externalDataAfter is the DataAfter of the kinds of other projects.
func externalDataAfter(Object) string {
	return "whether its data stay, if it has any, is up to its own controller"
}

// ConditionsOf returns the conditions of an object: Ready says, with the generation that it is
// about, whether what depends on it may start, and Degraded whether something is wrong with it. Of
// an object of another project they follow from the rules of kstatus, which Helm, Flux and Argo CD
// have too: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md
func ConditionsOf(object Object) []metav1.Condition {
	switch object := object.(type) {
	case interface{ GetConditions() []metav1.Condition }:
		return object.GetConditions()
	case *unstructured.Unstructured:
		return computed(object)
	default:
		return nil
	}
}

// computed returns the conditions Ready and Degraded of an object of another project, as kstatus
// computes its state.
func computed(object *unstructured.Unstructured) []metav1.Condition {
	result, err := status.Compute(object)
	if err != nil {
		result = &status.Result{Status: status.UnknownStatus, Message: "its status can't be read: " + err.Error()}
	}
	ready := conditions.False(conditions.Ready, result.Status.String(), result.Message)
	degraded := conditions.False(conditions.Degraded, result.Status.String(), "")
	switch result.Status {
	case status.CurrentStatus:
		ready.Status = metav1.ConditionTrue
	case status.FailedStatus:
		degraded.Status = metav1.ConditionTrue
	}
	all := []metav1.Condition{ready, degraded}
	for i := range all {
		all[i].ObservedGeneration = object.GetGeneration()
	}
	return all
}

// Contains reports whether a JSON value has all that another one has: each field of an object, and
// each item of a list, in its place. A list must not have more items.
func Contains(live, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, isObject := live.(map[string]any)
		for key, value := range wanted {
			if found, has := object[key]; !has || !Contains(found, value) {
				return false
			}
		}
		return isObject
	case []any:
		list, isList := live.([]any)
		if !isList || len(list) != len(wanted) {
			return false
		}
		for i, item := range wanted {
			if !Contains(list[i], item) {
				return false
			}
		}
		return true
	case int64:
		other, isFloat := live.(float64)
		return live == any(wanted) || isFloat && other == float64(wanted)
	case float64:
		other, isInteger := live.(int64)
		return live == any(wanted) || isInteger && float64(other) == wanted
	default:
		return reflect.DeepEqual(live, wanted)
	}
}
