package monitoring

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"

	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestCopiesShareNothing: a copy is equal, and a change of any part of it does not reach the
// original.
func TestCopiesShareNothing(t *testing.T) {
	for _, list := range []runtime.Object{&ServiceMonitorList{}, &PodMonitorList{}, &PrometheusRuleList{}} {
		t.Run(reflect.TypeOf(list).Elem().Name(), func(t *testing.T) {
			for seed := range cases.Seeds(t, 50, 5_000) {
				filled := func() runtime.Object {
					object := reflect.New(reflect.TypeOf(list).Elem()).Interface().(runtime.Object)
					randfill.NewWithSeed(int64(seed)).NilChance(0.2).NumElements(1, 2).Fill(object)
					return object
				}
				original, untouched := filled(), filled()
				changed := original.DeepCopyObject()
				if diff := cmp.Diff(untouched, changed, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("seed %d: the copy differs: %s", seed, diff)
				}
				change(reflect.ValueOf(changed))
				if diff := cmp.Diff(untouched, original, cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("seed %d: a change of the copy reached the original: %s", seed, diff)
				}
			}
		})
	}
}

// change changes each text, number and switch in a value.
func change(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !value.IsNil() {
			change(value.Elem())
		}
	case reflect.Struct:
		for _, field := range value.Fields() {
			change(field)
		}
	case reflect.Slice:
		for i := range value.Len() {
			change(value.Index(i))
		}
	case reflect.Map:
		for _, key := range value.MapKeys() {
			element := reflect.New(value.Type().Elem()).Elem()
			element.Set(value.MapIndex(key))
			change(element)
			value.SetMapIndex(key, element)
		}
	case reflect.String:
		if value.CanSet() {
			value.SetString(value.String() + "x")
		}
	case reflect.Bool:
		if value.CanSet() {
			value.SetBool(!value.Bool())
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		if value.CanSet() {
			value.SetInt(value.Int() + 1)
		}
	default:
	}
}
