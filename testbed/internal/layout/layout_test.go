package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// linked returns a folder, and a link to it.
func linked(t *testing.T) (folder, link string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, link = filepath.Join(root, strings.Repeat("long", maxDirLength/4)), filepath.Join(root, "link")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	return folder, link
}

func TestResolve(t *testing.T) {
	folder, link := linked(t)
	for path, want := range map[string]string{
		folder:                            folder,
		link:                              folder,
		filepath.Join(link, "not", "yet"): filepath.Join(folder, "not", "yet"),
		"/not/there":                      "/not/there",
		"/":                               "/",
	} {
		if got := resolve(path); got != want {
			t.Errorf("resolve(%q) = %q, want %q", path, got, want)
		}
	}
}

// TestDefaultResolves: the folder behind a link counts, also for its length, and that of a named
// cluster is beside it.
func TestDefaultResolves(t *testing.T) {
	folder, link := linked(t)
	t.Setenv(DirVariable, filepath.Join(link, "state"))
	t.Setenv(NameVariable, "tests")
	want := filepath.Join(folder, "state") + "-tests is longer than"
	if got, err := Default(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, %v; want an error with %q", got, err, want)
	}
}
