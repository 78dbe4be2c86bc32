// Package programs runs and kills programs, and gives those in pods some CPU, for tests on the
// testbed.
package programs

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Run runs a program and returns its output. An error contains the standard error.
func Run(ctx context.Context, stdin, name string, arguments ...string) (string, error) {
	run := exec.CommandContext(ctx, name, arguments...)
	run.Stdin = strings.NewReader(stdin)
	var output, trouble bytes.Buffer
	run.Stdout, run.Stderr = &output, &trouble
	if err := run.Run(); err != nil {
		return output.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, trouble.String())
	}
	return output.String(), nil
}

// KillOf kills programs of the cluster that a testbed runs. `testbed up` starts them again.
// `testbed status` prints a name, a process and a state per line.
func KillOf(t *testing.T, testbed string, programs ...string) {
	t.Helper()
	status, err := Run(t.Context(), "", testbed, "status")
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) != 3 || !slices.Contains(programs, fields[0]) {
			continue
		}
		id, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed++
	}
	if killed != len(programs) {
		t.Fatalf("%d of %v were running", killed, programs)
	}
}
