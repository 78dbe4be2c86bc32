package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// TestDamagedState: data whose state can't be read count as damaged when that was found twice, by
// Inspect or at a start. An error that may pass does not count.
func TestDamagedState(t *testing.T) {
	for name, test := range map[string]struct {
		change func(path string) error
		starts bool
		want   bool
	}{
		"a broken state":             {func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }, false, true},
		"a broken state, at a start": {func(path string) error { return os.WriteFile(path, []byte("{"), 0o600) }, true, true},
		"one that can't be read":     {func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, false, false},
	} {
		e, directory := made(t)
		supervisor, err := supervise.New(nil, clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		e.Supervisor = supervisor
		if err := test.change(filepath.Join(directory, stateFile)); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Inspect(); err == nil || e.Observe().Server.Damaged {
			t.Errorf("%s: at first got %v, %+v", name, err, e.Observe().Server)
		}
		if test.starts {
			err = e.Start(t.Context())
		} else {
			_, err = e.Inspect()
		}
		if got := e.Observe().Server; err == nil || got.State != election.Stopped || got.Damaged != test.want {
			t.Errorf("%s: got %v, %+v", name, err, got)
		}
		supervisor.Close()
	}
}

// TestRemoveTemporary: what a server was writing when it was killed is removed, and nothing else.
func TestRemoveTemporary(t *testing.T) {
	_, directory := made(t)
	kept := []string{
		stateFile, endFile, valkey.Dump, valkey.Appended + "/" + valkey.Manifest, valkey.Appended + "/appendonly.aof.1.base.rdb",
	}
	for _, name := range slices.Concat(kept[1:], []string{
		"temp-4711.rdb", "temp-1700000000.4711.rdb", "temp-rewriteaof-bg-4711.aof", "temp-rewriteaof-4711.aof",
		valkey.Appended + "/temp-appendonly.aof.manifest", valkey.Appended + "/temp-appendonly.aof.incr",
	}) {
		write(t, filepath.Join(directory, name), "x")
	}
	removeTemporary(directory)
	var left []string
	for _, pattern := range []string{"*", valkey.Appended + "/*"} {
		found, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, found...)
	}
	for i := range left {
		left[i] = strings.TrimPrefix(left[i], directory+"/")
	}
	want := slices.Concat(kept, []string{valkey.Appended})
	slices.Sort(left)
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("got %q, want %q", left, want)
	}
	removeTemporary(filepath.Join(directory, "missing"))
}

// TestEndNeverMovesBack: once a leader is parked, its final end stays in the file, also when the
// end is noted again, and it is noted even if the server has ended since.
func TestEndNeverMovesBack(t *testing.T) {
	e, directory := made(t)
	is := func(want string) {
		t.Helper()
		if content, err := os.ReadFile(filepath.Join(directory, endFile)); err != nil || strings.TrimSpace(string(content)) != want {
			t.Errorf("noted is %q, not %s: %v", content, want, err)
		}
	}
	observes := func(l *life, position election.Position) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.life, e.observed.Server.Position = l, position
	}
	l := &life{persists: true, stored: true}
	observes(l, "7:300")
	e.noteEnd(l)
	is("7:300")
	observes(l, "7:570")
	e.noteFinalEnd(l, "7:570")
	e.noteEnd(l)
	is("7:570")
	observes(nil, "7:530")
	e.noteEnd(l)
	is("7:570")
	e.noteFinalEnd(l, "7:600")
	is("7:600")
}
