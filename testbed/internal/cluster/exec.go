package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// command runs a program to its end and returns what it printed; its messages become
// part of the error.
func command(ctx context.Context, name string, arguments ...string) (string, error) {
	return commandWithInput(ctx, "", name, arguments...)
}

func commandWithInput(ctx context.Context, input, name string, arguments ...string) (string, error) {
	process := exec.CommandContext(ctx, name, arguments...)
	var stdout, stderr bytes.Buffer
	process.Stdout, process.Stderr = &stdout, &stderr
	process.Stdin = strings.NewReader(input)
	if err := process.Run(); err != nil {
		return "", fmt.Errorf("running %s %s: %w: %s", name, strings.Join(arguments, " "), err,
			strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
