package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// write creates files below root; those without content are removed.
func write(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		name = filepath.Join(root, name)
		if content == "" {
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// committed returns a new repository with these files committed.
func committed(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, files)
	runGit(t, root, "init", "-q")
	runGit(t, root, "add", "-A")
	runGit(t, root, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "first")
	return root
}

func runGit(t *testing.T, root string, arguments ...string) {
	t.Helper()
	if _, err := git(t.Context(), root, arguments...); err != nil {
		t.Fatal(err)
	}
}

const testFile = `package p

import "testing"

// limit is for all.
const limit = 3

type helper struct{}

func (helper) check() {
	limited()
}

func limited() int { return limit }

func TestDirect(t *testing.T) {
	t.Log("a")
	t.Log("b")
}

func TestThrough(t *testing.T) {
	helper{}.check()
}

func TestOther(t *testing.T) {
	t.Log("other")
}

func FuzzOther(f *testing.F) {}
`

func TestChangedTests(t *testing.T) {
	replaced := func(old, by string) map[string]string {
		return map[string]string{"p/p_test.go": strings.Replace(testFile, old, by, 1)}
	}
	root := committed(t, map[string]string{"go.mod": "module m\n", "tools/go.mod": "module tools\n", "p/p.go": "package p\n",
		"p/p_test.go": testFile})
	for name, c := range map[string]struct {
		change map[string]string
		want   []string
	}{
		"nothing":     {nil, nil},
		"a test":      {replaced(`t.Log("other")`, `t.Log("another")`), []string{". ./p TestOther"}},
		"a line less": {replaced("\tt.Log(\"b\")\n", ""), []string{". ./p TestDirect"}},
		"a line more": {replaced("\tt.Log(\"b\")\n", "\tt.Log(\"b\")\n\tt.Log(\"c\")\n"), []string{". ./p TestDirect"}},
		"a fuzz target": {replaced("FuzzOther(f *testing.F) {}", "FuzzOther(f *testing.F) { f.Add(1) }"),
			[]string{". ./p FuzzOther"}},
		"a constant":      {replaced("limit = 3", "limit = 4"), []string{". ./p TestThrough"}},
		"a method":        {replaced("\tlimited()\n", "\t_ = limited()\n"), []string{". ./p TestThrough"}},
		"a comment above": {replaced("is for all", "is for some"), nil},
		"the code":        {map[string]string{"p/p.go": "package p\n\nvar X = 1\n"}, nil},
		"a new file": {map[string]string{"p/new_test.go": "package p\n\nfunc TestNew(t *testing.T) {}\n"},
			[]string{". ./p TestNew"}},
		"TestMain": {map[string]string{"p/main_test.go": "package p\n\nfunc TestMain(m *testing.M) {}\n"},
			[]string{". ./p FuzzOther|TestDirect|TestOther|TestThrough"}},
		"a file less": {map[string]string{"p/p_test.go": ""}, nil},
		"a test with a build tag": {map[string]string{"e/e_test.go": "//go:build e2e\n\npackage e\n\nfunc TestE(t *testing.T) {}\n"},
			[]string{". ./e TestE e2e"}},
		"a package with and without a build tag": {map[string]string{
			"p/new_test.go":    "package p\n\nfunc TestNew(t *testing.T) { _ = limited() }\n",
			"p/server_test.go": "//go:build instances\n\npackage p\n\nfunc TestServer(t *testing.T) { _ = limited() }\n",
		}, []string{". ./p TestNew", ". ./p TestServer instances"}},
		"a test in another module": {map[string]string{"tools/q/q_test.go": "package q\n\nfunc TestQ(t *testing.T) {}\n"},
			[]string{"tools ./q TestQ"}},
		"a test in a testdata":       {map[string]string{"p/testdata/q_test.go": "package q\n\nfunc TestQ(t *testing.T) {}\n"}, nil},
		"what nobody's test can use": {map[string]string{"p/new_test.go": "package p\n\nfunc unused() {}\n"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() { runGit(t, root, "reset", "-q", "--hard"); runGit(t, root, "clean", "-qfd") }()
			write(t, root, c.change)
			found, err := changedTests(t.Context(), root, "HEAD")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range found {
				directory, err := filepath.Rel(root, p.directory)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, strings.TrimSpace(strings.Join([]string{directory, p.at, strings.Join(p.tests, "|"), strings.Join(p.tags, ",")},
					" ")))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestChangedTestsOfNoCommit(t *testing.T) {
	if found, err := changedTests(t.Context(), repository, "no-such-commit"); err == nil {
		t.Errorf("got %v", found)
	}
}

func TestCommandOfAPackage(t *testing.T) {
	p := testPackage{directory: "tools", at: "./q", tags: []string{"e2e"}, tests: []string{"TestA", "TestB"}}
	want := []string{"-race", "-tags", "e2e", "-run", "^(TestA|TestB)$", "./q"}
	if got := p.command("-race"); got.directory != "tools" || !slices.Equal(got.arguments, want) {
		t.Errorf("got %+v", got)
	}
	if got := (testPackage{directory: ".", at: "./q"}).command(); !slices.Equal(got.arguments, []string{"./q"}) {
		t.Errorf("got %+v", got)
	}
}
