package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/charts"
)

// kindDefinitions returns the definitions of our kinds, without those of records.
func kindDefinitions(t *testing.T) []apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var all []apiextensionsv1.CustomResourceDefinition
	for _, definition := range definitions {
		if definition.Spec.Group != recordsv1alpha1.GroupVersion.Group {
			all = append(all, definition)
		}
	}
	return all
}

// section returns a part of a page: from a heading to the next one of its level.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\n## "+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, heading)
	}
	part, _, _ := strings.Cut(after, "\n## ")
	return part
}

// hasField reports whether the stored version of a kind has a field of the spec.
func hasField(definition *apiextensionsv1.CustomResourceDefinition, name string) bool {
	return slices.ContainsFunc(definition.Spec.Versions, func(version apiextensionsv1.CustomResourceDefinitionVersion) bool {
		_, has := version.Schema.OpenAPIV3Schema.Properties["spec"].Properties[name]
		return version.Storage && has
	})
}

// TestKindsOnPages: a new kind is added to the sentences that are about all of them: what pruning
// does, what to send with a question, what to save, what to look at when objects are not ready,
// what can be paused, which health Argo CD is to see, and what the label kind of metrics can be.
func TestKindsOnPages(t *testing.T) {
	pruned := section(t, "gitops.md", "What pruning does")
	listed := map[string]string{}
	for page, heading := range map[string]string{
		"operating.md": "Before you ask for help", "backup.md": "What to save", "runbooks/MainstayObjectsNotReady.md": "What to look at",
	} {
		listed[page] = section(t, page, heading)
	}
	paused := regexp.MustCompile("(?m)^\\| one .*`spec.paused: true`").FindString(section(t, "operating.md", "To stop it from acting"))
	health, err := os.ReadFile("gitops/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	counted := section(t, "metrics.md", "`mainstay_reconcile_total`")
	for _, definition := range kindDefinitions(t) {
		kind := definition.Spec.Names.Kind
		if !strings.Contains(counted, "`"+kind+"`") {
			t.Errorf("metrics.md does not name %s among the values of the label kind", kind)
		}
		if !regexp.MustCompile(`(?m)^\| ([A-Za-z]+, )*` + kind + `(, [A-Za-z]+)* \|`).MatchString(pruned) {
			t.Errorf("gitops.md does not say what happens when a %s is pruned", kind)
		}
		for page, commands := range listed {
			if !regexp.MustCompile(`[ ,]` + definition.Spec.Names.Plural + `[ ,]`).MatchString(commands) {
				t.Errorf("no command of %s lists %s", page, definition.Spec.Names.Plural)
			}
		}
		if !strings.Contains(string(health), "health."+definition.Spec.Group+"_"+kind+":") {
			t.Errorf("gitops/argocd-cm.yaml has no health of %s", kind)
		}
		if isNamed := strings.Contains(paused, kind); isNamed != hasField(&definition, "paused") {
			t.Errorf("operating.md says that a %s can be paused: %t", kind, isNamed)
		}
	}
}

// TestKindsAlike: each kind has a short name of its own, is in the same categories as the others of
// its scope, and shows its phase.
func TestKindsAlike(t *testing.T) {
	short := map[string]string{}
	for _, definition := range kindDefinitions(t) {
		names := definition.Spec.Names
		if len(names.ShortNames) != 1 || short[names.ShortNames[0]] != "" {
			t.Fatalf("%s has the short names %q, which must be one that no other kind has: %v", names.Kind, names.ShortNames, short)
		}
		short[names.ShortNames[0]] = names.Kind
		wanted := []string{"mainstay"} // `kubectl get all` shows nothing that is not in a namespace.
		if definition.Spec.Scope == apiextensionsv1.NamespaceScoped {
			wanted = []string{"all", "mainstay"}
		}
		if !slices.Equal(names.Categories, wanted) {
			t.Errorf("%s has the categories %q, want %q", names.Kind, names.Categories, wanted)
		}
		for _, version := range definition.Spec.Versions {
			if !slices.ContainsFunc(version.AdditionalPrinterColumns, func(column apiextensionsv1.CustomResourceColumnDefinition) bool {
				return column.Name == "Phase" && column.JSONPath == ".status.phase"
			}) {
				t.Errorf("%s %s does not show its phase", names.Kind, version.Name)
			}
		}
	}
}
