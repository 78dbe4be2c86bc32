package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTouched(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		all   bool
		areas string
	}{
		"a kind":                {[]string{"internal/kinds/webapp/desired.go"}, false, "webapp"},
		"its controller":        {[]string{"internal/kinds/webapp/webappcontroller/observe.go"}, false, "webapp"},
		"two kinds":             {[]string{"internal/policy/check.go", "internal/kinds/instrumentation/injection/put.go"}, false, "platformpolicy instrumentation"},
		"what kinds share":      {[]string{"internal/kit/apply/apply.go"}, true, ""},
		"the chart":             {[]string{"charts/mainstay/values.yaml"}, true, ""},
		"a page":                {[]string{"docs/install.md"}, false, ""},
		"a pure test":           {[]string{"internal/kit/apply/apply_test.go"}, false, ""},
		"an end-to-end test":    {[]string{"test/e2e/webapp_test.go"}, true, ""},
		"a served test":         {[]string{"test/served/verbs_test.go"}, true, ""},
		"what tests share":      {[]string{"test/testenv/settle.go"}, true, ""},
		"an integration test":   {[]string{"test/integration/webapp_test.go"}, true, ""},
		"a name that begins so": {[]string{"internal/kinds/webappother/x.go"}, true, ""},
		"the dependencies":      {[]string{"go.mod"}, true, ""},
		"nothing":               {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := touched(c.files)
			var names []string
			for _, a := range got.areas {
				names = append(names, a.name)
			}
			if got.all != c.all || strings.Join(names, " ") != c.areas {
				t.Errorf("all is %t and the areas are %v, want %t and %q", got.all, names, c.all, c.areas)
			}
		})
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

// TestLayersFor: only what is in scope, each test with what it needs.
func TestLayersFor(t *testing.T) {
	t.Chdir(repository)
	packages := []testPackage{
		{directory: ".", at: "./internal/kit/transport/retrytransport"}, {directory: ".", at: "./internal/policy"}, {directory: ".",
			at: "./test/e2e", tags: []string{"e2e"}},
		{directory: ".", at: "./test/faults"}, {directory: "tools/image", at: "."}, {directory: ".", at: "./test/integration"},
	}
	chosen, err := layersFor(packages, touched([]string{"internal/policy/check.go"}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range chosen {
		tests, err := l.runs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range tests {
			got = append(got, l.name+" "+strings.Join(test.arguments, " "))
			if racing := strings.HasSuffix(got[len(got)-1], "internal/kit/transport/retrytransport"); racing != test.race {
				t.Errorf("%s: race is %t", got[len(got)-1], test.race)
			}
		}
	}
	all := strings.Join(got, "\n")
	for _, want := range []string{"pure ./internal/kit/transport/retrytransport", "pure ./internal/policy", "tools .",
		"TestPolicyWithAnAutoscaler", "TestMetricsOfAWebApp", "$/^users$/(policy|"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is not chosen:\n%s", want, all)
		}
	}
	for _, unwanted := range []string{"TestAppConfigCanary", "test/served", "faults"} {
		if strings.Contains(all, unwanted) {
			t.Errorf("%s is chosen:\n%s", unwanted, all)
		}
	}
}
