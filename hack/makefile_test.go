package hack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestArchitecture: an image for another architecture is made by programs of this one, so that
// recipes know GOARCH, and the go commands that they run do not.
func TestArchitecture(t *testing.T) {
	show := exec.CommandContext(t.Context(), "make", "-C", "..", "--no-print-directory",
		"--eval=show: ; @echo $(GOARCH) $${GOARCH-unset}", "show")
	// Not the flags of a make that runs this test.
	show.Env = append(os.Environ(), "MAKEFLAGS=", "GOARCH=arm64")
	output, err := show.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if got := string(output); got != "arm64 unset\n" {
		t.Errorf("GOARCH in the Makefile and in the environment of a recipe: got %q, want arm64 and none", got)
	}
}

// waiting is a program that waits for SIGTERM, and says that it came.
const waiting = `package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	_ = os.WriteFile("started", nil, 0o600)
	select {
	case sent := <-signals:
		_ = os.WriteFile("ended", []byte(sent.String()), 0o600)
	case <-time.After(5 * time.Minute):
	}
}
`

// TestTerminated: a SIGTERM that ends make reaches the tests and the demo, which then delete what
// they have started.
func TestTerminated(t *testing.T) {
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for target, program := range map[string]string{"test": "testrun", "quick": "testrun", "demo": "demo"} {
		t.Run(target, func(t *testing.T) {
			folder := t.TempDir()
			source := filepath.Join(folder, "hack", program, "main.go")
			if err := os.MkdirAll(filepath.Dir(source), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string]string{source: waiting, filepath.Join(folder, "go.mod"): "module waits\n\ngo 1.26\n"} {
				if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			command := exec.CommandContext(t.Context(), "make", "-C", folder, "-f", makefile, target)
			command.Env = append(os.Environ(), "MAKEFLAGS=")
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			awaitFile(t, filepath.Join(folder, "started"))
			if err := command.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			_ = command.Wait() // make says that it was ended
			ended, err := os.ReadFile(filepath.Join(folder, "ended"))
			if err != nil || string(ended) != syscall.SIGTERM.String() {
				t.Errorf("the program has got the signal %q (%v)", ended, err)
			}
		})
	}
	content, err := os.ReadFile(makefile)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"testrun", "demo"} {
		if strings.Contains(string(content), "go run ./hack/"+program) {
			t.Errorf("a recipe runs hack/%s with go run, which does not pass SIGTERM on", program)
		}
	}
}

// TestClearRunner: only a runner of GitHub's loses anything.
func TestClearRunner(t *testing.T) {
	for environment, removes := range map[string]bool{"": false, "self-hosted": false, "github-hosted": true} {
		folder := t.TempDir()
		program(t, folder, "sudo", "#!/bin/sh\nexec \"$@\"\n")
		unused := filepath.Join(folder, "unused")
		if err := os.Mkdir(unused, 0o700); err != nil {
			t.Fatal(err)
		}
		command := exec.CommandContext(t.Context(), "make", "-C", "..", "UNUSED="+unused, "clear-runner")
		command.Env = append(os.Environ(), "MAKEFLAGS=", "PATH="+folder+":"+os.Getenv("PATH"), "RUNNER_ENVIRONMENT="+environment)
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
		if _, err := os.Stat(unused); os.IsNotExist(err) != removes {
			t.Errorf("RUNNER_ENVIRONMENT=%q: %v: %s", environment, err, output)
		}
	}
}

// awaitFile waits until there is a file of that name.
func awaitFile(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
	}
	t.Fatalf("there is no %s", filepath.Base(name))
}
