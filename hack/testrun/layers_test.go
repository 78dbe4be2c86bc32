package main

import (
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

// folder is that of the command's package, relative to the repository's root.
func (g goTest) folder() string {
	at := slices.IndexFunc(g.arguments, func(argument string) bool { return strings.HasPrefix(argument, "./") })
	return filepath.Join(g.directory, g.arguments[at])
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
