package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// area is a kind, or several that share most of their code. `make affected` selects by area in the
// layers whose tests run the whole manager, where imports do not help.
type area struct {
	name string
	// folders are those whose changes affect this area only.
	folders []string
	// files are patterns of the area's test files in test/integration. A file of no area belongs to
	// all.
	files []string
	// scenarios are the area's fault tests, if any.
	scenarios []string
	// endToEnd are words in the names of the area's end-to-end tests. TestAreas checks them.
	endToEnd []string
}

// contains reports whether a package, as ./internal/kinds/webapp, is in the area's folders.
func (a area) contains(at string) bool {
	return slices.ContainsFunc(a.folders, func(folder string) bool { return strings.HasPrefix(at+"/", "./"+folder+"/") })
}

var areas = []area{
	{
		name: "webapp", folders: []string{"internal/kinds/webapp", "api/apps"}, scenarios: []string{"webapp"},
		files: []string{"webapp_test.go", "children_test.go", "ownership_test.go", "status_test.go", "refusal_test.go", "fields_test.go",
			"monitors_test.go"},
		endToEnd: []string{"WebApp", "image", "rolling", "autoscaling", "references", "adopted", "crash", "nginx", "profile", "never"},
	},
	{
		name: "appconfig", folders: []string{"internal/kinds/appconfig", "internal/render"}, files: []string{"appconfig_test.go"},
		scenarios: []string{"appconfig-used"},
		endToEnd:  []string{"AppConfig", "at once"},
	},
	{
		name: "appstack", folders: []string{"internal/kinds/appstack", "api/platform"}, files: []string{"appstack*_test.go"},
		scenarios: []string{"appstack"}, endToEnd: []string{"AppStack"},
	},
	{
		name: "configmonitor", folders: []string{"internal/kinds/configmonitor"}, scenarios: []string{"configmonitor", "appconfig-used"},
		files:    []string{"configmonitor_test.go", "evict_test.go", "workload_test.go", "secrets_test.go"},
		endToEnd: []string{"changed configuration", "other kinds", "at once"},
	},
	{
		name: "instrumentation", folders: []string{"internal/kinds/instrumentation", "api/instrumentation"},
		files: []string{"injection*_test.go"}, scenarios: []string{"instrumentation"}, endToEnd: []string{"agent", "at once"},
	},
	{
		name: "postgresql", folders: []string{"internal/kinds/postgresql", "api/database"}, files: []string{"postgresql*_test.go"},
		scenarios: []string{"postgresql"},
	},
	{
		name: "platformpolicy", folders: []string{"internal/kinds/platformpolicy", "internal/policy", "api/policy"},
		files:    []string{"policy_test.go"},
		endToEnd: []string{"policy", "admission"},
	},
	{
		name: "served", folders: []string{"internal/aggregated", "internal/access", "api/farm", "api/records", "cmd/mainstay-apiserver"},
		files:    []string{"apiservice_test.go"},
		endToEnd: []string{"API server"},
	},
}

// product are the folders of what is shipped. A change in them outside all areas affects all areas.
var product = []string{"api", "charts", "cmd", "config", "internal"}

// scope is the areas that a change affects.
type scope struct {
	all   bool
	areas []area
}

// touched returns the scope of changed files. Pages and tests have none: test packages are selected
// by their imports.
func touched(files []string) scope {
	var of scope
	for _, file := range files {
		below := func(folder string) bool { return strings.HasPrefix(file, folder+"/") }
		at := slices.IndexFunc(areas, func(a area) bool { return slices.ContainsFunc(a.folders, below) })
		switch {
		case strings.HasSuffix(file, "_test.go") && !below("test"):
			// The package's own tests run.
		case at >= 0:
			if !slices.ContainsFunc(of.areas, func(a area) bool { return a.name == areas[at].name }) {
				of.areas = append(of.areas, areas[at])
			}
		case slices.ContainsFunc(product, below), below("test") && !below("test/perf"), below("testbed"), file == "go.mod", file == "go.sum":
			of.all = true
		}
	}
	return of
}

// isEmpty reports whether no product code is in scope.
func (s scope) isEmpty() bool { return !s.all && len(s.areas) == 0 }

// served reports whether the tests of our own API server are in scope.
func (s scope) served() bool {
	return s.all || slices.ContainsFunc(s.areas, func(a area) bool { return a.name == "served" })
}

// integration returns the names of the integration tests in scope, in their folder; none means all
// of them.
func (s scope) integration(folder string) ([]string, error) {
	if s.all {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the integration tests: %w", err)
	}
	var names []string
	for _, file := range files {
		owned := owners(filepath.Base(file))
		if len(owned) > 0 && !slices.ContainsFunc(s.areas, func(a area) bool { return slices.Contains(owned, a.name) }) {
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
	if !s.all {
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
	var options []string
	if !s.all {
		var words []string
		for _, a := range s.areas {
			words = append(words, a.endToEnd...)
		}
		if len(words) == 0 {
			return nil
		}
		options = []string{"-run", "^TestMainstay$/^users$/(" + strings.Join(words, "|") + ")"}
	}
	return endToEnd(options...)
}
