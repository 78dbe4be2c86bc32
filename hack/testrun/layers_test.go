package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// commandsOfLayers returns the commands of all layers by the layer's name. Those that ask the
// testbed for images get the answer of a stand-in.
func commandsOfLayers(t *testing.T) map[string][]goTest {
	t.Helper()
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	standIn := t.TempDir()
	write(t, standIn, map[string]string{"bin/testbed": "#!/bin/sh\necho /image\n"})
	if err := os.Chmod(filepath.Join(standIn, "bin/testbed"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	found := map[string][]goTest{}
	for _, l := range layers {
		if l.runs == nil {
			continue
		}
		if l.name == "postgresql" || l.name == "valkey" {
			t.Chdir(standIn)
		} else {
			t.Chdir(root)
		}
		if found[l.name], err = l.runs(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	return found
}

// choosing matches an option that chooses tests, in both forms.
var choosing = regexp.MustCompile(`^-(?:test\.)?(?:run|skip)(?:=(.*))?$`)

// patterns are the values of these options in a command.
func (g goTest) patterns() []string {
	var found []string
	for i, argument := range g.arguments {
		switch match := choosing.FindStringSubmatch(argument); {
		case match == nil:
		case match[1] != "":
			found = append(found, match[1])
		default:
			found = append(found, g.arguments[i+1])
		}
	}
	return found
}

// testFunction matches a test, with its name.
var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsIn returns the names of the tests in a folder, whatever their build tags, and their source.
func testsIn(t *testing.T, folder string) (names []string, source string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(content)
		for _, match := range testFunction.FindAllStringSubmatch(string(content), -1) {
			names = append(names, match[1])
		}
	}
	return names, source
}

// TestLayersNameTests: each test that a layer chooses or leaves out by its name is there. One that
// was renamed would otherwise run nowhere, or twice, in silence.
func TestLayersNameTests(t *testing.T) {
	checked := 0
	for name, all := range commandsOfLayers(t) {
		for _, command := range all {
			for _, pattern := range command.patterns() {
				names, source := testsIn(t, command.folder())
				test, subtest, _ := strings.Cut(pattern, "/")
				for one := range strings.SplitSeq(test, "|") {
					checked++
					if !slices.ContainsFunc(names, regexp.MustCompile(one).MatchString) {
						t.Errorf("%s: %s has no test %s", name, command.folder(), one)
					}
				}
				if !strings.Contains(source, `"`+strings.ReplaceAll(subtest, "_", " ")) {
					t.Errorf("%s: %s has no subtest %s", name, command.folder(), subtest)
				}
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d names were checked", checked)
	}
}

// TestFaultsAreRepeated: each test of faults on a cluster is also repeated, and tried without a
// manager, in layers of their own.
func TestFaultsAreRepeated(t *testing.T) {
	chosen := commandsOfLayers(t)
	var tests []string
	files, err := filepath.Glob("test/databases/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && isTest.MatchString(function.Name.Name) && calls(function, "happenAll") {
				tests = append(tests, function.Name.Name)
			}
		}
	}
	if len(tests) < 2 {
		t.Errorf("only %v have faults", tests)
	}
	for _, layer := range []string{"faults-databases", "databases-alone"} {
		for _, test := range tests {
			if !slices.ContainsFunc(chosen[layer], func(command goTest) bool {
				return slices.ContainsFunc(command.patterns(), func(pattern string) bool { return regexp.MustCompile(pattern).MatchString(test) })
			}) {
				t.Errorf("%s does not run %s", layer, test)
			}
		}
	}
}

// calls reports whether a function calls another of its package.
func calls(function *ast.FuncDecl, name string) bool {
	found := false
	ast.Inspect(function, func(part ast.Node) bool {
		if call, ok := part.(*ast.CallExpr); ok {
			called, plain := call.Fun.(*ast.Ident)
			found = found || plain && called.Name == name
		}
		return true
	})
	return found
}

// movingImages returns the names of the images that are made of Debian's unstable release, as the
// source of the testbed has them.
func movingImages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"postgresql", "valkey"} {
		source, err := os.ReadFile(filepath.Join(repository, "testbed", "internal", "product", name+".go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\{version: "(\d+)".* moves: true`).FindAllStringSubmatch(string(source), -1) {
			found = append(found, name+"-"+match[1])
		}
	}
	return found
}

// stringsIn returns the strings in a part of a program.
func stringsIn(node ast.Node) []string {
	var found []string
	ast.Inspect(node, func(part ast.Node) bool {
		if literal, ok := part.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			found = append(found, strings.Trim(literal.Value, `"`))
		}
		return true
	})
	return found
}

// isOnRequest reports whether a layer of the list is, by its source.
func isOnRequest(l ast.Node) bool {
	found := false
	ast.Inspect(l, func(part ast.Node) bool {
		field, ok := part.(*ast.KeyValueExpr)
		if ok {
			key, named := field.Key.(*ast.Ident)
			found = found || named && key.Name == "onRequest"
		}
		return true
	})
	return found
}

// TestImagesStay: what each change is tested with does not depend on what Debian's unstable release
// has today. The nights have its images too.
func TestImagesStay(t *testing.T) {
	moving := movingImages(t)
	if len(moving) == 0 {
		t.Fatal("no image is of the unstable release: the pattern is wrong, or this test is no longer needed")
	}
	var used []string
	for _, name := range []string{"layers.go", "prepare.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.FuncDecl:
				used = append(used, stringsIn(node)...)
			case *ast.CompositeLit:
				// A layer of the list has no type of its own there.
				if node.Type == nil && !isOnRequest(node) {
					used = append(used, stringsIn(node)...)
				}
			}
			return true
		})
	}
	source, err := os.ReadFile(filepath.Join(repository, "testbed", "e2e", "testbed_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	versions := regexp.MustCompile(`versions := \[\]string\{(.+)\}`).FindStringSubmatch(string(source))
	if versions == nil {
		t.Fatal("testPostgreSQL has no versions")
	}
	for version := range strings.SplitSeq(versions[1], ", ") {
		used = append(used, "postgresql-"+strings.Trim(version, `"`))
	}
	if !slices.Contains(used, "postgresql-17") || !slices.Contains(used, "valkey-8") {
		t.Errorf("only %v were found", used)
	}
	for _, image := range moving {
		if slices.Contains(used, image) {
			t.Errorf("the tests of each change need %s, which may be another tomorrow", image)
		}
	}
}
