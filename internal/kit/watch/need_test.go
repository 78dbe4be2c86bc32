package watch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var ports = NewPart("ports", func(s *corev1.Service) { s.Spec.Ports = nil })

// only returns the one entry of united needs.
func only(t *testing.T, needs map[string][]Need) cache.ByObject {
	t.Helper()
	options, err := Unite(needs)
	if err != nil || len(options) != 1 {
		t.Fatalf("got %v, %v", options, err)
	}
	for _, option := range options {
		return option
	}
	return cache.ByObject{}
}

// TestUnite: the cache drops what no need reads, and has the objects that any need selects.
func TestUnite(t *testing.T) {
	object := func() client.Object { return &corev1.Service{} }
	for name, test := range map[string]struct {
		a, b                   Need
		ports, annotations, of bool
	}{
		"one reads all": {Need{Object: object()}, Need{Object: object(), Unused: []Part{ports, Annotations}}, true, true, false},
		"each reads a part": {Need{Object: object(), Unused: []Part{ports}}, Need{Object: object(), Unused: []Part{Annotations}},
			true, true, false},
		"both don't read one": {Need{Object: object(), Unused: []Part{ports}}, Need{Object: object(), Unused: []Part{Annotations, ports}},
			false, true, false},
		"one selects all": {Need{Object: object(), Unused: []Part{Annotations}}, Need{Object: object(), Select: labels.Everything(),
			Unused: []Part{Annotations}}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, needs := range []map[string][]Need{{"a": {test.a}, "b": {test.b}}, {"a": {test.b}, "b": {test.a}}} {
				option := only(t, needs)
				given := service()
				given.Annotations = map[string]string{"a": "b"}
				got, err := option.Transform(given)
				if err != nil {
					t.Fatal(err)
				}
				kept := got.(*corev1.Service)
				if (kept.Spec.Ports != nil) != test.ports || (kept.Annotations != nil) != test.annotations {
					t.Errorf("got %+v", kept)
				}
				if option.Label.Matches(labels.Set{}) != test.of {
					t.Errorf("it selects %s", option.Label)
				}
			}
		})
	}
	_, err := Unite(map[string][]Need{"a": {{Object: object(), Select: OwnedPods}}, "b": {{Object: object()}}})
	if err == nil || !strings.Contains(err.Error(), "a and b: they select different *v1.Service") {
		t.Errorf("got %v", err)
	}
	if two, err := Unite(map[string][]Need{"a": {{Object: object()}}, "b": {Namespaces()}}); err != nil || len(two) != 2 {
		t.Errorf("got %v, %v", two, err)
	}
}

// TestManagedFieldsOfOthersAreDropped: ours stay, for package apply.
func TestManagedFieldsOfOthersAreDropped(t *testing.T) {
	transform := only(t, map[string][]Need{"a": {{Object: &corev1.Service{}}}}).Transform
	got, err := transform(service())
	if err != nil {
		t.Fatal(err)
	}
	var managers []string
	for _, entry := range got.(*corev1.Service).ManagedFields {
		managers = append(managers, entry.Manager)
	}
	if diff := cmp.Diff([]string{"mainstay/webapp", "mainstay/handover"}, managers); diff != "" {
		t.Error(diff)
	}
	tombstone := toolscache.DeletedFinalStateUnknown{Key: "web/shop"}
	if got, err := transform(tombstone); err != nil || got != tombstone {
		t.Errorf("a tombstone became %v, %v", got, err)
	}
}
