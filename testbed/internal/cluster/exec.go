package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// command runs a program to its end and returns what it printed; its messages become
// part of the error.
func command(ctx context.Context, name string, arguments ...string) (string, error) {
	return commandWithInput(ctx, "", name, arguments...)
}

func commandWithInput(ctx context.Context, input, name string, arguments ...string) (string, error) {
	return run(exec.CommandContext(ctx, name, arguments...), input)
}

// wholeCommand is command for a program that must not be killed in the middle of its work. When ctx
// ends, the error says so, but only after the program has ended.
func wholeCommand(ctx context.Context, name string, arguments ...string) error {
	process := exec.CommandContext(context.WithoutCancel(ctx), name, arguments...)
	// A terminal interrupts its foreground group.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if _, err := run(process, ""); err != nil {
		return err
	}
	return ctx.Err()
}

func run(process *exec.Cmd, input string) (string, error) {
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	process.Stdin = strings.NewReader(input)
	if err := process.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w: %s", strings.Join(process.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
