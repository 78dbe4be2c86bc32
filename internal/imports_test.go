package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// importNames returns, for packages of Kubernetes and of our API, the names under which files
// import them, each with one of the files. No name is the package's own.
func importNames(files map[string]*ast.File) map[string]map[string]string {
	found := map[string]map[string]string{}
	for file, parsed := range files {
		for _, spec := range parsed.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			host, _, _ := strings.Cut(path, "/")
			isOurs := strings.HasPrefix(path, "github.com/mainstay-platform/mainstay/api/")
			name := ""
			if spec.Name != nil {
				name = spec.Name.Name
			}
			if !strings.HasSuffix(host, "k8s.io") && !isOurs || name == "_" {
				continue
			}
			if found[path] == nil {
				found[path] = map[string]string{}
			}
			found[path][name] = file
		}
	}
	return found
}

// TestImportNames: a package of Kubernetes or of our API has one name in all modules. The linter
// has a line in .golangci.yml for each that needs one.
func TestImportNames(t *testing.T) {
	files, positions := map[string]*ast.File{}, token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(entry.Name(), "zz_generated") {
			return nil
		}
		files[name], err = parser.ParseFile(positions, name, nil, parser.ImportsOnly)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	found := importNames(files)
	if len(found) < 100 {
		t.Fatalf("only %d packages were found", len(found))
	}
	for path, names := range found {
		if len(names) > 1 {
			t.Errorf("%s is imported as %q: give it one name in .golangci.yml", path, names)
		}
	}
}

func TestImportNamesFinds(t *testing.T) {
	files := map[string]*ast.File{}
	for name, source := range map[string]string{
		"a.go": `import corev1 "k8s.io/api/core/v1"; import "k8s.io/client-go/rest"; import c "cmp"; import _ "sigs.k8s.io/x"`,
		"b.go": `import v1 "k8s.io/api/core/v1"; import "k8s.io/client-go/rest"; import "cmp"; import "sigs.k8s.io/x"`,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), name, "package x; "+source, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = file
	}
	for path, want := range map[string][]string{
		"k8s.io/api/core/v1": {"corev1", "v1"}, "k8s.io/client-go/rest": {""}, "sigs.k8s.io/x": {""}, "cmp": nil,
	} {
		if got := slices.Sorted(maps.Keys(importNames(files)[path])); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
