package docs

import (
	"os"
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
