package step

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// cleaning is a program that says when it runs, by opening a pipe, and cleans up when it is
// interrupted.
const cleaning = `trap 'touch cleaned; exit 1' INT; : > running; while :; do sleep 0.1; done`

// TestInterrupted: a command whose task is interrupted can clean up, however it is run.
func TestInterrupted(t *testing.T) {
	if signal.Ignored(os.Interrupt) {
		t.Skip("a shell that starts with interrupts ignored can't trap them")
	}
	log := NewLog(io.Discard)
	for name, run := range map[string]func(context.Context, *exec.Cmd) error{
		"do":     func(ctx context.Context, command *exec.Cmd) error { return log.Do(ctx, "cleaning", command) },
		"show":   func(_ context.Context, command *exec.Cmd) error { return log.Show("cleaning", command) },
		"answer": func(_ context.Context, command *exec.Cmd) error { _, err := Answer(command); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			folder := t.TempDir()
			command := exec.CommandContext(ctx, "sh", "-c", cleaning)
			command.Dir = folder
			pipe := filepath.Join(folder, "running")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = os.ReadFile(pipe) // it returns when the program has opened and closed its end
				cancel()
			}()
			if err := run(ctx, command); err == nil {
				t.Error("an interrupted command succeeds")
			}
			if _, err := os.Stat(filepath.Join(folder, "cleaned")); err != nil {
				t.Errorf("it did not clean up: %v", err)
			}
		})
	}
}

// TestWithoutContext: a command that no context ends can be run too.
func TestWithoutContext(t *testing.T) {
	if err := NewLog(io.Discard).Show("nothing", exec.Command("true")); err != nil {
		t.Error(err)
	}
}
