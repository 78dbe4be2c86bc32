package server

import (
	"errors"
	"os"
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
