package main

import (
	"slices"
	"testing"
)

func TestChoose(t *testing.T) {
	for name, c := range map[string]struct{ names, want []string }{
		"nothing named": {nil, []string{"verify", "pure", "tools", "integration", "faults", "instances", "testbed", "e2e", "testbed-down",
			"databases-brief", "installations"}},
		"in the order they came": {[]string{"e2e", "pure"}, []string{"e2e", "pure"}},
		"one on request":         {[]string{"compat-1.33"}, []string{"compat-1.33"}},
	} {
		t.Run(name, func(t *testing.T) {
			chosen, err := choose(t.Context(), c.names)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, layer := range chosen {
				got = append(got, layer.name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("chose %v, want %v", got, c.want)
			}
		})
	}
	if _, err := choose(t.Context(), []string{"pure", "nonsense"}); err == nil {
		t.Error("a layer that is not there is accepted")
	}
	if _, err := choose(t.Context(), []string{"quick", "pure"}); err == nil {
		t.Error("a selection is accepted beside a layer")
	}
}

// TestWithManyCases: the property tests of a changed kind try many cases, the others few.
func TestWithManyCases(t *testing.T) {
	packages := []string{"./internal/kinds/webapp", "./internal/kinds/webapp/webappcontroller", "./internal/kinds/webappother", "./docs"}
	tests := withManyCases(packages, areas[:1])
	if len(tests) != 2 || !slices.Equal(tests[0].arguments, packages[2:]) || !slices.Equal(tests[1].arguments, packages[:2]) ||
		!slices.Equal(tests[1].environment, []string{"MAINSTAY_TEST_CASES=many"}) {
		t.Errorf("got %+v", tests)
	}
	if tests := withManyCases(packages, nil); len(tests) != 1 || !slices.Equal(tests[0].arguments, packages) {
		t.Errorf("got %+v", tests)
	}
}

// TestInherited: GOGC is set for tests and for test clusters, unless the user has set it.
func TestInherited(t *testing.T) {
	for set, want := range map[string]string{"": "GOGC=400", "50": "GOGC=50"} {
		t.Setenv("GOGC", set)
		cluster := clusters[clusterLane].command(t.Context(), "up").Env
		for of, given := range map[string][]string{"tests": environment(false, nil), "a cluster": cluster} {
			if !slices.Contains(given, want) {
				t.Errorf("GOGC=%q: no %s for %s in %q", set, want, of, given)
			}
		}
	}
}
