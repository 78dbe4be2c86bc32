package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

func lines(commands []goTest) (lines []string) {
	for _, command := range commands {
		lines = append(lines, command.directory+" "+strings.Join(command.arguments, " "))
	}
	return lines
}

// TestFuzzing: each target gets a command of its own, in its module.
func TestFuzzing(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":                 "module a",
		"p/p_test.go":            "package p\nfunc FuzzA(f *testing.F) {}\nfunc TestB(t *testing.T) {}\nfunc FuzzC(f *testing.F) {}\nfunc (x) FuzzMethod() {}",
		"p/p.go":                 "package p\nfunc FuzzD() {}",
		"tools/t/go.mod":         "module b",
		"tools/t/q/q_test.go":    "package q\nfunc FuzzE(f *testing.F) {}",
		"p/testdata/q/q_test.go": "package q\nfunc FuzzF(f *testing.F) {}",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	commands, err := fuzzing(root, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		root + " -run ^$ -fuzz ^FuzzA$ -fuzztime 1m0s ./p",
		root + " -run ^$ -fuzz ^FuzzC$ -fuzztime 1m0s ./p",
		root + "/tools/t -run ^$ -fuzz ^FuzzE$ -fuzztime 1m0s ./q",
	}
	if diff := cmp.Diff(want, lines(commands)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestFuzzingFindsAll counts the targets of this repository in another way.
func TestFuzzingFindsAll(t *testing.T) {
	commands, err := fuzzing(repository, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	got := lines(commands)
	want := repository + " -run ^$ -fuzz ^FuzzCompose$ -fuzztime 1m0s ./internal/kinds/instrumentation/injection"
	if !slices.Contains(got, want) {
		t.Errorf("there is no command %q", want)
	}
	output, err := exec.CommandContext(t.Context(), "git", "-C", repository, "grep", "--untracked", "-hE", `^func Fuzz[A-Z]\w*\(f \*testing\.F\) \{$`, "--", "*_test.go").Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Count(string(output), "\n"); len(got) != want {
		t.Errorf("there are %d commands for %d targets:\n%s", len(got), want, strings.Join(got, "\n"))
	}
}

// TestShowInputs: the input with which a fuzz test failed is shown, and shown again at the end.
func TestShowInputs(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, map[string]string{"testdata/fuzz/FuzzA/0123456789abcdef": "go test fuzz v1\nstring(\"\\xff\")\n"})
	stream := `{"Action":"output","Package":"m/p","Test":"FuzzA","Output":"--- FAIL: FuzzA (0.10s)\n"}
{"Action":"output","Package":"m/p","Test":"FuzzA","Output":"    Failing input written to testdata/fuzz/FuzzA/0123456789abcdef\n"}
{"Action":"fail","Package":"m/p","Test":"FuzzA","Elapsed":0.1}
`
	var shown strings.Builder
	log := step.NewLog(&shown)
	var c counts
	c.read(log, strings.NewReader(stream))
	c.showInputs(log, folder)
	for name, text := range map[string]string{"the log": shown.String(), "the end": strings.Join(c.broken, "")} {
		if !strings.Contains(text, `string("\xff")`) {
			t.Errorf("%s does not have the input:\n%s", name, text)
		}
	}
}
