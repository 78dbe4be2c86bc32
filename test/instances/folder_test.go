package instances

import (
	"os"
	"path/filepath"
	"testing"
)

// isThere reports whether a file is there.
func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// TestNewFolder: a folder that an interrupted test has left is gone after the next one is made, and
// one that is in use stays.
func TestNewFolder(t *testing.T) {
	t.Parallel()
	shared := filepath.Join(t.TempDir(), "tmp")
	used, release, err := newFolder(shared, "database")
	if err != nil {
		t.Fatal(err)
	}
	left, other := filepath.Join(shared, "database-left"), filepath.Join(shared, "other-left")
	for _, folder := range []string{left, other} {
		if err := os.MkdirAll(filepath.Join(folder, "volume"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	second, releaseSecond, err := newFolder(shared, "database")
	if err != nil {
		t.Fatal(err)
	}
	if second == used || !isThere(second) || !isThere(used) || !isThere(other) {
		t.Errorf("one that is in use, or of another kind, was deleted: %s, %s, %s", used, second, other)
	}
	if isThere(left) {
		t.Error("what an interrupted test has left stays")
	}
	release()
	releaseSecond()
	if isThere(used) || isThere(second) {
		t.Error("a released folder stays")
	}
}

// TestNewGroup: a control group goes with the process that made it, and no other.
func TestNewGroup(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const ended = "99999999" // more than the kernel's largest process id
	left, unnamed := filepath.Join(root, groupPrefix+ended+"-1"), filepath.Join(root, groupPrefix+ended)
	for _, group := range []string{left, unnamed} {
		if err := os.Mkdir(group, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	first, err := newGroup(root)
	if err != nil {
		t.Fatal(err)
	}
	second, err := newGroup(root)
	if err != nil {
		t.Fatal(err)
	}
	if isThere(left) || !isThere(unnamed) || !isThere(first) || !isThere(second) {
		t.Errorf("the left one is there: %t, one without a process: %t, those in use: %t, %t",
			isThere(left), isThere(unnamed), isThere(first), isThere(second))
	}
}
