package component

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

func TestConditionsOf(t *testing.T) {
	for status, want := range map[string]struct {
		ready, degraded metav1.ConditionStatus
		reason          string
	}{
		`{}`:                       {metav1.ConditionTrue, metav1.ConditionFalse, "Current"},
		`{"observedGeneration":1}`: {metav1.ConditionFalse, metav1.ConditionFalse, "InProgress"},
		`{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}`:   {metav1.ConditionTrue, metav1.ConditionFalse, "Current"},
		`{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False"}]}`:  {metav1.ConditionFalse, metav1.ConditionFalse, "InProgress"},
		`{"observedGeneration":2,"conditions":[{"type":"Stalled","status":"True"}]}`: {metav1.ConditionFalse, metav1.ConditionTrue, "Failed"},
		`{"conditions":"none"}`: {metav1.ConditionFalse, metav1.ConditionFalse, "Unknown"},
	} {
		object := &unstructured.Unstructured{}
		text := `{"apiVersion":"mq.example.com/v1","kind":"Queue","metadata":{"generation":2},"status":` + status + `}`
		if err := json.Unmarshal([]byte(text), object); err != nil {
			t.Fatal(err)
		}
		found := ConditionsOf(object)
		ready, degraded := meta.FindStatusCondition(found, "Ready"), meta.FindStatusCondition(found, "Degraded")
		if ready.Status != want.ready || ready.Reason != want.reason || degraded.Status != want.degraded || ready.ObservedGeneration != 2 {
			t.Errorf("%s: %+v", status, found)
		}
	}
	app := &msappsv1.WebApp{}
	app.Status.Conditions = []metav1.Condition{{Type: "Ready"}}
	if len(ConditionsOf(app)) != 1 {
		t.Error("an object of ours has its own conditions")
	}
}

func TestContains(t *testing.T) {
	for name, test := range map[string]struct {
		live, wanted any
		want         bool
	}{
		"the same":               {map[string]any{"a": "b"}, map[string]any{"a": "b"}, true},
		"a field more":           {map[string]any{"a": "b", "c": "d"}, map[string]any{"a": "b"}, true},
		"a field less":           {map[string]any{}, map[string]any{"a": "b"}, false},
		"another value":          {map[string]any{"a": "c"}, map[string]any{"a": "b"}, false},
		"a default in an item":   {[]any{map[string]any{"a": "b", "c": "d"}}, []any{map[string]any{"a": "b"}}, true},
		"an item more":           {[]any{"a", "b"}, []any{"a"}, false},
		"another order":          {[]any{"a", "b"}, []any{"b", "a"}, false},
		"a number, read as JSON": {float64(3), int64(3), true},
		"another number":         {float64(3.5), int64(3), false},
		"an object for a text":   {map[string]any{}, "a", false},
		"a text for an object":   {"a", map[string]any{}, false},
		"false":                  {false, false, true},
	} {
		if got := Contains(test.live, test.wanted); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
