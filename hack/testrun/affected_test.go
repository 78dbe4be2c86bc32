package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repositoryOf is a small repository whose packages depend on each other in every way.
var repositoryOf = map[string]string{
	"go.mod":                   "module m\n\ngo 1.26\n",
	"tools/go.mod":             "module tools\n\ngo 1.26\n",
	"README.md":                "# M\n",
	"base/base.go":             "package base\n\nconst X = 1\n",
	"base/base_test.go":        "package base\n",
	"over/over.go":             "package over\n\nimport \"m/base\"\n\nconst X = base.X\n",
	"top/top.go":               "package top\n\nimport \"m/over\"\n\nconst X = over.X\n",
	"tests/tests.go":           "package tests\n",
	"tests/tests_test.go":      "package tests_test\n\nimport _ \"m/base\"\n",
	"tests/testdata/x.yaml":    "a: 1\n",
	"tagged/tagged_test.go":    "//go:build e2e\n\npackage tagged\n\nimport _ \"m/over\"\n",
	"mixed/mixed_test.go":      "package mixed\n\nimport _ \"m/over\"\n",
	"mixed/server_test.go":     "//go:build linux && instances\n\npackage mixed\n",
	"alone/alone.go":           "package alone\n",
	"embeds/embeds.go":         "package embeds\n\nimport _ \"embed\"\n\n//go:embed files/*.yaml\nvar F string\n",
	"embeds/files/f.yaml":      "f: 1\n",
	"user/user.go":             "package user\n\nimport _ \"m/embeds\"\n",
	"config/sample.yaml":       "s: 1\n",
	"reader/reader_test.go":    "package reader\n\nimport \"path/filepath\"\n\nvar f = filepath.Join(\"..\", \"config\", f)\n",
	"globs/globs_test.go":      "package globs\n\nconst f = \"../config/*.yaml\"\n",
	"all/all_test.go":          "package all\n\nconst f = \"..\"\n",
	"tools/t/t.go":             "package t\n",
	"tools/t/t_test.go":        "package t\n\nconst f = \"../../config/sample.yaml\"\n",
	"embeds/files/unknown.txt": "none\n",
}

func TestAffected(t *testing.T) {
	root := t.TempDir()
	write(t, root, repositoryOf)
	modules, err := loadModules(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for changed, want := range map[string]string{
		"base/base.go":          "all base mixed mixed(instances) over tagged(e2e) tests top",
		"base/base_test.go":     "all base",
		"base/gone.go":          "all base mixed mixed(instances) over tagged(e2e) tests top",
		"over/over.go":          "all mixed mixed(instances) over tagged(e2e) top",
		"alone/alone.go":        "all alone",
		"tests/tests_test.go":   "all tests",
		"tests/testdata/x.yaml": "all tests",
		"tagged/tagged_test.go": "all tagged(e2e)",
		"mixed/server_test.go":  "all mixed mixed(instances)",
		"embeds/files/f.yaml":   "all embeds user",
		// Not embedded, but the tests may read it.
		"embeds/files/unknown.txt": "all embeds",
		"config/sample.yaml":       "all globs reader tools/t",
		"README.md":                "all",
		"go.mod":                   "all alone base embeds globs mixed mixed(instances) over reader tagged(e2e) tests top user",
		"tools/go.mod":             "all tools/t",
		"tools/t/t.go":             "all tools/t",
	} {
		t.Run(changed, func(t *testing.T) {
			found, err := affected(root, modules, []string{changed})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				at, err := filepath.Rel(root, filepath.Join(p.directory, p.at))
				if err != nil {
					t.Fatal(err)
				}
				if len(p.tags) > 0 {
					at += "(" + strings.Join(p.tags, ",") + ")"
				}
				got = append(got, at)
			}
			if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestAffectedHere: the same with the packages of this repository.
func TestAffectedHere(t *testing.T) {
	packages, err := list(t.Context(), repository, ".", []string{"e2e"})
	if err != nil {
		t.Fatal(err)
	}
	found, err := affected(repository, [][]listed{packages}, []string{"internal/kit/transport/retrytransport/retrytransport.go"})
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]bool{}
	for _, p := range found {
		ways[p.at] = true
	}
	for _, want := range []string{"./internal/kit/transport/retrytransport", "./internal/setup", "./cmd/mainstay"} {
		if !ways[want] {
			t.Errorf("a change of internal/kit/transport/retrytransport does not affect %s, but %v", want, ways)
		}
	}
	if ways["./internal/kit/image"] {
		t.Error("a change of internal/kit/transport/retrytransport affects internal/kit/image")
	}
}
