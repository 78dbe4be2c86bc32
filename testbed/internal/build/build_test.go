package build

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

func TestKey(t *testing.T) {
	if got := Key("a", "b"); len(got) != 16 {
		t.Errorf("the key is %q, want 16 digits", got)
	}
	distinct := [][]string{{"a", "b"}, {"ab"}, {"b", "a"}, {"a", "b", ""}, {""}, {}}
	seen := map[string][]string{}
	for _, parts := range distinct {
		key := Key(parts...)
		if other, found := seen[key]; found {
			t.Errorf("%q and %q have the same key", parts, other)
		}
		seen[key] = parts
	}
}

// write creates a file and its folders.
func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestProgramKey: the key of a program below its module's root changes with the dependencies too.
// That of a program in the root has no further parts: another key would compile Kubernetes again.
func TestProgramKey(t *testing.T) {
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.mod": "module m", "go.sum": "a v1", "main.go": "package main", "images/web/main.go": "package main",
	} {
		write(t, filepath.Join(root, name), content)
	}
	keyOf := func(p GoProgram) string {
		t.Helper()
		key, err := p.key("go1.26")
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	server := GoProgram{Name: "kube", Folder: root, LDFlags: []string{"-X", "v=1"}}
	sources, err := Sources(root)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := keyOf(server), Key(append([]string{"go1.26", "-s -w -X v=1", "./", runtime.GOARCH}, sources...)...); got != want {
		t.Errorf("the key in the module's root is %s, want %s", got, want)
	}
	web := GoProgram{Name: "web", Folder: filepath.Join(root, "images", "web")}
	seen := []string{keyOf(web)}
	for _, change := range []string{"go.mod", "go.sum"} {
		write(t, filepath.Join(root, change), "another version")
		if key := keyOf(web); slices.Contains(seen, key) {
			t.Errorf("a change of %s keeps the key", change)
		} else {
			seen = append(seen, key)
		}
	}
}

func TestSources(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"main.go", "main_test.go", "go.mod", "go.sum", "README.md", "sub/x.go", "sub/X.java"} {
		write(t, filepath.Join(folder, name), "content of "+name)
	}
	got, err := Sources(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"go.mod", "content of go.mod", "go.sum", "content of go.sum",
		"main.go", "content of main.go", "sub/X.java", "content of sub/X.java", "sub/x.go", "content of sub/x.go",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the sources are %q, want %q", got, want)
	}
}

func TestProduct(t *testing.T) {
	cache := Cache(t.TempDir())
	broken := errors.New("broken")
	if _, err := cache.Product("tool", Key("1"), func(folder string) error {
		if err := os.WriteFile(filepath.Join(folder, "half"), nil, 0o600); err != nil {
			return err
		}
		return broken
	}); !errors.Is(err, broken) {
		t.Fatalf("the error is %v, want %v", err, broken)
	}
	made := 0
	for range 2 {
		_, err := cache.Product("tool", Key("1"), func(folder string) error {
			made++
			if _, err := os.Stat(filepath.Join(folder, "half")); err == nil {
				t.Error("the unfinished build is still there")
			}
			return os.WriteFile(filepath.Join(folder, "tool"), nil, 0o600)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if made != 1 {
		t.Errorf("built %d times, want once", made)
	}
}

// TestUnfinished: what an interrupted build has left goes with the next one of that name, also when
// its sources have changed meanwhile.
func TestUnfinished(t *testing.T) {
	cache := Cache(t.TempDir())
	path := func(name, key string) string {
		return filepath.Join(string(cache), name+"-"+Key(key)+".partial", "half")
	}
	write(t, path("tool", "1"), "")
	write(t, path("tool136", "1"), "")
	if _, err := cache.Product("tool", Key("2"), func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path("tool", "1")); !os.IsNotExist(err) {
		t.Errorf("the unfinished build is still there (%v)", err)
	}
	if _, err := os.Stat(path("tool136", "1")); err != nil {
		t.Errorf("the build of another product went: %v", err)
	}
}

// TestPrune: another version goes once it was not used for a week: another checkout may need it.
func TestPrune(t *testing.T) {
	cache := Cache(t.TempDir())
	product := func(name, key string) string {
		t.Helper()
		folder, err := cache.Product(name, Key(key), func(string) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		return folder
	}
	age := func(folder string) {
		t.Helper()
		old := time.Now().Add(-unusedAfter - time.Hour)
		if err := os.Chtimes(folder, old, old); err != nil {
			t.Fatal(err)
		}
	}
	unused, used, kept, other := product("tool", "1"), product("tool", "2"), product("tool", "3"), product("tool136", "1")
	for _, folder := range []string{unused, used, kept, other} {
		age(folder)
	}
	product("tool", "2")
	if err := cache.Prune("tool", kept); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unused); !os.IsNotExist(err) {
		t.Errorf("the unused version is still there (%v)", err)
	}
	for _, folder := range []string{used, kept, other} {
		if _, err := os.Stat(folder); err != nil {
			t.Errorf("%s went: %v", filepath.Base(folder), err)
		}
	}
}

func TestPackageCounter(t *testing.T) {
	counter := &packageCounter{begin: time.Now().Add(-time.Minute)}
	counter.total.Store(3)
	for _, chunk := range []string{"k8s.io/api\nk8s.io/", "client-go\n"} {
		if n, err := counter.Write([]byte(chunk)); n != len(chunk) || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := counter.String(); got != "2 of up to 3 packages compiled, at most 30s to go" {
		t.Errorf("the progress is %q", got)
	}
}
