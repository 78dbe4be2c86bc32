package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// repository is the root of the repository, from this package's folder.
const repository = "../.."

// concurrency returns the first sign in a file that its package uses, or is made for, more than one
// goroutine; "" if there is none.
func concurrency(file *ast.File) (sign string) {
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		for _, marker := range []string{"sync", "testing/synctest", "golang.org/x/sync", module + "/internal/install/loop/looptest"} {
			if imported == marker || strings.HasPrefix(imported, marker+"/") {
				return "imports " + imported
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt:
			sign = "has a go statement"
		case *ast.ChanType:
			sign = "has a channel"
		case *ast.SelectStmt:
			sign = "has a select"
		case *ast.SelectorExpr:
			switch node.Sel.Name {
			case "Parallel", "RunParallel", "NewServer", "NewTLSServer", "NewUnstartedServer":
				sign = "calls " + node.Sel.Name
			}
		}
		return sign == ""
	})
	return sign
}

// signs returns, for each pure package with tests, the first sign of concurrency in it.
func signs(t *testing.T) map[string]string {
	t.Helper()
	found, tested := map[string]string{}, map[string]bool{}
	for _, pattern := range pure {
		err := filepath.WalkDir(filepath.Join(repository, strings.TrimSuffix(pattern, "/...")),
			func(name string, _ fs.DirEntry, err error) error {
				if err != nil || !strings.HasSuffix(name, ".go") {
					return err
				}
				at, err := filepath.Rel(repository, filepath.Dir(name))
				if err != nil {
					return err
				}
				at = filepath.ToSlash(at)
				tested[at] = tested[at] || strings.HasSuffix(name, "_test.go")
				file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
				if err != nil {
					return err
				}
				if sign := concurrency(file); sign != "" && found[at] == "" {
					found[at] = path.Base(filepath.ToSlash(name)) + " " + sign
				}
				return nil
			})
		if err != nil {
			t.Fatal(err)
		}
	}
	for at := range found {
		if !tested[at] {
			delete(found, at)
		}
	}
	return found
}

// TestConcurrent: the race detector runs for each package in which it can find something, and the
// lists have no others.
func TestConcurrent(t *testing.T) {
	found := signs(t)
	for at, sign := range found {
		if !slices.Contains(concurrent, at) && sequential[at] == "" {
			t.Errorf("%s: %s: add the package to concurrent in race.go, or to sequential with the reason", at, sign)
		}
	}
	for _, at := range concurrent {
		if found[at] == "" {
			t.Errorf("%s is in concurrent in race.go, but has no goroutine, lock or channel, or no tests", at)
		}
		if sequential[at] != "" {
			t.Errorf("%s is both concurrent and sequential in race.go", at)
		}
	}
	for at := range sequential {
		if found[at] == "" {
			t.Errorf("%s is in sequential in race.go, and no longer needs to be", at)
		}
	}
}

func TestConcurrency(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   bool
	}{
		"nothing":            {`import "context"; func f(context.Context) {}`, false},
		"go":                 {`func f() { go f() }`, true},
		"a channel":          {`type t struct{ c <-chan int }`, true},
		"select":             {`func f() { select {} }`, true},
		"a lock":             {`import "sync"; var m sync.Mutex`, true},
		"an atomic":          {`import "sync/atomic"; var m atomic.Bool`, true},
		"a name that begins": {`import "synctestx"; var m synctestx.T`, false},
		"a bubble":           {`import "testing/synctest"; var f = synctest.Test`, true},
		"an errgroup":        {`import "golang.org/x/sync/errgroup"; var g errgroup.Group`, true},
		"parallel tests":     {`func f(t interface{ Parallel() }) { t.Parallel() }`, true},
		"a server":           {`import "net/http/httptest"; var s = httptest.NewServer(nil)`, true},
		"a recorder":         {`import "net/http/httptest"; var s = httptest.NewRecorder()`, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p; "+c.source, 0)
			if err != nil {
				t.Fatal(err)
			}
			if sign := concurrency(file); (sign != "") != c.want {
				t.Errorf("got %q", sign)
			}
		})
	}
}

func TestTestedPackages(t *testing.T) {
	racing, others, err := testedPackages(t.Context(), repository)
	if err != nil {
		t.Fatal(err)
	}
	if len(racing) != len(concurrent) {
		t.Errorf("%d packages get the race detector, want %d: %v", len(racing), len(concurrent), racing)
	}
	if !slices.Contains(racing, "./internal/kit/transport/retrytransport") || !slices.Contains(others, "./internal/kinds/instrumentation") ||
		slices.Contains(others, "./internal/kit/transport/retrytransport") {
		t.Errorf("dealt as %v and %v", racing, others)
	}
	if slices.Contains(others, "./api/apps/v1") {
		t.Error("a package without tests is tested")
	}
}
