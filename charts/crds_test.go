package charts_test

import (
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/charts"
)

// publicDefinitions returns our definitions, except those of records, which are not a public API
// and have neither category nor short name.
func publicDefinitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var found []apiextensionsv1.CustomResourceDefinition
	for _, definition := range definitions {
		names := definition.Spec.Names
		switch {
		case definition.Spec.Group != recordsv1alpha1.GroupVersion.Group:
			found = append(found, definition)
		case len(names.Categories)+len(names.ShortNames) > 0:
			t.Errorf("%s: categories %q, short names %q", definition.Name, names.Categories, names.ShortNames)
		}
	}
	if len(found) < 6 {
		t.Fatalf("only %d definitions were found", len(found))
	}
	return found
}

// TestNames: `kubectl get mainstay` shows all kinds, and each has one short name. A cluster-scoped
// kind is not in the category all: `kubectl get all` would fail for users who may read only their
// namespace, and `kubectl delete all --all` in one namespace would delete the objects of all.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, definition := range publicDefinitions(t) {
		names := definition.Spec.Names
		want := []string{"all", "mainstay"}
		if definition.Spec.Scope == apiextensionsv1.ClusterScoped {
			want = []string{"mainstay"}
		}
		if !slices.Equal(names.Categories, want) {
			t.Errorf("%s has the categories %q, want %q", definition.Name, names.Categories, want)
		}
		if len(names.ShortNames) != 1 || seen[names.ShortNames[0]] {
			t.Errorf("%s needs one short name of its own: %q", definition.Name, names.ShortNames)
			continue
		}
		seen[names.ShortNames[0]] = true
	}
}

// TestColumns: each version of a kind prints whether an object is Ready, its phase and its age.
func TestColumns(t *testing.T) {
	for _, definition := range publicDefinitions(t) {
		for _, version := range definition.Spec.Versions {
			paths := map[string]string{}
			for _, column := range version.AdditionalPrinterColumns {
				if column.Priority == 0 {
					paths[column.Name] = column.JSONPath
				}
			}
			for name, path := range map[string]string{
				"Ready": `.status.conditions[?(@.type=="Ready")].status`, "Phase": ".status.phase", "Age": ".metadata.creationTimestamp",
			} {
				if paths[name] != path {
					t.Errorf("%s %s: column %s prints %q, want %q", definition.Name, version.Name, name, paths[name], path)
				}
			}
		}
	}
}
