package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// fuzzing returns a command for each fuzz target of the repository, in all its modules: go test
// fuzzes only one target at a time. Each command looks for new inputs for as long as given; the
// inputs that it keeps are in Go's cache, and one that fails is written below testdata/fuzz.
func fuzzing(root string, each time.Duration) ([]goTest, error) {
	var found []goTest
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isSkipped(entry.Name()) && name != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Recv != nil || !strings.HasPrefix(function.Name.Name, "Fuzz") {
				continue
			}
			directory, err := moduleOf(root, filepath.Dir(name))
			if err != nil {
				return err
			}
			at, err := filepath.Rel(directory, filepath.Dir(name))
			if err != nil {
				return err
			}
			found = append(found, goTest{directory: directory, arguments: []string{
				"-run", "^$", "-fuzz", "^" + function.Name.Name + "$", "-fuzztime", each.String(), "./" + filepath.ToSlash(at),
			}})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("finding the fuzz targets: %w", err)
	}
	return found, nil
}

// isSkipped reports whether a folder of this name has no code of ours.
func isSkipped(folder string) bool {
	return strings.HasPrefix(folder, ".") || folder == "bin" || folder == "testdata" || folder == "node_modules"
}

// moduleOf returns the closest folder at or above the given one that has a go.mod, up to root.
func moduleOf(root, folder string) (string, error) {
	for at := folder; ; at = filepath.Dir(at) {
		_, err := os.Stat(filepath.Join(at, "go.mod"))
		if err == nil {
			return at, nil
		}
		if !os.IsNotExist(err) || at == root || at == filepath.Dir(at) {
			return "", fmt.Errorf("finding the module of %s: %w", folder, err)
		}
	}
}

// failingInput matches how a fuzz test names the file of the input with which it failed.
var failingInput = regexp.MustCompile(`Failing input written to (testdata/fuzz/\S+)`)

// showInputs shows the inputs with which fuzz tests failed, and adds them to what is broken. folder
// is that of their package. go test shows only the names of their files, which a workflow's machine
// takes with it.
func (c *counts) showInputs(log *step.Log, folder string) {
	const most = 1 << 16
	for i, text := range c.broken {
		for _, match := range failingInput.FindAllStringSubmatch(text, -1) {
			content, err := os.ReadFile(filepath.Join(folder, match[1]))
			if err != nil {
				content = []byte(err.Error())
			}
			shown := fmt.Sprintf("%s:\n%s\n", match[1], content[:min(len(content), most)])
			c.broken[i] += shown
			log.Say("%s", shown)
		}
	}
}
