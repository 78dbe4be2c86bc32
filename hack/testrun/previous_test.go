package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repo is a git repository for a test.
type repo struct {
	t    *testing.T
	root string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	r := repo{t, t.TempDir()}
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r repo) git(arguments ...string) string {
	r.t.Helper()
	command := exec.Command("git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"},
		arguments...)...)
	command.Dir = r.root
	output, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", arguments, err, output)
	}
	return strings.TrimSpace(string(output))
}

// commit writes a file and returns the commit.
func (r repo) commit(file, content string) string {
	r.t.Helper()
	name := filepath.Join(r.root, file)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		r.t.Fatal(err)
	}
	r.git("add", "--all")
	r.git("commit", "--quiet", "--message=change")
	return r.git("rev-parse", "HEAD")
}

func TestPreviousCommit(t *testing.T) {
	r := newRepo(t)
	previous := func() string {
		t.Helper()
		commit, err := previousCommit(t.Context(), r.root)
		if err != nil {
			t.Fatal(err)
		}
		return commit
	}
	first := r.commit("internal/a.go", "package a")
	if commit, err := previousCommit(t.Context(), r.root); err == nil {
		t.Errorf("there is nothing before the first commit, and %s is returned", commit)
	}
	second := r.commit("internal/a.go", "package b")
	if got := previous(); got != first {
		t.Errorf("on main: %s, want the one before, %s", got, first)
	}
	var shipping []string
	for i := range distance {
		shipping = append(shipping, r.commit("internal/a.go", fmt.Sprintf("package b%d", i)))
		r.commit("docs/page.md", fmt.Sprintf("text %d", i))
		r.commit("internal/a_test.go", fmt.Sprintf("package b // %d", i))
	}
	if got := previous(); got != second {
		t.Errorf("pages and tests are not shipped: %s, want %s", got, second)
	}
	r.git("checkout", "--quiet", "-b", "change", shipping[0])
	r.commit("internal/a.go", "package c")
	if got := previous(); got != first {
		t.Errorf("on a branch: %s, want what lies before where it left main, %s", got, first)
	}
	r.git("tag", "v1.0.0", second)
	if got := previous(); got != "v1.0.0" {
		t.Errorf("with a release: %s", got)
	}
}
