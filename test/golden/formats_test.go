package golden

import (
	"reflect"
	"slices"
	"testing"
)

// TestUnset: a field that is not set is found wherever it is.
func TestUnset(t *testing.T) {
	type inner struct{ A, B int }
	type outer struct {
		Inner   inner
		Pointer *inner
		List    []inner
		Map     map[string]string
		Text    string
	}
	value := outer{Inner: inner{A: 1}, List: []inner{{B: 1}}, Map: map[string]string{"a": "b"}}
	want := []string{"x.Inner.B", "x.Pointer", "x.List[0].A", "x.Text"}
	if got := unset(reflect.ValueOf(value), "x"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	whole := outer{Inner: inner{1, 1}, Pointer: &inner{1, 1}, List: []inner{{1, 1}}, Map: map[string]string{"a": "b"}, Text: "a"}
	if got := unset(reflect.ValueOf(whole), "x"); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
