// Package golden compares what a test gets with a file below testdata. With -update the test writes the file, and fails: a run that changes
// what it is compared with proves nothing.
//
//	go test ./internal/injection -update
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

// Check compares got with the file of this name below testdata.
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
		t.Errorf("%s is missing or differs (-want +got); `go test -update` writes it:\n%s", file, difference)
	default:
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s is written anew: look at the difference, and run the test without -update", file)
	}
}

// CheckUnused fails for each file in testdata that is not known. Folders are left out: the corpora of fuzz targets are in one.
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
