package server

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
)

// TestKillReadsNothing: a kill does not wait for a disk, so it does not notice that the data are
// gone. The next operation does.
func TestKillReadsNothing(t *testing.T) {
	supervisor, err := supervise.New(nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	for name, operation := range map[string]func(e *Engine) error{
		"a start":       func(e *Engine) error { return e.Start(t.Context()) },
		"an inspection": func(e *Engine) error { _, err := e.Inspect(); return errors.Join(err, errors.New("they are gone")) },
	} {
		data := filepath.Join(t.TempDir(), "data")
		if err := os.MkdirAll(filepath.Join(data, "global"), 0o700); err != nil {
			t.Fatal(err)
		}
		e := New(Options{Data: data, Run: t.TempDir(), Supervisor: supervisor, Clock: clock.RealClock{}})
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if e.Kill(); e.Observe().Server.State != election.Stopped {
			t.Errorf("%s: the kill has looked for the data", name)
		}
		if err := operation(e); err == nil || e.Observe().Server.State != election.NoData {
			t.Errorf("%s: got %v, and the server is %+v", name, err, e.Observe().Server)
		}
		if e.Kill(); e.Observe().Server.State != election.NoData {
			t.Errorf("%s: it is forgotten", name)
		}
	}
}

// TestDidNotStart: a server that does not start is started without the user's parameters only if
// they may be the reason.
func TestDidNotStart(t *testing.T) {
	failed := exec.CommandContext(t.Context(), "sh", "-c", "exit 1").Run()
	killed := exec.CommandContext(t.Context(), "sh", "-c", "kill -9 $$").Run()
	crashed := exec.CommandContext(t.Context(), "sh", "-c", "kill -SEGV $$").Run()
	for _, test := range []struct {
		how  error
		line string
		want bool
	}{
		{failed, `2026-11-23 UTC [7] FATAL:  configuration file "/run/postgresql.conf" contains errors`, true},
		{failed, "2026-11-23 UTC [7] FATAL:  could not map anonymous shared memory: Cannot allocate memory", true},
		{failed, "2026-11-23 UTC [7] FATAL:  could not resize shared memory segment \"/PostgreSQL.1\": No space left on device", true},
		{failed, `2026-11-23 UTC [7] FATAL:  could not write lock file "postmaster.pid": No space left on device`, false},
		{failed, "2026-11-23 UTC [7] PANIC:  could not locate a valid checkpoint record at 0/4000080", false},
		{failed, "2026-11-23 UTC [7] LOG:  startup process (PID 29) was terminated by signal 9: Killed", false},
		{killed, "2026-11-23 UTC [7] LOG:  redo starts at 0/4000080", false},
		{crashed, "2026-11-23 UTC [7] LOG:  redo starts at 0/4000080", true},
	} {
		e := New(Options{Data: filepath.Join(t.TempDir(), "data"), Clock: clock.RealClock{}})
		e.SetParameters(map[string]string{"work_mem": "8MB"})
		l := &life{hasUsers: true, output: &lines{to: io.Discard}}
		l.output.pass(test.line)
		l.output.pass("2026-11-23 UTC [7] LOG:  database system is shut down")
		e.didNotStart(l, test.how, l.output.last())
		if got := len(e.parameters(17)) == 0; got != test.want {
			t.Errorf("%s, %v: without parameters: %t", test.line, test.how, got)
		}
	}
}

func TestDamageIn(t *testing.T) {
	for line, want := range map[string]bool{
		"PANIC:  could not locate a valid checkpoint record at 0/4000080":              true,
		`FATAL:  relation mapping file "global/pg_filenode.map" contains invalid data`: true,
		`PANIC:  could not write to file "pg_wal/xlogtemp.9": No space left on device`: false,
		`PANIC:  could not fsync file "base/1/2": Input/output error`:                  false,
		`FATAL:  could not map anonymous shared memory: Cannot allocate memory`:        false,
		`FATAL:  database files are incompatible with server`:                          false,
		`LOG:  waiting for WAL to become available at 0/5000018`:                       false,
		"see the container's log": false,
	} {
		if got := errors.Is(damageIn(line), engine.ErrDamaged); got != want {
			t.Errorf("%s: got %t", line, got)
		}
	}
}
