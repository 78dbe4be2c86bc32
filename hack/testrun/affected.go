package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listed is what go list says about a package, or about its test binary.
type listed struct {
	ImportPath, Dir            string
	Deps                       []string
	TestGoFiles, XTestGoFiles  []string
	EmbedFiles, TestEmbedFiles []string
	XTestEmbedFiles            []string
	module, folder             string // module and folder of the package, relative to the repository's root
}

// affectedPackages returns the packages of all modules, with or without tests, that a change since
// base can affect: packages that import a changed one, directly or not, themselves or in their
// tests; packages that embed a changed file; and packages whose tests read one, found by the paths
// in their source. It does not know which programs a test runs.
func affectedPackages(ctx context.Context, root, base string) ([]testPackage, error) {
	files, err := changedFiles(ctx, root, base)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	modules, err := loadModules(ctx, root)
	if err != nil {
		return nil, err
	}
	return affected(root, modules, files)
}

// loadModules lists the packages of all modules, as if every build tag were set.
func loadModules(ctx context.Context, root string) ([][]listed, error) {
	modules, tags, err := sources(root)
	if err != nil {
		return nil, err
	}
	var loaded [][]listed
	for _, module := range modules {
		packages, err := list(ctx, root, module, tags)
		if err != nil {
			return nil, err
		}
		loaded = append(loaded, packages)
	}
	return loaded, nil
}

// affected returns the packages that these files affect.
func affected(root string, modules [][]listed, files []string) ([]testPackage, error) {
	var found []testPackage
	for _, packages := range modules {
		reached, err := reach(root, packages, files)
		if err != nil {
			return nil, err
		}
		for _, folder := range reached {
			module := packages[0].module
			at, err := filepath.Rel(module, folder)
			if err != nil {
				return nil, fmt.Errorf("naming the packages of %s: %w", module, err)
			}
			forms, err := testedForms(filepath.Join(root, folder))
			if err != nil {
				return nil, err
			}
			for _, tags := range forms {
				found = append(found, testPackage{directory: filepath.Join(root, module), at: "./" + filepath.ToSlash(at), tags: tags})
			}
		}
	}
	return found, nil
}

// testedForms returns the build tags with which the tests of a folder run: none, if it has tests
// without a tag or no tests at all, and those of the others, such as [] and [instances].
func testedForms(folder string) ([][]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, fmt.Errorf("listing the tests in %s: %w", folder, err)
	}
	var forms [][]string
	for _, name := range names {
		tags, err := tagsOfFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the tests in %s: %w", folder, err)
		}
		forms = append(forms, tags)
	}
	slices.SortFunc(forms, slices.Compare)
	forms = slices.CompactFunc(forms, slices.Equal)
	if len(forms) == 0 {
		return [][]string{nil}, nil
	}
	return forms, nil
}

// tagsOfFile returns the build tags that a file requires, sorted, without those of platforms.
func tagsOfFile(name string) ([]string, error) {
	// Only the comments above the package clause.
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	tags := slices.DeleteFunc(tagsOf(file), func(tag string) bool { return slices.Contains(platforms, tag) })
	slices.Sort(tags)
	return slices.Compact(tags), nil
}

// platforms are build tags that the go command sets itself: they choose no tests.
var platforms = []string{"linux", "darwin", "windows", "unix", "amd64", "arm64", "cgo", "race"}

// sources returns the modules of the repository that have Go code, and all build tags that the code
// has.
func sources(root string) (modules, tags []string, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isSkipped(entry.Name()) && name != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		module, err := moduleOf(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		if module, err = filepath.Rel(root, module); err != nil {
			return err
		}
		modules = append(modules, module)
		required, err := tagsOfFile(name)
		if err != nil {
			return err
		}
		tags = append(tags, required...)
		return nil
	})
	if err != nil {
		return nil, nil, fmt.Errorf("finding the modules: %w", err)
	}
	slices.Sort(modules)
	slices.Sort(tags)
	return slices.Compact(modules), slices.Compact(tags), nil
}

// list runs go list for the packages of a module and their tests.
func list(ctx context.Context, root, module string, tags []string) ([]listed, error) {
	command := exec.CommandContext(ctx, "go", "list", "-e", "-test", "-tags", strings.Join(tags, ","),
		"-json=ImportPath,Dir,Deps,TestGoFiles,XTestGoFiles,EmbedFiles,TestEmbedFiles,XTestEmbedFiles", "./...")
	command.Dir = filepath.Join(root, module)
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", module, withStderr(err))
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", module, err)
	}
	if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
		return nil, fmt.Errorf("listing the packages of %s: %w", module, err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("listing the packages of %s: %w", module, err)
		}
		if p.folder, err = filepath.Rel(absolute, p.Dir); err != nil {
			return nil, fmt.Errorf("listing the packages of %s: %w", module, err)
		}
		p.module = module
		packages = append(packages, p)
	}
}

// reach returns the folders of the packages that changed files affect.
func reach(root string, packages []listed, files []string) ([]string, error) {
	// What changed for importers, by import path; and folders whose tests at least must run.
	changed, reached := map[string]bool{}, map[string]bool{}
	isPackage := map[string]bool{}
	for _, p := range packages {
		isPackage[p.folder] = true
	}
	for _, p := range packages {
		if strings.Contains(p.ImportPath, " ") || strings.HasSuffix(p.ImportPath, ".test") {
			continue // the package again as its tests see it
		}
		reads, err := readPaths(root, p)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			switch {
			case changesCode(p, file):
				changed[p.ImportPath] = true
				reached[p.folder] = true
			case changesTests(p, file, isPackage), slices.ContainsFunc(reads,
				func(at string) bool { return at == "." || at == file || strings.HasPrefix(file, at+"/") }):
				reached[p.folder] = true
			}
		}
	}
	for _, p := range packages {
		if slices.ContainsFunc(p.Deps, func(imported string) bool {
			plain, _, _ := strings.Cut(imported, " ") // "p [q.test]" is p as the tests of q see it
			return changed[plain]
		}) {
			reached[p.folder] = true
		}
	}
	return slices.Sorted(maps.Keys(reached)), nil
}

// changesCode reports whether a file is part of what a package's importers compile.
func changesCode(p listed, file string) bool {
	if path.Base(file) == "go.mod" || path.Base(file) == "go.sum" {
		return path.Dir(file) == p.module
	}
	if strings.HasSuffix(file, ".go") {
		return path.Dir(file) == p.folder && !strings.HasSuffix(file, "_test.go")
	}
	return slices.ContainsFunc(p.EmbedFiles, func(embedded string) bool { return path.Join(p.folder, embedded) == file })
}

// changesTests reports whether a file belongs to the tests of a package: a test file, or any other
// file below the package and no other package.
func changesTests(p listed, file string, isPackage map[string]bool) bool {
	return packageOf(file, isPackage) == p.folder
}

// packageOf returns the folder of the package that a file belongs to: Go code to that of its own
// folder, and what is embedded or read by tests to the nearest one that encloses it.
func packageOf(file string, isPackage map[string]bool) string {
	at := path.Dir(file)
	if strings.HasSuffix(file, ".go") && !strings.Contains(file, "testdata/") {
		return at
	}
	for !isPackage[at] && at != "." {
		at = path.Dir(at)
	}
	return at
}

// readPaths returns the files and folders outside a package that its tests name, relative to the
// repository's root: "." is all of it.
func readPaths(root string, p listed) ([]string, error) {
	var found []string
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, p.folder, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("reading the tests of %s: %w", p.ImportPath, err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				// filepath.Join("..", "..", "config", name)
				if selector, ok := node.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Join" {
					found = appendPath(found, p.folder, node.Args...)
					return false
				}
			case *ast.BasicLit:
				found = appendPath(found, p.folder, node)
			}
			return true
		})
	}
	return found, nil
}

// appendPath adds the path formed by consecutive string literals without a pattern, if it leads out
// of the folder.
func appendPath(found []string, folder string, parts ...ast.Expr) []string {
	at := ""
	for _, part := range parts {
		literal, ok := part.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			break
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			break
		}
		before, _, pattern := strings.Cut(text, "*")
		if pattern {
			at = path.Join(at, before[:strings.LastIndex(before, "/")+1])
			break
		}
		at = path.Join(at, text)
	}
	if at != ".." && !strings.HasPrefix(at, "../") {
		return found
	}
	return append(found, path.Join(folder, at))
}
