package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
)

func TestMajorOf(t *testing.T) {
	for said, want := range map[string]int{
		"postgres (PostgreSQL) 17.2\n":                          17,
		"postgres (PostgreSQL) 12.22 (Debian 12.22-1.pgdg12+1)": 12,
		"postgres (PostgreSQL) 18beta1\n":                       18,
		"postgres (EnterpriseDB) 16.1.0\n":                      16,
	} {
		if got, err := majorOf(said); err != nil || got != want {
			t.Errorf("%q: got %d, %v", said, got, err)
		}
	}
	for _, said := range []string{"", "postgres", "mysqld  Ver 8.4", "postgres (PostgreSQL) ", "postgres (PostgreSQL) 11.22\n",
		"postgres (PostgreSQL) 19beta1\n", "postgres (PostgreSQL) 9.6.24\n", strings.Repeat("9", 9000)} {
		if got, err := majorOf(said); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.40q: got %d, %v", said, got, err)
		}
	}
}

// withPrograms returns an engine whose programs print a given version.
func withPrograms(t *testing.T, said string) *Engine {
	t.Helper()
	programs := t.TempDir()
	script := "#!/bin/sh\necho '" + said + "'\n"
	if err := os.WriteFile(filepath.Join(programs, "postgres"), []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	supervisor, err := supervise.New(nil, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(supervisor.Close)
	return New(Options{
		Data: filepath.Join(t.TempDir(), "server"), Run: t.TempDir(), Environment: []string{"PATH=" + programs}, Log: io.Discard,
		Supervisor: supervisor, Clock: clock.RealClock{},
	})
}

// TestDataOfAnotherVersion: such data are refused, with an error that says what there is and what
// is needed. Neither an inspection nor a start changes a file.
func TestDataOfAnotherVersion(t *testing.T) {
	for version, want := range map[string]string{
		"16": "the volume has the data of PostgreSQL 16, and needs those of PostgreSQL 17; nothing was changed",
		"11": "the volume has the data of PostgreSQL 11, and needs those of PostgreSQL 12 to 18; nothing was changed",
	} {
		t.Run(version, func(t *testing.T) {
			e := withPrograms(t, "postgres (PostgreSQL) 17.11")
			if found, err := e.FindVersion(t.Context()); err != nil || found != "17" {
				t.Fatalf("got %s, %v", found, err)
			}
			if err := os.MkdirAll(filepath.Join(e.Data, "pg_wal"), 0o750); err != nil {
				t.Fatal(err)
			}
			for name, content := range map[string]string{"PG_VERSION": version + "\n", "recovery.signal": "", "postmaster.pid": "1\n"} {
				if err := os.WriteFile(filepath.Join(e.Data, name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, inspected := e.Inspect()
			for _, err := range []error{inspected, e.Start(t.Context())} {
				if foreign := (*engine.ForeignError)(nil); !errors.As(err, &foreign) || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
			if e.Observe().Server.Damaged {
				t.Error("the data count as damaged")
			}
			for _, name := range []string{"PG_VERSION", "recovery.signal", "postmaster.pid", "pg_wal"} {
				if _, err := os.Stat(filepath.Join(e.Data, name)); err != nil {
					t.Error(err)
				}
			}
			if info, err := os.Stat(e.Data); err != nil || info.Mode().Perm() != 0o750 {
				t.Errorf("the mode of the data was changed: %v, %v", info, err)
			}
		})
	}
}
