package main

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/test/cases"
)

// signsOf are environment variables that only tests with these needs read.
var signsOf = map[string]need{
	"MAINSTAY_POSTGRESQL_ROOT": needsDatabase,
	"testenv.Start(":           needsAPIServer,
}

// TestNeeds: what the tests of each folder need is what their code asks for.
func TestNeeds(t *testing.T) {
	found := map[need]int{}
	err := filepath.WalkDir(repository, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			return nil
		}
		if isSkipped(entry.Name()) && name != repository {
			return filepath.SkipDir
		}
		at, err := filepath.Rel(repository, name)
		if err != nil || !isBelow(at, "test") && !isBelow(at, "internal") {
			return err
		}
		forms, err := testedForms(name)
		if err != nil {
			return err
		}
		for _, tags := range forms {
			wanted := signOf(t, name, tags)
			found[wanted]++
			got := needOf(testPackage{directory: ".", at: "./" + filepath.ToSlash(at), tags: tags})
			if wanted != needsNothing && got != needsCluster && got != wanted || wanted == needsNothing && got == needsDatabase {
				t.Errorf("%s with the tags %v needs %s, but gets %s", at, tags, wanted, got)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found[needsDatabase] != 2 || found[needsAPIServer] < 3 {
		t.Errorf("found %v: a sign is wrong", found)
	}
}

// signOf returns the need that the code of a folder shows, if it has tests with these tags.
func signOf(t *testing.T, folder string, tags []string) need {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	shown, hasTests := needsNothing, false
	for _, name := range names {
		required, err := tagsOfFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(required) > 0 && !slices.Equal(required, tags) {
			continue
		}
		hasTests = hasTests || strings.HasSuffix(name, "_test.go")
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for sign, of := range signsOf {
			if strings.Contains(string(content), sign) && shown != needsDatabase {
				shown = of
			}
		}
	}
	if !hasTests {
		return needsNothing
	}
	return shown
}

// TestVetting: the product is vetted with every build tag that the code of any module has, and so
// are modules with changed files.
func TestVetting(t *testing.T) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"go.mod": "module m\n", "a/a.go": "package a\n", "a/a_test.go": "//go:build one && !three\n\npackage a\n",
		"a/a_linux.go": "//go:build linux\n\npackage a\n", "a/zz.go": "//go:build !generated\n\npackage a\n",
		"tools/go.mod": "module tools\n", "tools/t_test.go": "//go:build two\n\npackage t\n", "other/go.mod": "module other\n", "other/o.go": "package o\n",
	})
	vets, err := vetting(root, []string{"other/o.go", "a/a.go"})
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Sorted(maps.Keys(vets)); !slices.Equal(got, []string{".", "other"}) {
		t.Errorf("vets %v", got)
	}
	if diff := cmp.Diff([]string{"vet", "-tags", "one,two", "./..."}, vets["."]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestVettingHere: every build tag of a test in this repository is vetted.
func TestVettingHere(t *testing.T) {
	vets, err := vetting(repository, nil)
	if err != nil {
		t.Fatal(err)
	}
	arguments := strings.Join(vets["."], " ")
	if arguments != "vet -tags e2e,instances ./..." {
		t.Errorf("runs go %s: if a build tag is new, is there a layer that runs its tests?", arguments)
	}
}

// TestPackagesOf: each file belongs to the nearest package, Go code only to that of its own folder.
func TestPackagesOf(t *testing.T) {
	packages := []string{"./charts", "./internal/policy", "./internal/policy/policyreader"}
	for file, want := range map[string]string{
		"internal/policy/check.go":                    "./internal/policy",
		"internal/policy/testdata/deny.yaml":          "./internal/policy",
		"internal/policy/testdata/go/x.go":            "./internal/policy",
		"internal/policy/policyreader/testdata/a/b.y": "./internal/policy/policyreader",
		"charts/mainstay/crds/webapps.yaml":           "./charts",
		// Its package has no tests.
		"internal/policy/untested/x.go": "",
		"README.md":                     "",
		"docs/install.md":               "",
	} {
		got := packagesOf([]string{file}, packages)
		for _, at := range packages {
			if got[at] != (at == want) {
				t.Errorf("a change of %s tests %v, want %q", file, got, want)
			}
		}
	}
}

// TestDatabaseImages: the layer databases has every version of Valkey that TestCaches starts.
func TestDatabaseImages(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(repository, "test/databases/cache_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`cacheVersions = \[\]int\{([\d, ]+)\}`).FindSubmatch(source)
	if found == nil {
		t.Fatal("TestCaches has no versions")
	}
	for version := range strings.SplitSeq(string(found[1]), ", ") {
		if image := "valkey-" + version; !slices.Contains(databaseImages, image) {
			t.Errorf("TestCaches needs %s, and the layer has %v", image, databaseImages)
		}
	}
}

// TestFlakeLayers: each test with what it needs; those on a cluster can't be repeated.
func TestFlakeLayers(t *testing.T) {
	got := described(t, flakeLayers([]testPackage{
		{directory: ".", at: "./internal/policy", tests: []string{"TestA"}},
		{directory: "tools/image", at: ".", tests: []string{"TestB"}},
		{directory: ".", at: "./test/e2e", tags: []string{"e2e"}, tests: []string{"TestC"}},
		{directory: ".", at: "./internal/postgres/server", tags: []string{"instances"}, tests: []string{"TestD"}},
		{directory: ".", at: "./test/instances", tests: []string{"TestE"}},
	}))
	want := `flake -count=20 -timeout 60m -run ^(TestA)$ ./internal/policy (race)
flake -count=20 -timeout 60m -run ^(TestB)$ .
flake-instances -count=20 -timeout 60m -tags instances -run ^(TestD)$ ./internal/postgres/server
flake-instances -count=20 -timeout 60m -run ^(TestE)$ ./test/instances`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, l := range flakeLayers([]testPackage{{directory: ".", at: "./test/instances", tests: []string{"TestE"}}}) {
		if l.prepare == nil || !l.load {
			t.Errorf("%s has no server, or no load", l.name)
		}
	}
}

const (
	// jobLimit is for how long GitHub lets a job run.
	jobLimit = 6 * time.Hour
	// buildAllowance is for what a night compiles before its tests: Kubernetes, which a fresh
	// runner needs some half an hour for, and three other versions of its API server.
	buildAllowance = 75 * time.Minute
)

// job is a job of a workflow, as far as these tests read it.
type job struct {
	Minutes int `json:"timeout-minutes"`
	Steps   []struct{ Run string }
}

// jobsOf returns the jobs of a workflow that run Make targets, with these.
func jobsOf(t *testing.T, workflow string) (jobs map[string]job, targets map[string][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, ".github", "workflows", workflow))
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Jobs map[string]job }
	if err := yaml.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	targets = map[string][]string{}
	for name, j := range read.Jobs {
		for _, step := range j.Steps {
			if _, made, runs := strings.Cut(step.Run, "make "); runs {
				targets[name] = append(targets[name], strings.Fields(made)...)
			}
		}
	}
	return read.Jobs, targets
}

// runsLayers matches a Make target that runs layers, and nothing else.
var runsLayers = regexp.MustCompile(`(?m)^([a-z0-9-]+): ## .*\n\t\$\(testrun\) (.+)$`)

// layersByTarget returns the names of the layers, or of the selection, that each Make target runs.
func layersByTarget(t *testing.T) map[string][]string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	layersOf := map[string][]string{"verify": {"verify"}, "test": nil} // the layer runs this target, and the target all layers
	for _, match := range runsLayers.FindAllStringSubmatch(string(makefile), -1) {
		layersOf[match[1]] = strings.Fields(match[2])
	}
	return layersOf
}

const (
	// runnerSpace is what a runner has free at least, of its disk.
	//
	// Source: docs.github.com, GitHub-hosted runners reference.
	runnerSpace = 14_000_000_000
	// clearedSpace is what `make clear-runner` adds at least: 27 GiB on 2026-05-26.
	//
	// Source: github.com/peer-observer/peer-observer/pull/447.
	clearedSpace = 22_000_000_000
)

// TestJobsHaveSpace: what the layers of each job of a workflow need is free on a new runner.
func TestJobsHaveSpace(t *testing.T) {
	layersOf, cleared := layersByTarget(t), 0
	var all []map[string][]string
	for _, workflow := range []string{"ci.yaml", "nightly.yaml", "release.yaml"} {
		_, targets := jobsOf(t, workflow)
		all = append(all, targets)
	}
	t.Chdir(repository)
	for _, targets := range all {
		for name, made := range targets {
			var chosen []layer
			limit := uint64(runnerSpace)
			for _, target := range made {
				if names, runs := layersOf[target]; runs {
					more, err := choose(t.Context(), names)
					if err != nil {
						t.Fatal(err)
					}
					chosen = append(chosen, more...)
				}
				if target == "clear-runner" {
					limit += clearedSpace
					cleared++
				}
			}
			if needed := neededSpace(chosen, func(product) bool { return false }); needed > limit {
				t.Errorf("the job %s needs %d bytes, and has %d", name, needed, limit)
			}
		}
	}
	if cleared != 5 {
		t.Errorf("%d jobs clear their runner", cleared)
	}
}

// TestWorkflowRunsEveryLayer: each change runs all layers of `make test`, in jobs of its own.
func TestWorkflowRunsEveryLayer(t *testing.T) {
	layersOf := layersByTarget(t)
	ran := map[string]int{}
	_, targets := jobsOf(t, "ci.yaml")
	for _, made := range targets {
		for _, target := range made {
			for _, name := range layersOf[target] {
				ran[name]++
			}
		}
	}
	for _, l := range layers {
		if !l.onRequest && ran[l.name] != 1 {
			t.Errorf("ci.yaml runs %s %d times", l.name, ran[l.name])
		}
	}
}

// TestNightFits: each night's longer lane fits into its job of the workflow, with what must be
// compiled first.
func TestNightFits(t *testing.T) {
	jobs, targets := jobsOf(t, "nightly.yaml")
	t.Chdir(repository)
	minutes := map[string]int{}
	for name, made := range targets {
		for _, target := range made {
			minutes[target] += jobs[name].Minutes
		}
	}
	delete(minutes, "clear-runner")
	for name, selection := range nights {
		chosen, err := selection(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		limit := time.Duration(minutes[name]) * time.Minute
		if limit == 0 || limit > jobLimit {
			t.Errorf("the job of make %s may take %s", name, limit)
		}
		for lane, budget := range lanesOf(chosen) {
			if took := budget + buildAllowance; took > limit {
				t.Errorf("make %s: the lane %s needs up to %s with what it compiles, and its job has %s", name, lane, took, limit)
			}
		}
	}
	if len(minutes) != len(nights) {
		t.Errorf("the workflow runs %v", minutes)
	}
}

// nights are the selections of the workflow nightly.
var nights = map[string]func(context.Context) ([]layer, error){"nightly": nightly, "nightly-databases": nightlyDatabases}

// lanesOf returns the sum of the budgets of each lane.
func lanesOf(chosen []layer) map[lane]time.Duration {
	lanes := map[lane]time.Duration{}
	for _, l := range chosen {
		lanes[l.lane] += l.limit()
	}
	return lanes
}

// TestNightHasAll: every layer on request runs in one of the nights, with new seeds. The layers
// that need a database are together, because they need its images.
func TestNightHasAll(t *testing.T) {
	t.Chdir(repository)
	ran := map[string]int{}
	for name, selection := range nights {
		chosen, err := selection(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range chosen {
			ran[l.name]++
			if l.name == "postgresql" || l.name == "valkey" { // asks the testbed for images
				continue
			}
			tests, err := l.runs(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range tests {
				if !slices.Contains(test.environment, cases.Variable+"=long") {
					t.Errorf("make %s: %s has the seeds of make test", name, test)
				}
			}
		}
	}
	for _, l := range layers {
		if l.onRequest && l.name != "faults-plan" && ran[l.name] != 1 {
			t.Errorf("the nights run %s %d times", l.name, ran[l.name])
		}
	}
	for _, test := range databasesHere() {
		if len(test.environment) > 0 {
			t.Error("the nights change the layers of make test")
		}
	}
}
