package main

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// selections choose layers, and tests of them. `make test` is never one of them.
var selections = map[string]func(context.Context) ([]layer, error){
	"quick": quick, "affected": affectedLayers, "flake": flake, "nightly": nightly,
}

// since returns the commit that a change is compared with: the merge base with main or, on main
// itself, the previous commit.
func since(ctx context.Context) (string, error) {
	base, err := mergeBase(ctx, ".")
	if err != nil {
		return "", err
	}
	head, err := git(ctx, ".", "rev-parse", "HEAD")
	if err != nil || strings.TrimSpace(head) != base {
		return base, err
	}
	return "HEAD~1", nil
}

// changedKind returns the only area that has changed since main; none if several have, or if the
// history is not there to say so.
func changedKind(ctx context.Context) area {
	base, err := since(ctx)
	if err != nil {
		return area{}
	}
	files, err := changedFiles(ctx, ".", base)
	if err != nil {
		return area{}
	}
	if of := touched(files); !of.all && len(of.areas) == 1 {
		return of.areas[0]
	}
	return area{}
}

// quick returns vet for all build tags, and the pure tests of changed packages, without those that
// only import them.
func quick(ctx context.Context) ([]layer, error) {
	base, err := since(ctx)
	if err != nil {
		return nil, err
	}
	folders, err := changedFolders(ctx, base)
	if err != nil {
		return nil, err
	}
	racing, others, err := testedPackages(ctx, ".")
	if err != nil {
		return nil, err
	}
	changed := func(packages []string) []string {
		return slices.DeleteFunc(packages, func(at string) bool { return !slices.Contains(folders, strings.TrimPrefix(at, "./")) })
	}
	var tests []goTest
	if others = changed(others); len(others) > 0 {
		tests = append(tests, goTest{directory: ".", arguments: others})
	}
	if racing = changed(racing); len(racing) > 0 {
		tests = append(tests, goTest{directory: ".", race: true, arguments: racing})
	}
	vet := layer{name: "vet", lane: hostLane, budget: time.Minute, prepare: vetAll}
	if len(tests) == 0 {
		return []layer{vet}, nil
	}
	return []layer{vet, {name: "pure", lane: hostLane, budget: 90 * time.Second, runs: commands(tests...)}}, nil
}

// changedFolders returns the folders with changed files, relative to the repository.
func changedFolders(ctx context.Context, base string) ([]string, error) {
	files, err := changedFiles(ctx, ".", base)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, file := range files {
		folders = append(folders, filepath.Dir(file))
	}
	slices.Sort(folders)
	return slices.Compact(folders), nil
}

// vetAll vets the product with every build tag.
func vetAll(ctx context.Context, log *step.Log) ([]string, error) {
	vet := goTest{}.command(ctx, nil)
	vet.Args = []string{"go", "vet", "-tags", "e2e", "./..."}
	return nil, log.Do(ctx, "vetting the code behind all build tags", vet)
}

// affectedLayers returns the tests that a change since main can affect.
func affectedLayers(ctx context.Context) ([]layer, error) {
	base, err := since(ctx)
	if err != nil {
		return nil, err
	}
	files, err := changedFiles(ctx, ".", base)
	if err != nil {
		return nil, err
	}
	packages, err := affectedPackages(ctx, ".", base)
	if err != nil {
		return nil, err
	}
	return layersFor(packages, touched(files))
}

// layersFor returns the layers, limited to some packages and, for tests that run programs, to a
// scope.
func layersFor(packages []testPackage, of scope) ([]layer, error) {
	var pureCommands, toolCommands []goTest
	for _, p := range packages {
		at := strings.TrimPrefix(p.at, "./")
		switch {
		case len(p.tags) > 0, at == "test/faults", at == "test/integration", at == "test/served":
			// The scope decides about those: they import the whole program.
		case filepath.Clean(p.directory) != ".":
			toolCommands = append(toolCommands, p.command())
		default:
			command := p.command()
			command.race = slices.Contains(concurrent, at)
			pureCommands = append(pureCommands, command)
		}
	}
	var chosen []layer
	add := func(name string, tests []goTest) {
		if len(tests) == 0 {
			return
		}
		at := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
		narrowed := layers[at]
		narrowed.runs = commands(tests...)
		chosen = append(chosen, narrowed)
	}
	add("pure", pureCommands)
	add("tools", toolCommands)
	tests, err := integrationFor(of)
	if err != nil {
		return nil, err
	}
	add("integration", tests)
	if tests := of.faults(); len(tests) > 0 {
		add("faults", tests)
	}
	if tests := of.endToEnd(); len(tests) > 0 {
		add("testbed", []goTest{testbedTest("^TestUp$")})
		add("e2e", tests)
		add("testbed-down", []goTest{testbedTest("^TestDown$")})
	}
	return chosen, nil
}

// integrationFor returns the integration tests in scope.
func integrationFor(of scope) ([]goTest, error) {
	if of.isEmpty() {
		return nil, nil
	}
	names, err := of.integration("test/integration")
	if err != nil {
		return nil, err
	}
	all := testPackage{directory: ".", at: "./test/integration", tests: names}
	tests := []goTest{all.command("-timeout", "15m")}
	if of.served() {
		tests = append(tests, goTest{directory: ".", arguments: []string{"-timeout", "15m", "./test/served"}})
	}
	return tests, nil
}

// flakeRuns is how often `make flake` runs each changed test.
const flakeRuns = "20"

// flake runs the changed tests 20 times, beside two busy loops. Tests on the test cluster are
// omitted: they depend on each other and can't be repeated in one cluster.
func flake(ctx context.Context) ([]layer, error) {
	base, err := since(ctx)
	if err != nil {
		return nil, err
	}
	packages, err := changedTests(ctx, ".", base)
	if err != nil {
		return nil, err
	}
	var tests []goTest
	for _, p := range packages {
		if len(p.tags) > 0 {
			continue
		}
		command := p.command("-count="+flakeRuns, "-timeout", "60m")
		command.race = filepath.Clean(p.directory) == "."
		tests = append(tests, command)
	}
	if len(tests) == 0 {
		return nil, nil
	}
	return []layer{{name: "flake", lane: hostLane, budget: 20 * time.Minute, prepare: both(assets(), prometheus), runs: commands(tests...),
		load: true}}, nil
}

// fuzzTime is how long `make nightly` fuzzes each target.
const fuzzTime = time.Minute

// nightly returns what `make test` has no time for: every fault, every PostgreSQL, the previous
// Kubernetes, a long outage, the race detector and new seeds everywhere, fuzzing, and ten runs of
// the integration tests under load.
func nightly(context.Context) ([]layer, error) {
	targets, err := fuzzing(".", fuzzTime)
	if err != nil {
		return nil, err
	}
	long := []string{cases.Variable + "=long"}
	racing := func(tests ...goTest) func(context.Context) ([]goTest, error) {
		for i := range tests {
			tests[i].race, tests[i].environment = true, long
		}
		return commands(tests...)
	}
	chosen := []layer{
		{name: "race", lane: hostLane, budget: 30 * time.Minute, runs: racing(goTest{directory: ".", arguments: append([]string{"-timeout",
			"60m"}, pure...)})},
		{name: "race-integration", lane: hostLane, budget: 20 * time.Minute, prepare: assets(), runs: racing(
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/served/"}},
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/integration/..."}},
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/faults/"}},
		)},
		{name: "fuzz", lane: hostLane, budget: time.Duration(len(targets)+5) * fuzzTime, runs: commands(targets...)},
		{name: "integration-load", lane: hostLane, budget: 90 * time.Minute, prepare: assets(),
			runs: commands(integration("-count=10", "-timeout", "120m")...), load: true},
	}
	for _, name := range []string{"faults-whole", "instances-whole", "faults-instances", "postgresql", "compat-1.33", "compat-1.34", "compat-1.36", "testbed", "outage",
		"databases", "databases-versions", "faults-databases", "testbed-down"} {
		at := slices.IndexFunc(layers, func(l layer) bool { return l.name == name })
		chosen = append(chosen, layers[at])
	}
	return chosen, nil
}
