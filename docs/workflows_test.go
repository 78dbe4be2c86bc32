package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	// makeLine matches the command of a step: nothing but make, with root's rights if need be, and
	// what it prints as variables of the workflow.
	makeLine   = regexp.MustCompile(`^(?:sudo -E env "PATH=\$PATH" )?make ([a-z][^|;&<>]*?)(?: >> "\$GITHUB_OUTPUT")?$`)
	makeTarget = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):.* ## `)
)

// workflow is a file of .github/workflows, as far as these tests read it.
type workflow struct {
	Jobs map[string]job
}

type job struct {
	Needs       needs
	If          string
	Uses        string
	With        map[string]any
	Permissions map[string]string
	Concurrency map[string]any
	Steps       []struct{ Run string }
}

// needs is a name or a list of names.
type needs []string

// UnmarshalJSON reads both forms.
func (n *needs) UnmarshalJSON(content []byte) error {
	var one string
	if err := json.Unmarshal(content, &one); err == nil {
		*n = needs{one}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(n))
}

// workflows returns all workflows by the name of their file.
func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob("../.github/workflows/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("only %d workflows were found, %v", len(files), err)
	}
	found := map[string]workflow{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var read workflow
		if err := yaml.Unmarshal(text, &read); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found[filepath.Base(file)] = read
	}
	return found
}

// before returns the jobs that must have passed before a job begins.
func (w workflow) before(name string) []string {
	var found []string
	for _, needed := range w.Jobs[name].Needs {
		found = append(found, append(w.before(needed), needed)...)
	}
	return found
}

// runs reports whether a job has a step whose command contains a text.
func (j job) runs(text string) bool {
	for _, step := range j.Steps {
		if strings.Contains(step.Run, text) {
			return true
		}
	}
	return false
}

// TestStagingBeforeARelease: what users can see (signature, tag, chart, release) follows staging,
// which must have been there; staging follows all tests.
func TestStagingBeforeARelease(t *testing.T) {
	release := workflows(t)["release.yaml"]
	const staging = "./.github/workflows/staging.yaml"
	if on := release.Jobs["staging"]; on.Uses != staging || on.With["required"] != true || on.With["tag"] != nil || on.If != "" {
		t.Errorf("a release needs no staging: %+v", on)
	}
	for _, tested := range []string{"notes", "test", "scan", "build"} {
		if !slices.Contains(release.before("staging"), tested) {
			t.Errorf("staging does not wait for %s", tested)
		}
	}
	published := 0
	for name, one := range release.Jobs {
		for _, target := range []string{"make sign", "make tag-image", "make push-chart", "make release FINAL=yes"} {
			if one.runs(target) {
				published++
				if !slices.Contains(release.before(name), "staging") || one.If != "" {
					t.Errorf("%s runs %s without staging", name, target)
				}
			}
		}
		if one.Permissions["contents"] == "write" && name != "publish" {
			t.Errorf("%s may publish a release", name)
		}
	}
	if published != 4 {
		t.Errorf("%d of 4 targets that publish were found", published)
	}
}

// TestStagingAfterMain: every push to main that passes goes to staging, one after the other.
func TestStagingAfterMain(t *testing.T) {
	all := workflows(t)
	ci := all["ci.yaml"]
	if on := ci.Jobs["staging"]; on.With["tag"] != "${{ github.sha }}" || on.With["required"] != false {
		t.Errorf("staging does not get the commit's image: %+v", on)
	}
	for name := range ci.Jobs {
		if name != "staging" && !slices.Contains(ci.before("staging"), name) {
			t.Errorf("staging does not wait for %s", name)
		}
	}
	if image := ci.Jobs["image"]; image.If != "github.event_name == 'push'" || !image.runs("make push chart") {
		t.Errorf("not every push leads to an image, or a pull request does: %+v", image)
	}
	if on := all["staging.yaml"].Jobs["staging"]; on.Concurrency["queue"] != "max" || !on.runs("make staging") {
		t.Errorf("a push that waits for staging may be cancelled: %+v", on)
	}
}

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
	found := 0
	for file, read := range workflows(t) {
		for _, one := range read.Jobs {
			for _, step := range one.Steps {
				if step.Run == "" {
					continue
				}
				match := makeLine.FindStringSubmatch(step.Run)
				if match == nil {
					t.Errorf("%s runs `%s`, which is not make alone", file, step.Run)
					continue
				}
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
	}
	if found < 10 {
		t.Errorf("only %d targets were found: the pattern is wrong", found)
	}
}
