package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// area is a kind, or several that share most of their code. `make affected` selects by area in the
// layers whose tests run the whole manager, where imports do not help.
type area struct {
	name string
	// folders are those whose changes affect the area. A folder of several areas affects all of them.
	// A folder below it belongs to other areas if one of them names it.
	folders []string
	// files are patterns of the area's test files in test/integration. A file of no area belongs to
	// all.
	files []string
	// scenarios are the area's fault tests, if any.
	scenarios []string
	// endToEnd are words in the names of the area's end-to-end tests. TestAreas checks them.
	endToEnd []string
	// layers run as a whole.
	layers []string
}

// contains reports whether a package, as ./internal/kinds/webapp, is in the area's folders.
func (a area) contains(at string) bool {
	return slices.ContainsFunc(a.folders, func(folder string) bool { return isBelow(at, "./"+folder) })
}

// longest returns the longest of the folders that have a file, "" if none has it.
func longest(file string, folders iter.Seq[string]) string {
	found := ""
	for folder := range folders {
		if isBelow(file, folder) && len(folder) > len(found) {
			found = folder
		}
	}
	return found
}

// isBelow reports whether a path is a folder or in it.
func isBelow(at, folder string) bool { return strings.HasPrefix(at+"/", folder+"/") }

// areas are complete: TestReach fails if a folder is imported by an area to which it does not
// belong.
var areas = []area{
	{
		name: "webapp", folders: []string{"internal/kinds/webapp", "api/apps"}, scenarios: []string{"webapp"},
		files: []string{"webapp_test.go", "children_test.go", "ownership_test.go", "status_test.go", "refusal_test.go", "fields_test.go",
			"monitors_test.go", "bindings_test.go"},
		endToEnd: []string{"WebApp", "image", "rolling", "autoscaling", "references", "adopted", "crash", "nginx", "profile", "never"},
	},
	{
		name: "appconfig", folders: []string{"internal/kinds/appconfig", "internal/render"}, files: []string{"appconfig_test.go"},
		scenarios: []string{"appconfig-used"},
		endToEnd:  []string{"AppConfig", "at once"},
	},
	{
		name: "appstack", folders: []string{"internal/kinds/appstack", "internal/render", "api/platform", "api/apps"},
		files:     []string{"appstack*_test.go"},
		scenarios: []string{"appstack"}, endToEnd: []string{"AppStack"},
	},
	{
		name: "ecommerceplatform", folders: []string{"internal/kinds/ecommerceplatform", "api/platform", "api/apps", "api/database"},
		files: []string{"ecommerceplatform*_test.go"}, scenarios: []string{"ecommerceplatform"}, endToEnd: []string{"EcommercePlatforms"},
	},
	{
		name: "configmonitor", folders: []string{"internal/kinds/configmonitor"}, scenarios: []string{"configmonitor", "appconfig-used"},
		files:    []string{"configmonitor_test.go", "evict_test.go", "workload_test.go", "secrets_test.go"},
		endToEnd: []string{"changed configuration", "other kinds", "at once"},
	},
	{
		name: "instrumentation", folders: []string{"internal/kinds/instrumentation", "api/instrumentation",
			"internal/kinds/instrumentation/injection"},
		files: []string{"injection*_test.go"}, scenarios: []string{"instrumentation"}, endToEnd: []string{"agent", "at once"},
	},
	{
		// What the manager shares with the instances belongs to both.
		name: "postgresql", folders: []string{"internal/kinds/postgresql", "api/database", "internal/postgres", "internal/database",
			"internal/database/databasecontroller",
			"internal/instance/contract", "internal/instance/election", "internal/instance/engine"},
		files: []string{"postgresql*_test.go", "bindings_test.go"}, scenarios: []string{"postgresql"}, layers: []string{databasesLayer},
	},
	{
		name: "cache", folders: []string{"internal/kinds/cache", "internal/valkey", "internal/database", "internal/database/databasecontroller", "api/database",
			"internal/instance/contract", "internal/instance/election"},
		files: []string{"cache_test.go"}, scenarios: []string{"cache"}, layers: []string{instancesLayer, databasesLayer},
	},
	{
		name: "instances", folders: []string{"internal/instance", "internal/postgres", "internal/pgbouncer", "cmd/mainstay-instance", "internal/postgres/server",
			"internal/valkey", "internal/valkey/server", "internal/instance/contract", "internal/instance/election", "internal/instance/engine"},
		files: []string{"instancecluster_test.go"}, layers: []string{instancesLayer, databasesLayer},
	},
	{
		name: "platformpolicy", folders: []string{"internal/kinds/platformpolicy", "internal/policy/admissionpolicy"},
		files:    []string{"policy_test.go", "workloadpolicy_test.go"},
		endToEnd: []string{"policy", "admission"},
	},
	{
		// The description of a FarmPod says what is injected into it.
		name: "served", folders: []string{"internal/aggregated", "internal/access", "api/farm", "api/records", "cmd/mainstay-apiserver",
			"internal/kinds/instrumentation/injection"},
		files:    []string{"apiservice_test.go"},
		endToEnd: []string{"API server"}, layers: []string{servedTests},
	},
}

// productFolders are the folders of what is shipped. A change in them outside all areas affects all
// areas.
var productFolders = []string{"api", "charts", "cmd", "config", "internal"}

// programs are tests and helpers of tests that run whole programs, with the layers that run them.
// What tests share is in none of these, and affects all layers.
var programs = map[string][]string{
	"test/databases":    {databasesLayer},
	"test/e2e":          {endToEndLayer},
	"test/faults":       {faultsLayer},
	"test/faults/proxy": {faultsLayer, integrationLayer, servedTests, instancesLayer},
	"test/instances":    {instancesLayer},
	"test/ledger":       {instancesLayer, databasesLayer},
	"test/perf":         {},
	"test/served":       {servedTests},
	"test/simulation":   {instancesLayer},
}

// The layers of which a scope may have all tests, or some. The tests of our own API server are a
// part of the layer integration.
const (
	integrationLayer = "integration"
	faultsLayer      = "faults"
	instancesLayer   = "instances"
	endToEndLayer    = "e2e"
	databasesLayer   = "databases"
	servedTests      = "served"
	// installationsLayer runs when all of the layer e2e does.
	installationsLayer = "installations"
)

// scope is what a change affects of the tests that run whole programs.
type scope struct {
	// all are the layers of `make test`. Those on request are in layers.
	all   bool
	areas []area
	// layers run as a whole.
	layers []string
	// files are test files in test/integration.
	files []string
}

// touched returns the scope of changed files. Pages have none, nor have tests that run no program:
// these are selected by their imports.
func touched(files []string) scope {
	var of scope
	for _, file := range files {
		switch {
		case isBelow(file, "test"):
			of.addTest(file)
		case strings.HasSuffix(file, "_test.go"):
			// The package's own tests run.
		default:
			of.add(file)
		}
	}
	slices.Sort(of.layers)
	of.layers = slices.Compact(of.layers)
	return of
}

// add adds what a changed file affects that is no test.
func (s *scope) add(file string) {
	below := func(folder string) bool { return isBelow(file, folder) }
	folder := longest(file, func(yield func(string) bool) {
		for _, a := range areas {
			for _, folder := range a.folders {
				if !yield(folder) {
					return
				}
			}
		}
	})
	for _, a := range areas {
		if slices.Contains(a.folders, folder) && !s.has(a.name) {
			s.areas = append(s.areas, a)
			s.layers = append(s.layers, a.layers...)
		}
	}
	// The end-to-end tests run the Makefile, the scripts and Helm, and pods of the image.
	deploys := file == "Makefile" || path.Dir(file) == "hack" && path.Ext(file) == ".sh" || path.Dir(file) == "tools/image" ||
		file == "tools/helm/go.mod" || file == "tools/helm/go.sum"
	switch {
	case folder != "":
	case deploys:
		s.layers = append(s.layers, endToEndLayer)
	case slices.ContainsFunc(productFolders, below), below("testbed"), file == "go.mod", file == "go.sum":
		s.all = true
	}
}

// addTest adds what a changed file below test affects.
func (s *scope) addTest(file string) {
	if path.Dir(file) == "test/integration" && len(owners(path.Base(file))) > 0 {
		s.files = append(s.files, path.Base(file))
		return
	}
	if isBelow(file, "test/integration") {
		s.layers = append(s.layers, integrationLayer)
		return
	}
	if folder := longest(file, maps.Keys(programs)); folder != "" {
		s.layers = append(s.layers, programs[folder]...)
		return
	}
	s.all = true
}

// has reports whether an area is in scope.
func (s scope) has(name string) bool {
	return slices.ContainsFunc(s.areas, func(a area) bool { return a.name == name })
}

// whole reports whether all tests of a layer are in scope.
func (s scope) whole(layer string) bool {
	return s.all && layer != databasesLayer || slices.Contains(s.layers, layer)
}

// integration returns the names of the integration tests in scope, in their folder.
func (s scope) integration(folder string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the integration tests: %w", err)
	}
	var names []string
	for _, file := range files {
		owned := owners(filepath.Base(file))
		inScope := slices.ContainsFunc(owned, s.has) || len(owned) == 0 && len(s.areas) > 0
		if !inScope && !slices.Contains(s.files, filepath.Base(file)) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the integration tests: %w", err)
		}
		for _, declaration := range parsed.Decls {
			if function, ok := declaration.(*ast.FuncDecl); ok && function.Recv == nil && isTest.MatchString(function.Name.Name) &&
				function.Name.Name != "TestMain" {
				names = append(names, function.Name.Name)
			}
		}
	}
	return names, nil
}

// owners returns the names of the areas that a file of integration tests belongs to.
func owners(file string) []string {
	var names []string
	for _, a := range areas {
		if slices.ContainsFunc(a.files, func(pattern string) bool { matched, _ := filepath.Match(pattern, file); return matched }) {
			names = append(names, a.name)
		}
	}
	return names
}

// faults returns the fault tests in scope.
func (s scope) faults() []goTest {
	var options []string
	if !s.whole(faultsLayer) {
		var scenarios []string
		for _, a := range s.areas {
			scenarios = append(scenarios, a.scenarios...)
		}
		if len(scenarios) == 0 {
			return nil
		}
		options = []string{"-run", "/^(" + strings.Join(scenarios, "|") + ")$"}
	}
	return faults(options...)
}

// endToEnd returns the end-to-end tests in scope.
func (s scope) endToEnd() []goTest {
	options := []string{"-run", "^TestMainstay$"}
	if !s.whole(endToEndLayer) {
		var words []string
		for _, a := range s.areas {
			words = append(words, a.endToEnd...)
		}
		if len(words) == 0 {
			return nil
		}
		options = []string{"-run", "^TestMainstay$/^(users|shops)$/(" + strings.Join(words, "|") + ")"}
	}
	return endToEnd(options...)
}
