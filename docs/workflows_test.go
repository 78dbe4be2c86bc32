package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	makeLine   = regexp.MustCompile(`(?m)\bmake ([a-z][^\n"]*)`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.* ## `)
)

// targetsOf are the targets among the words of a command line: not VARIABLE=value.
func targetsOf(arguments string) []string {
	var targets []string
	for word := range strings.FieldsSeq(arguments) {
		if !strings.ContainsAny(word, "=$\"'") {
			targets = append(targets, word)
		}
	}
	return targets
}

// TestWorkflowsRunMakeTargets: each step of the pipeline can be run by hand, by the same name, and
// CONTRIBUTING.md says so.
func TestWorkflowsRunMakeTargets(t *testing.T) {
	known := map[string]bool{}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		known[match[1]] = true
	}
	guide, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("only %d workflows were found, %v", len(files), err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range makeLine.FindAllStringSubmatch(string(text), -1) {
			for _, target := range targetsOf(match[1]) {
				found++
				if !known[target] {
					t.Errorf("%s runs `make %s`, which the Makefile does not have", file, target)
				}
				if !strings.Contains(string(guide), "`make "+target+"`") {
					t.Errorf("%s runs `make %s`, of which CONTRIBUTING.md says nothing", file, target)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d targets were found: the pattern is wrong", found)
	}
}
