package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTouched(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		all   bool
		// areas are those in scope; layers those that run as a whole, and files of integration tests.
		areas, layers string
	}{
		"a kind":                  {[]string{"internal/kinds/webapp/desired.go"}, false, "webapp", ""},
		"its controller":          {[]string{"internal/kinds/webapp/webappcontroller/observe.go"}, false, "webapp", ""},
		"two kinds":               {[]string{"internal/kinds/appconfig/x.go", "internal/kinds/configmonitor/x.go"}, false, "appconfig configmonitor", ""},
		"what two kinds render":   {[]string{"internal/render/x.go"}, false, "appconfig appstack", ""},
		"what two kinds share":    {[]string{"internal/kinds/instrumentation/injection/put.go"}, false, "instrumentation served", "served"},
		"an instance":             {[]string{"internal/instance/act.go"}, false, "instances", "databases instances"},
		"its engine":              {[]string{"internal/postgres/server/clone.go"}, false, "instances", "databases instances"},
		"its protocol":            {[]string{"internal/instance/election/decide.go"}, false, "postgresql cache instances", "databases instances"},
		"databases":               {[]string{"internal/kinds/postgresql/desired.go"}, false, "postgresql", "databases"},
		"caches":                  {[]string{"internal/kinds/cache/desired.go"}, false, "cache", "databases instances"},
		"what kinds share":        {[]string{"internal/kit/apply/apply.go"}, true, "", ""},
		"what rules mean":         {[]string{"internal/policy/check.go"}, true, "", ""},
		"the chart":               {[]string{"charts/mainstay/values.yaml"}, true, "", ""},
		"a page":                  {[]string{"docs/install.md"}, false, "", ""},
		"a script":                {[]string{"hack/smoke.sh"}, false, "", "e2e"},
		"a pure test":             {[]string{"internal/kit/apply/apply_test.go"}, false, "", ""},
		"an end-to-end test":      {[]string{"test/e2e/webapp_test.go"}, false, "", "e2e"},
		"a test of databases":     {[]string{"test/databases/full_test.go"}, false, "", "databases"},
		"an instances test":       {[]string{"test/instances/disk_test.go"}, false, "", "instances"},
		"a served test":           {[]string{"test/served/verbs_test.go"}, false, "", "served"},
		"what tests share":        {[]string{"test/testenv/settle.go"}, true, "", ""},
		"a kind's integration":    {[]string{"test/integration/webapp_test.go"}, false, "", "webapp_test.go"},
		"an integration test":     {[]string{"test/integration/rights_test.go"}, false, "", "integration"},
		"their golden files":      {[]string{"test/integration/testdata/webapp_test.go"}, false, "", "integration"},
		"a measurement":           {[]string{"test/perf/main.go"}, false, "", ""},
		"a name that begins so":   {[]string{"internal/kinds/webappother/x.go"}, true, "", ""},
		"the dependencies":        {[]string{"go.mod"}, true, "", ""},
		"those of another module": {[]string{"tools/lint/go.mod"}, false, "", ""},
		"what installs it":        {[]string{"tools/helm/go.mod"}, false, "", "e2e"},
		"what makes the image":    {[]string{"tools/image/image.go"}, false, "", "e2e"},
		"its dependencies":        {[]string{"tools/image/go.sum"}, false, "", "e2e"},
		"its tests":               {[]string{"tools/image/image_test.go"}, false, "", ""},
		"another program there":   {[]string{"tools/image/registry/main.go"}, false, "", ""},
		"nothing":                 {nil, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := touched(c.files)
			var names []string
			for _, a := range got.areas {
				names = append(names, a.name)
			}
			whole := strings.Join(append(got.layers, got.files...), " ")
			if got.all != c.all || strings.Join(names, " ") != c.areas || whole != c.layers {
				t.Errorf("all is %t, the areas are %v, and as a whole run %q; want %t, %q and %q", got.all, names, whole, c.all, c.areas, c.layers)
			}
		})
	}
}

// imported is what go list says about a package.
type imported struct {
	ImportPath, Dir                    string
	Imports, TestImports, XTestImports []string
}

// importsOf returns the packages of the repository by their folder, each with the folders that it
// imports: with, or without its tests.
func importsOf(t *testing.T, tests bool) map[string][]string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-tags", "e2e,instances", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", "./...")
	list.Dir = repository
	output, err := list.Output()
	if err != nil {
		t.Fatal(withStderr(err))
	}
	found := map[string][]string{}
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p imported
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return found
		} else if err != nil {
			t.Fatal(err)
		}
		all := p.Imports
		if tests {
			all = slices.Concat(all, p.TestImports, p.XTestImports)
		}
		var folders []string
		for _, path := range all {
			if folder, ours := strings.CutPrefix(path, module+"/"); ours {
				folders = append(folders, folder)
			}
		}
		found[strings.TrimPrefix(p.ImportPath, module+"/")] = folders
	}
}

// importersOf returns the packages that import one, directly or not. It does not look beyond those
// in border.
func importersOf(folder string, imports map[string][]string, border []string) map[string]bool {
	found := map[string]bool{}
	for next := []string{folder}; len(next) > 0; {
		at := next[0]
		next = next[1:]
		for importer, all := range imports {
			if slices.Contains(all, at) && !found[importer] {
				found[importer] = true
				if !slices.Contains(border, importer) {
					next = append(next, importer)
				}
			}
		}
	}
	return found
}

// wiring are the packages that import kinds because they are kinds. They use nothing else of them.
var wiring = []string{"internal/setup", "internal/install/crds", "cmd/mainstay"}

// onlyNames are folders of an area that others import for names only: of labels, groups and kinds.
var onlyNames = []string{"api/instrumentation/v1alpha1", "api/farm/v1alpha1"}

// TestReach: a change of any folder of the product has a scope, and the scope has every area that
// imports the folder.
func TestReach(t *testing.T) {
	imports := importsOf(t, false)
	checked := 0
	for folder := range imports {
		if !slices.ContainsFunc(productFolders, func(of string) bool { return isBelow(folder, of) }) || folder == "internal" {
			continue
		}
		checked++
		of := touched([]string{folder + "/x.go"})
		if of.all {
			continue
		}
		if len(of.areas) == 0 {
			t.Errorf("a change of %s affects nothing", folder)
		}
		if slices.Contains(onlyNames, folder) {
			continue
		}
		for importer := range importersOf(folder, imports, wiring) {
			by := touched([]string{importer + "/x.go"})
			if by.all && !slices.Contains(wiring, importer) {
				t.Errorf("%s affects all areas, and imports %s, which affects only some", importer, folder)
			}
			for _, a := range by.areas {
				if !of.has(a.name) {
					t.Errorf("%s is imported by %s: add it to the folders of the area %s", folder, importer, a.name)
				}
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d folders were checked", checked)
	}
}

// TestReachOfTests: a change of any folder of tests has a scope, or is in packages that run without
// one; and the scope has the layers of tests that import the folder.
func TestReachOfTests(t *testing.T) {
	imports := importsOf(t, true)
	for folder := range imports {
		if !isBelow(folder, "test") {
			continue
		}
		of := touched([]string{folder + "/x.go"})
		if !of.all && len(of.layers) == 0 && folder != "test/perf" {
			t.Errorf("a change of %s affects nothing", folder)
		}
		for importer := range importersOf(folder, imports, nil) {
			for _, layer := range programs[importer] {
				if !of.whole(layer) && (!of.all || layer != databasesLayer) {
					t.Errorf("%s is imported by %s, and does not affect %s", folder, importer, layer)
				}
			}
		}
	}
	for folder, layers := range programs {
		if _, found := imports[folder]; !found {
			t.Errorf("there is no folder %s", folder)
		}
		for _, name := range layers {
			if name != servedTests {
				named(name) // panics if it is not there
			}
		}
	}
}

// TestAreas: what areas name is there. A folder or test that was renamed would otherwise be left
// out in silence.
func TestAreas(t *testing.T) {
	tests, err := filepath.Glob(filepath.Join(repository, "test/e2e/*_test.go"))
	if err != nil || len(tests) == 0 {
		t.Fatalf("%d files of end-to-end tests, %v", len(tests), err)
	}
	var endToEnd, faults strings.Builder
	read := func(into *strings.Builder, files []string) {
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			into.Write(content)
		}
	}
	read(&endToEnd, tests)
	scenarios, err := filepath.Glob(filepath.Join(repository, "test/faults/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	read(&faults, scenarios)
	for _, a := range areas {
		for _, folder := range a.folders {
			if _, err := os.Stat(filepath.Join(repository, folder)); err != nil {
				t.Errorf("%s: %v", a.name, err)
			}
		}
		for _, pattern := range a.files {
			if found, err := filepath.Glob(filepath.Join(repository, "test/integration", pattern)); err != nil || len(found) == 0 {
				t.Errorf("%s: no integration tests are in %s (%v)", a.name, pattern, err)
			}
		}
		for _, word := range a.endToEnd {
			if !regexp.MustCompile(`\{"[^"]*` + word + `[^"]*", test\w+\}`).MatchString(endToEnd.String()) {
				t.Errorf("%s: no end-to-end test of users has %q in its name", a.name, word)
			}
		}
		for _, scenario := range a.scenarios {
			if !regexp.MustCompile(`Name:\s+"` + scenario + `"`).MatchString(faults.String()) {
				t.Errorf("%s: there is no fault scenario %q", a.name, scenario)
			}
		}
	}
}

// described returns the commands of layers, one a line.
func described(t *testing.T, chosen []layer) string {
	t.Helper()
	var lines []string
	for _, l := range chosen {
		tests, err := l.runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range tests {
			line := l.name + " " + strings.Join(test.arguments, " ")
			if test.race {
				line += " (race)"
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// TestLayersFor: only what is in scope, each test with what it needs.
func TestLayersFor(t *testing.T) {
	t.Chdir(repository)
	packages := []testPackage{
		{directory: ".", at: "./internal/kit/transport/retrytransport"}, {directory: ".", at: "./internal/policy"}, {directory: ".", at: "./internal/setup"},
		{directory: ".", at: "./test/e2e", tags: []string{"e2e"}}, {directory: ".", at: "./test/faults"},
		{directory: "tools/image", at: "."}, {directory: ".", at: "./test/integration"}, {directory: ".", at: "./test/instances"},
		{directory: "testbed", at: "./e2e", tags: []string{"e2e"}},
		{directory: ".", at: "./internal/postgres/server"}, {directory: ".", at: "./internal/postgres/server", tags: []string{"instances"}},
	}
	for file, c := range map[string]struct{ wanted, unwanted []string }{
		"internal/policy/admissionpolicy/rules.go": {
			[]string{"pure ./internal/kit/transport/retrytransport (race)", "pure ./internal/policy", "^TestLongLists$ ./internal/setup/\n", "tools .",
				"TestPolicyWithAnAutoscaler", "TestMetricsOfAWebApp", "$/^(users|shops)$/(policy|", "testbed ", "testbed-down "},
			[]string{"TestAppConfigCanary", "test/served", "faults", "databases", "./test/instances"},
		},
		"internal/instance/act.go": {
			[]string{"pure ./internal/postgres/server", "instances -tags instances ./internal/postgres/server",
				"./test/instances/", "./test/simulation/", "TestInstanceMakesWhatGoesWithTheDatabase", "databases -tags e2e"},
			[]string{"test/served", "testbed ", "faults", "e2e -tags", "TestPolicyWithAnAutoscaler"},
		},
		"internal/kinds/postgresql/desired.go": {
			[]string{"databases -tags e2e", "faults ", "/^(postgresql)$"}, []string{"e2e -tags", "./test/instances/"},
		},
		"internal/kinds/cache/parameters.go": {
			[]string{"databases -tags", "-skip TestVersions|TestSpeed", "faults ", "/^(cache)$", "./test/instances/"}, []string{"e2e -tags"},
		},
		"test/integration/webapp_test.go": {
			[]string{"integration "}, []string{"TestMetricsOfAWebApp", "TestAppConfigCanary", "test/served", "faults", "testbed "},
		},
		"internal/kit/apply/apply.go": {
			[]string{"integration ./test/integration", "./test/served", "faults ", "./test/instances/", "e2e -tags"},
			[]string{"databases -tags"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			chosen, err := layersFor(packages, touched([]string{file}))
			if err != nil {
				t.Fatal(err)
			}
			all := described(t, chosen)
			for _, want := range c.wanted {
				if !strings.Contains(all, want) {
					t.Errorf("%s is not chosen:\n%s", want, all)
				}
			}
			for _, unwanted := range c.unwanted {
				if strings.Contains(all, unwanted) {
					t.Errorf("%s is chosen:\n%s", unwanted, all)
				}
			}
			for _, l := range chosen {
				if l.name == instancesLayer && l.prepare == nil {
					t.Error("no database server is prepared")
				}
			}
		})
	}
}
