package hack

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// sharing are the modules that are compiled for `make demo` and `make test` and share most of their
// packages with Kubernetes, which is the first of them.
var sharing = []string{
	"testbed/kube", ".", "testbed", "testbed/coredns", "testbed/metrics-server", "tools/helm", "tools/image", "tools/monitoring",
	"tools/codegen",
}

// required returns the versions that a go.mod requires, by module path, without replaced modules.
// In Kubernetes' own go.mod the replaced ones are the modules that it publishes separately, which
// all have one version.
func required(t *testing.T, folder string) map[string]string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	command.Dir = filepath.Join("..", folder)
	output, err := command.Output()
	if err != nil {
		t.Fatalf("reading %s/go.mod: %v", folder, err)
	}
	var file struct {
		Require []struct{ Path, Version string }
		Replace []struct {
			Old, New struct{ Path, Version string }
		}
	}
	if err := json.Unmarshal(output, &file); err != nil {
		t.Fatalf("reading %s/go.mod: %v", folder, err)
	}
	versions := map[string]string{}
	for _, module := range file.Require {
		versions[module.Path] = module.Version
	}
	for _, module := range file.Replace {
		if _, isRequired := versions[module.Old.Path]; isRequired {
			versions[module.Old.Path] = module.New.Version
		}
	}
	return versions
}

// TestOneVersionOfEachModule: a package is compiled once per version of its module, so that two
// versions of a widely imported module cost a new machine minutes. After an update, run `go get
// MODULE@VERSION` and `go mod tidy` in the other modules.
func TestOneVersionOfEachModule(t *testing.T) {
	first := map[string]string{}
	by := map[string]string{}
	shared := 0
	for _, folder := range sharing {
		versions := required(t, folder)
		for _, path := range slices.Sorted(maps.Keys(versions)) {
			switch {
			case by[path] == "":
				first[path], by[path] = versions[path], folder
			case first[path] != versions[path]:
				t.Errorf("%s/go.mod has %s %s, and %s/go.mod %s", folder, path, versions[path], by[path], first[path])
			default:
				shared++
			}
		}
	}
	if shared < 100 {
		t.Errorf("only %d requirements are shared: the test compares nothing", shared)
	}
}
