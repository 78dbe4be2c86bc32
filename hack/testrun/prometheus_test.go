package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/mainstay-platform/mainstay/hack/internal/step"
)

// TestFindPrometheus: that of the PATH, if promtool is beside it, else what an earlier run
// unpacked.
func TestFindPrometheus(t *testing.T) {
	folder := func(programs ...string) string {
		made := t.TempDir()
		for _, program := range programs {
			if err := os.MkdirAll(filepath.Join(made, filepath.Dir(program)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(made, program), nil, 0o700); err != nil { //nolint:gosec // a program can be run
				t.Fatal(err)
			}
		}
		return made
	}
	log := step.NewLog(io.Discard)
	installed, alone := folder("prometheus", "promtool"), folder("prometheus")
	cached := folder("usr/bin/prometheus", "usr/bin/promtool")
	for path, want := range map[string]string{installed: installed, alone: filepath.Join(cached, "usr/bin"),
		"": filepath.Join(cached, "usr/bin")} {
		t.Setenv("PATH", path)
		if got, err := findPrometheus(t.Context(), log, cached); err != nil || got != want {
			t.Errorf("PATH %s: %s, %v", path, got, err)
		}
	}
	// Neither the programs nor apt-get exist.
	t.Setenv("PATH", "")
	if got, err := findPrometheus(t.Context(), log, filepath.Join(folder(), "none")); err == nil {
		t.Errorf("found %s where there is none", got)
	}
}
