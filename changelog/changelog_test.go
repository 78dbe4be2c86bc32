package changelog_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

type entry struct {
	Kind, Component, Note string
	Issue                 int
}

// TestEntries checks that each entry is complete and has the form of TEMPLATE, so that the entries
// of a release can be sorted by kind and component.
func TestEntries(t *testing.T) {
	files, err := filepath.Glob("unreleased/*")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(files, filepath.Join("unreleased", "TEMPLATE")) {
		t.Error("the template is missing")
	}
	kinds := []string{"feature", "change", "fix", "security", "deprecation", "removal"}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e entry
		if err := yaml.UnmarshalStrict(content, &e); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !slices.Contains(kinds, e.Kind) || e.Component == "" || e.Issue < 0 {
			t.Errorf("%s: kind %q, component %q, issue %d", file, e.Kind, e.Component, e.Issue)
		}
		isTemplate := filepath.Base(file) == "TEMPLATE"
		if !isTemplate && (!strings.HasSuffix(file, ".yaml") || len(strings.TrimSpace(e.Note)) < 20) {
			t.Errorf("%s is no .yaml file with a note", file)
		}
	}
}
