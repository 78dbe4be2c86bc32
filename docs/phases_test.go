package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestPhases: the page of WebApps and the field's own description, which `kubectl explain` prints,
// have each phase of a WebApp.
func TestPhases(t *testing.T) {
	read := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	phases := regexp.MustCompile(`WebAppPhase = "(\w+)"`).FindAllStringSubmatch(read("../api/apps/v1/webapp_conditions.go"), -1)
	if len(phases) < 7 {
		t.Fatalf("only %d phases are found", len(phases))
	}
	page := read("spec/webapp.md")
	_, field, _ := strings.Cut(read("../api/apps/v1/webapp_types.go"), "// Phase is ")
	field, _, _ = strings.Cut(field, "// +optional")
	for _, phase := range phases {
		if !strings.Contains(page, "| `"+phase[1]+"` |") {
			t.Errorf("docs/spec/webapp.md lacks the phase %s", phase[1])
		}
		if !strings.Contains(field, phase[1]) {
			t.Errorf("the description of status.phase lacks %s", phase[1])
		}
	}
}

// TestReasonsOfDatabases: the pages of databases say what to do for each reason that their rules
// have. That of Caches may leave it to that of PostgreSQLs.
func TestReasonsOfDatabases(t *testing.T) {
	rule := regexp.MustCompile(`summary\.When\(summary\.\w+, \w+\.Reason(\w+),`)
	for kind, pages := range map[string][]string{"postgresql": {"postgresql"}, "cache": {"cache", "postgresql"}} {
		code, err := os.ReadFile(filepath.Join("../internal/kinds", kind, "summary.go"))
		if err != nil {
			t.Fatal(err)
		}
		var table string
		for _, page := range pages {
			_, rows, _ := strings.Cut(section(t, "spec/"+page+".md", "Status"), "| reason of `Ready` |")
			table += rows
		}
		reasons := rule.FindAllStringSubmatch(string(code), -1)
		if len(reasons) < 20 {
			t.Errorf("%s: only %d rules are found", kind, len(reasons))
		}
		for _, reason := range reasons {
			if !strings.Contains(table, "`"+reason[1]+"`") {
				t.Errorf("docs/spec/%s.md does not say what to do for %s", kind, reason[1])
			}
		}
	}
}
