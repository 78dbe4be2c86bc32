package main

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// selections choose layers, and tests of them. `make test` is never one of them.
var selections = map[string]func(context.Context) ([]layer, error){
	"quick": quick, "affected": affectedLayers, "flake": flake,
	"nightly": nightly, "nightly-databases": nightlyDatabases,
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

// changedKind returns the area that has changed since main, or the two that share what has changed;
// none if more have, or if the history is not there to say so.
func changedKind(ctx context.Context) []area {
	base, err := since(ctx)
	if err != nil {
		return nil
	}
	files, err := changedFiles(ctx, ".", base)
	if err != nil {
		return nil
	}
	if of := touched(files); !of.all && len(of.areas) <= 2 {
		return of.areas
	}
	return nil
}

// quick returns vet for all build tags, and the pure tests of changed packages, without those that
// only import them.
func quick(ctx context.Context) ([]layer, error) {
	base, err := since(ctx)
	if err != nil {
		return nil, err
	}
	files, err := changedFiles(ctx, ".", base)
	if err != nil {
		return nil, err
	}
	racing, others, err := testedPackages(ctx, ".")
	if err != nil {
		return nil, err
	}
	changed := packagesOf(files, slices.Concat(racing, others))
	unchanged := func(at string) bool { return !changed[at] }
	var tests []goTest
	if others = slices.DeleteFunc(others, unchanged); len(others) > 0 {
		tests = append(tests, goTest{directory: ".", arguments: others})
	}
	if racing = slices.DeleteFunc(racing, unchanged); len(racing) > 0 {
		tests = append(tests, goTest{directory: ".", race: true, arguments: racing})
	}
	vets, err := vetting(".", files)
	if err != nil {
		return nil, err
	}
	return quickLayers(vets, tests), nil
}

// quickLayers returns the layer that vets, and the one with the tests, if there are any.
func quickLayers(vets map[string][]string, tests []goTest) []layer {
	chosen := []layer{{name: "vet", lane: hostLane, budget: time.Minute, prepare: vetAll(vets), builds: []product{ourPackages}}}
	if len(tests) > 0 {
		l := layer{name: "pure", lane: hostLane, budget: 90 * time.Second, partial: true, runs: commands(tests...),
			builds: []product{ourPackages}}
		if slices.ContainsFunc(tests, func(test goTest) bool { return test.race }) {
			l.race, l.builds = true, []product{ourPackages, racingPackages}
		}
		chosen = append(chosen, l)
	}
	return chosen
}

// packagesOf returns those of the packages, such as ./internal/policy, that files belong to.
func packagesOf(files, packages []string) map[string]bool {
	isPackage, found := map[string]bool{}, map[string]bool{}
	for _, at := range packages {
		isPackage[strings.TrimPrefix(at, "./")] = true
	}
	for _, file := range files {
		found["./"+packageOf(file, isPackage)] = true
	}
	return found
}

// vetting returns the arguments of go vet for the product, and for other modules with changed
// files, by module. All build tags that the code has are set at once.
func vetting(root string, files []string) (map[string][]string, error) {
	modules, tags, err := sources(root)
	if err != nil {
		return nil, err
	}
	arguments := []string{"vet", "./..."}
	if len(tags) > 0 {
		arguments = []string{"vet", "-tags", strings.Join(tags, ","), "./..."}
	}
	vets := map[string][]string{}
	for _, module := range modules {
		if module == "." || slices.ContainsFunc(files, func(file string) bool { return isBelow(file, module) }) {
			vets[module] = arguments
		}
	}
	return vets, nil
}

// vetAll runs go vet in modules, with these arguments.
func vetAll(vets map[string][]string) func(context.Context, *step.Log) ([]string, error) {
	return func(ctx context.Context, log *step.Log) ([]string, error) {
		var problems []error
		for _, module := range slices.Sorted(maps.Keys(vets)) {
			vet := goTest{directory: module}.command(ctx, nil)
			vet.Args = append([]string{"go"}, vets[module]...)
			problems = append(problems, log.Do(ctx, "go "+strings.Join(vets[module], " ")+" in "+module, vet))
		}
		return nil, errors.Join(problems...)
	}
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

// need is what the tests of a package need.
type need string

const (
	needsNothing need = "nothing but Go"
	// needsModule is another module: its tests prepare what they need.
	needsModule    need = "another module"
	needsAPIServer need = "an API server"
	needsDatabase  need = "a database server"
	needsCluster   need = "a cluster"
)

// needOf returns what the tests of a package need. TestNeeds fails if it is wrong.
func needOf(p testPackage) need {
	at := strings.TrimPrefix(p.at, "./")
	switch {
	case slices.Contains(p.tags, "e2e"):
		return needsCluster
	case filepath.Clean(p.directory) != ".":
		return needsModule
	case slices.Contains(p.tags, "instances"), at == "test/instances":
		return needsDatabase
	case slices.Contains([]string{"test/faults", "test/integration", "test/served"}, at):
		return needsAPIServer
	default:
		return needsNothing
	}
}

// layersFor returns the layers, limited to some packages and, for tests that run whole programs, to
// a scope.
func layersFor(packages []testPackage, of scope) ([]layer, error) {
	chosen := map[string][]goTest{}
	for _, p := range packages {
		switch at := strings.TrimPrefix(p.at, "./"); needOf(p) {
		case needsNothing:
			command := p.command()
			command.race = slices.Contains(concurrent, at)
			chosen["pure"] = append(chosen["pure"], command)
			if at == longListsIn {
				chosen["pure"] = append(chosen["pure"], longLists)
			}
		case needsModule:
			chosen["tools"] = append(chosen["tools"], p.command())
		case needsDatabase:
			// Of the databases the scope decides: they import the whole manager.
			if len(p.tags) > 0 {
				chosen[instancesLayer] = append(chosen[instancesLayer], p.command())
			}
		case needsAPIServer, needsCluster:
			// The scope decides.
		}
	}
	var err error
	if chosen[integrationLayer], err = integrationFor(of); err != nil {
		return nil, err
	}
	chosen[faultsLayer] = of.faults()
	if of.whole(instancesLayer) {
		chosen[instancesLayer] = append(databasesHere(), chosen[instancesLayer]...)
	}
	chosen[endToEndLayer] = of.endToEnd()
	if of.whole(endToEndLayer) {
		chosen[installationsLayer] = endToEnd("-run", "^TestInstallations$")
	}
	if of.whole(databasesLayer) {
		// With Caches, which the night runs in another layer.
		chosen[databasesLayer] = databaseFaults("-skip", "TestVersions|TestSpeed")
	}
	if len(chosen[endToEndLayer]) > 0 {
		chosen["testbed"], chosen["testbed-down"] = []goTest{testbedTest("^TestUp$")}, []goTest{testbedTest("^TestDown$")}
	}
	var narrowed []layer
	for _, name := range []string{"pure", "tools", integrationLayer, faultsLayer, instancesLayer, "testbed", endToEndLayer, "testbed-down",
		databasesLayer, installationsLayer} {
		if len(chosen[name]) > 0 {
			l := named(name)
			l.partial, l.runs = true, commands(chosen[name]...)
			narrowed = append(narrowed, l)
		}
	}
	return narrowed, nil
}

// integrationFor returns the integration tests in scope.
func integrationFor(of scope) ([]goTest, error) {
	all := testPackage{directory: ".", at: "./test/integration"}
	var tests []goTest
	if of.whole(integrationLayer) {
		tests = append(tests, all.command())
	} else {
		names, err := of.integration("test/integration")
		if err != nil {
			return nil, err
		}
		if all.tests = names; len(names) > 0 {
			tests = append(tests, all.command())
		}
	}
	if of.whole(servedTests) {
		tests = append(tests, goTest{directory: ".", arguments: []string{"./test/served"}})
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
	return flakeLayers(packages), nil
}

// flakeLayers returns the layer that repeats tests, and one for those that need a database server.
func flakeLayers(packages []testPackage) []layer {
	var tests, databases []goTest
	for _, p := range packages {
		command := p.command("-count="+flakeRuns, "-timeout", "60m")
		switch needOf(p) {
		case needsCluster:
		case needsDatabase:
			databases = append(databases, command)
		case needsModule:
			tests = append(tests, command)
		case needsNothing, needsAPIServer:
			command.race = true
			tests = append(tests, command)
		}
	}
	var chosen []layer
	if len(tests) > 0 {
		chosen = append(chosen, layer{name: "flake", lane: hostLane, race: true, budget: 20 * time.Minute, prepare: both(assets(), prometheus),
			runs: commands(tests...), load: true, builds: []product{ourPackages, racingPackages, toolPackages, kubernetes}})
	}
	if len(databases) > 0 {
		chosen = append(chosen, layer{name: "flake-instances", lane: hostLane, budget: 60 * time.Minute, prepare: instances,
			databases: true, runs: commands(databases...), load: true, builds: withDatabases, running: serversSpace})
	}
	return chosen
}

// fuzzTime is how long `make nightly` fuzzes each target.
const fuzzTime = time.Minute

// nightly returns what `make test` has no time for, but what has databases: every fault, the
// previous Kubernetes, a long outage, the race detector and new seeds everywhere, fuzzing, and ten
// runs of the integration tests under load.
func nightly(context.Context) ([]layer, error) {
	targets, err := fuzzing(".", fuzzTime)
	if err != nil {
		return nil, err
	}
	racing := func(tests ...goTest) func(context.Context) ([]goTest, error) {
		for i := range tests {
			tests[i].race = true
		}
		return commands(tests...)
	}
	racingServers := append([]product{racingPackages}, withAPIServer...)
	chosen := []layer{
		{name: "race", lane: hostLane, race: true, budget: 30 * time.Minute, runs: racing(goTest{directory: ".", arguments: append([]string{"-timeout",
			"60m"}, pure...)}), builds: []product{racingPackages}},
		{name: "race-integration", lane: hostLane, race: true, budget: 20 * time.Minute, prepare: assets(), runs: racing(
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/served/"}},
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/integration/..."}},
			goTest{directory: ".", arguments: []string{"-timeout", "60m", "./test/faults/"}},
		), builds: racingServers},
		{name: "fuzz", lane: hostLane, budget: time.Duration(len(targets)+5) * fuzzTime, runs: commands(targets...),
			builds: []product{ourPackages, toolPackages}},
		{name: "integration-load", lane: hostLane, budget: 90 * time.Minute, prepare: assets(),
			runs: commands(integration("-count=10", "-timeout", "120m")...), load: true, builds: withAPIServer},
	}
	for _, name := range []string{"faults-whole", "compat-1.33", "compat-1.34", "compat-1.36", "testbed", "outage", "testbed-down"} {
		chosen = append(chosen, named(name))
	}
	return withNewSeeds(chosen), nil
}

// nightlyDatabases returns what `make test` has no time for of databases: a million schedules of
// their election, faults again and again, and every PostgreSQL and Valkey.
func nightlyDatabases(context.Context) ([]layer, error) {
	var chosen []layer
	for _, name := range []string{"instances-whole", "faults-instances", "postgresql", "valkey", "databases", "databases-alone",
		"databases-versions", "databases-speed", "faults-databases"} {
		chosen = append(chosen, named(name))
	}
	return withNewSeeds(chosen), nil
}

// withNewSeeds makes the random tests of layers try many cases, from a new seed each time.
func withNewSeeds(chosen []layer) []layer {
	for i := range chosen {
		runs := chosen[i].runs
		chosen[i].runs = func(ctx context.Context) ([]goTest, error) {
			tests, err := runs(ctx)
			tests = slices.Clone(tests)
			for i := range tests {
				tests[i].environment = append(slices.Clone(tests[i].environment), cases.Variable+"=long")
			}
			return tests, err
		}
	}
	return chosen
}
