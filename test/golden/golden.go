// Package golden compares what a test produces with a file in testdata. With -update the test
// writes the file and fails: a run that changes its own expectation proves nothing.
//
//	go test ./internal/kinds/webapp -update
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files that differ, and fail")

// Check compares got with the named file in testdata.
func Check(t testing.TB, name string, got []byte) {
	t.Helper()
	check(t, name, got, *update)
}

func check(t testing.TB, name string, got []byte, update bool) {
	t.Helper()
	file := filepath.Join("testdata", name)
	want, err := os.ReadFile(file) //nolint:gosec // the test names it
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	difference := cmp.Diff(string(want), string(got))
	switch {
	case err == nil && difference == "":
	case !update:
		t.Errorf("%s is missing or differs (-want +got); run `go test -update` to write it:\n%s", file, difference)
	default:
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s was written: check the difference, then run the test without -update", file)
	}
}

// CheckUnused fails for each file in testdata that is not in known. It skips folders, because the
// corpora of fuzz targets are in one.
func CheckUnused(t testing.TB, known []string) {
	t.Helper()
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !file.IsDir() && !slices.Contains(known, file.Name()) {
			t.Errorf("testdata/%s belongs to no case", file.Name())
		}
	}
}
