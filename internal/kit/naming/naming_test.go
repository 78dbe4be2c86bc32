package naming

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestManager(t *testing.T) {
	if got := Manager("webapp"); got != "mainstay/webapp" {
		t.Errorf("got %s: every object in every cluster has the former name in its managed fields", got)
	}
	if ManagerHandover != "mainstay/handover" {
		t.Errorf("got %s", ManagerHandover)
	}
	for manager, want := range map[string]bool{
		"mainstay/webapp": true, "mainstay/handover": true, "mainstay/": false, "mainstay": false, "kubectl": false, "": false,
		"mainstayx/webapp": false,
	} {
		if got := IsOurManager(manager); got != want {
			t.Errorf("%q: got %t", manager, got)
		}
	}
}

func TestLabels(t *testing.T) {
	for name, test := range map[string]struct {
		part Part
		want map[string]string
	}{
		"a part of its own": {Part{Name: "shop", Component: "webapp"}, map[string]string{
			"app": "shop", "app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "webapp",
			"app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "mainstay",
		}},
		"a part of something greater": {Part{Name: "shop", Component: "webapp", PartOf: "store"}, map[string]string{
			"app": "shop", "app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": "shop", "app.kubernetes.io/component": "webapp",
			"app.kubernetes.io/part-of": "store", "app.kubernetes.io/managed-by": "mainstay",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.part.Labels()); diff != "" {
				t.Error(diff)
			}
			// A Deployment's selector can never change, and what it is part of may.
			if diff := cmp.Diff(map[string]string{"app": "shop", "app.kubernetes.io/component": "webapp"}, test.part.Selector()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLabelValue: a name that fits is its own value, for the labels of existing objects must not
// change. Longer ones have values of their own, which the API server takes.
func TestLabelValue(t *testing.T) {
	if fits := strings.Repeat("a", 63); LabelValue(fits) != fits || LabelValue("") != "" {
		t.Errorf("got %s", LabelValue(fits))
	}
	seen := map[string]bool{}
	for _, long := range []string{
		strings.Repeat("a", 64), strings.Repeat("a", 253), strings.Repeat("a.", 60) + "a", strings.Repeat("a-", 60) + "a",
		strings.Repeat("a-", 60) + "b",
	} {
		value := LabelValue(long)
		if problems := validation.IsValidLabelValue(value); len(problems) > 0 || len(value) != 63 || seen[value] {
			t.Errorf("%s: got %s: %v", long, value, problems)
		}
		seen[value] = true
	}
	if got, want := LabelValue(strings.Repeat("a", 64)), strings.Repeat("a", 46)+"-ffe054fe7ae0cb6d"; got != want {
		t.Errorf("got %s, want %s: a released value must not change", got, want)
	}
}

func TestMerged(t *testing.T) {
	first, second := map[string]string{"a": "1", "b": "1"}, map[string]string{"b": "2"}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, Merged(first, nil, second)); diff != "" {
		t.Error(diff)
	}
	if first["b"] != "1" {
		t.Error("a layer was changed")
	}
	if Merged() == nil {
		t.Error("the result may be written to")
	}
}
