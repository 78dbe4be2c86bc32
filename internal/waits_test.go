package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// leastWait is the shortest timeout in a test. It costs nothing if the condition becomes true, and
// a busy machine has been seen to take ten seconds for what usually takes one.
const leastWait = 30 * time.Second

// waits returns the waits in the tests of one folder, by the file's name, that fail on a busy
// machine or prove nothing on a fast one.
func waits(folder string, files map[string]*ast.File, positions *token.FileSet) []string {
	w := waiting{constants: map[string]ast.Expr{}, positions: positions, isPure: !within(folder, "test") && !within(folder, "testbed") &&
		!within(folder, "tools")}
	for _, file := range files {
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.CONST {
				w.learn(general)
			}
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			w.hasDefault = w.hasDefault || ok && called(call) == "SetDefaultEventuallyTimeout"
			return true
		})
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		w.inBubble = slices.ContainsFunc(files[name].Imports, func(imported *ast.ImportSpec) bool {
			return imported.Path.Value == `"testing/synctest"`
		})
		ast.Inspect(files[name], w.visit)
	}
	return w.found
}

// waiting is what is known of the tests of a folder.
type waiting struct {
	constants  map[string]ast.Expr
	positions  *token.FileSet
	hasDefault bool
	isPure     bool
	// inBubble is true in a file whose tests use synctest: its helpers run in bubbles too.
	inBubble bool
	found    []string
	// timed are the calls of Eventually for which a later call sets the time.
	timed []*ast.CallExpr
	// polls are the calls between two checks of a condition.
	polls []ast.Expr
}

func (w *waiting) learn(declaration *ast.GenDecl) {
	for _, spec := range declaration.Specs {
		values, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		for i, name := range values.Names {
			if i < len(values.Values) {
				w.constants[name.Name] = values.Values[i]
			}
		}
	}
}

// called returns the name of the called function or method.
func called(call *ast.CallExpr) string {
	switch function := call.Fun.(type) {
	case *ast.SelectorExpr:
		return function.Sel.Name
	case *ast.Ident:
		return function.Name
	default:
		return ""
	}
}

// isSelected reports whether a call is of a function of a package.
func isSelected(call *ast.CallExpr, imported, name string) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != name {
		return false
	}
	identifier, ok := selector.X.(*ast.Ident)
	return ok && identifier.Name == imported
}

// visit checks a node, and reports whether to visit its children.
func (w *waiting) visit(node ast.Node) bool {
	if loop, ok := node.(*ast.ForStmt); ok && loop.Cond != nil {
		if post, ok := loop.Post.(*ast.ExprStmt); ok {
			w.polls = append(w.polls, post.X) // for ; !condition(); time.Sleep(poll)
		}
	}
	call, ok := node.(*ast.CallExpr)
	if !ok {
		return true
	}
	switch name := called(call); {
	case isSelected(call, "synctest", "Test"):
		return false // in a bubble, time passes at once
	case isSelected(call, "time", "Sleep"):
		isHelper := !strings.HasSuffix(w.positions.Position(call.Pos()).Filename, "_test.go") // it waits for conditions
		if isHelper || w.inBubble || slices.Contains(w.polls, ast.Expr(call)) {
			return false
		}
		w.add(call, "time.Sleep: wait for a condition, or use testing/synctest")
	case name == "Consistently" || name == "ConsistentlyWithOffset":
		if w.isPure {
			w.add(call, "Consistently proves nothing on a busy machine: use testing/synctest")
		}
	case name == "WithTimeout" || name == "Within":
		w.limit(call, call.Args)
	case name == "SetDefaultEventuallyTimeout":
		w.atLeast(call, call.Args[0])
	case name == "Eventually" && len(call.Args) > 0:
		w.eventually(call, call.Args)
	case name == "EventuallyWithOffset" && len(call.Args) > 1:
		w.eventually(call, call.Args[1:])
	case strings.HasPrefix(strings.ToLower(name), "await") && !w.isPure:
		// Our own helpers, with the limit at any place.
		for _, given := range call.Args {
			if _, isNumber := given.(*ast.BasicLit); !isNumber {
				w.atLeast(call, given)
			}
		}
	}
	return true
}

// limit checks the time that a later call sets for Eventually.
func (w *waiting) limit(call *ast.CallExpr, arguments []ast.Expr) {
	for inner := receiver(call); inner != nil; inner = receiver(inner) {
		if strings.HasPrefix(called(inner), "Eventually") && len(arguments) == 1 {
			w.timed = append(w.timed, inner)
			w.atLeast(call, arguments[0])
		}
	}
}

// receiver returns the call whose result a method is called on, or nil.
func receiver(call *ast.CallExpr) *ast.CallExpr {
	if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
		if inner, ok := selector.X.(*ast.CallExpr); ok {
			return inner
		}
	}
	return nil
}

// eventually checks a call of Eventually with these arguments: what is asked, perhaps after a
// context, and perhaps a time.
func (w *waiting) eventually(call *ast.CallExpr, arguments []ast.Expr) {
	if isContext(arguments[0]) && len(arguments) > 1 {
		arguments = arguments[1:]
	}
	if len(arguments) > 1 {
		w.atLeast(call, arguments[1])
	} else if !w.hasDefault && !slices.Contains(w.timed, call) {
		w.add(call, "Eventually waits for one second: give it a time, or the package a default")
	}
}

// isContext reports whether an expression is a context, by its name.
func isContext(expression ast.Expr) bool {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name == "ctx"
	case *ast.CallExpr:
		return called(expression) == "Context"
	}
	return false
}

// atLeast checks a time, if the source shows its value.
func (w *waiting) atLeast(call *ast.CallExpr, given ast.Expr) {
	if wait, known := w.duration(given); known && wait < leastWait {
		w.add(call, fmt.Sprintf("%s after %s: must be at least %s", called(call), wait, leastWait))
	}
}

// duration returns the value of an expression of literals, units of package time and constants of
// the package.
func (w *waiting) duration(expression ast.Expr) (time.Duration, bool) {
	switch expression := expression.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(expression.Value); err == nil && expression.Kind == token.STRING {
			value, err := time.ParseDuration(text)
			return value, err == nil
		}
		value, err := strconv.ParseFloat(strings.ReplaceAll(expression.Value, "_", ""), 64)
		return time.Duration(value), err == nil
	case *ast.SelectorExpr:
		units := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}
		value, known := units[expression.Sel.Name]
		return value, known
	case *ast.Ident:
		value, known := w.constants[expression.Name]
		if !known {
			return 0, false
		}
		return w.duration(value)
	case *ast.BinaryExpr:
		a, knownA := w.duration(expression.X)
		b, knownB := w.duration(expression.Y)
		switch expression.Op {
		case token.MUL:
			return a * b, knownA && knownB
		case token.ADD:
			return a + b, knownA && knownB
		}
	}
	return 0, false
}

func (w *waiting) add(call *ast.CallExpr, problem string) {
	at := w.positions.Position(call.Pos())
	w.found = append(w.found, fmt.Sprintf("%s:%d: %s", at.Filename, at.Line, problem))
}

// TestWaits checks the tests of all modules, with every build tag, and what tests share.
func TestWaits(t *testing.T) {
	folders, positions := map[string]map[string]*ast.File{}, token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !isOfTests(name) {
			return nil
		}
		file, err := parser.ParseFile(positions, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
		if folders[folder] == nil {
			folders[folder] = map[string]*ast.File{}
		}
		folders[folder][name] = file
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if folders["test/e2e"] == nil || folders["internal/kit/transport/retrytransport"] == nil {
		t.Fatal("the tests were not found")
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		for _, problem := range waits(folder, folders[folder], positions) {
			t.Error(problem)
		}
	}
}

// isOfTests reports whether a file, by its path from this folder, is a test or only used by tests.
// What measures, and what simulates time, waits for its own reasons.
func isOfTests(name string) bool {
	if strings.HasSuffix(name, "_test.go") {
		return true
	}
	folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
	return strings.HasSuffix(name, ".go") && within(folder, "test") && !within(folder, "test/perf")
}

func TestWaitsFinds(t *testing.T) {
	const byDefault = "func init() { gomega.SetDefaultEventuallyTimeout(time.Minute) }\n"
	for name, c := range map[string]struct {
		folder, source string
		want           int
	}{
		"a second by default":             {"test/x", "func f() { g.Eventually(a).Should(b) }", 1},
		"the package's default":           {"test/x", byDefault + "func f() { g.Eventually(a).Should(b) }", 0},
		"a package's default that is low": {"test/x", "func init() { gomega.SetDefaultEventuallyTimeout(10 * time.Second) }", 1},
		"its own time":                    {"internal/x", `func f() { gomega.Eventually(a, "30s").Should(b) }`, 0},
		"its own time that is low":        {"internal/x", `func f() { gomega.Eventually(a, "29s").Should(b) }`, 1},
		"a time in numbers":               {"test/x", "func f() { g.Eventually(a, 2*time.Second).Should(b) }", 1},
		"a time in a method":              {"test/x", "func f() { g.Eventually(a).WithTimeout(time.Minute).Should(b) }", 0},
		"a low one in a method":           {"test/x", "func f() { g.Eventually(a).WithPolling(p).WithTimeout(time.Second).Should(b) }", 1},
		"context.WithTimeout":             {"test/x", "func f() { context.WithTimeout(ctx, time.Second) }", 0},
		"a constant":                      {"test/x", "const limit = 5 * time.Second\nfunc f() { g.Eventually(a, limit).Should(b) }", 1},
		"a constant of a constant": {"test/x",
			"const (\n\tlimit = 5 * second\n\tsecond = time.Second\n)\nfunc f() { g.Eventually(a, 10*limit).Should(b) }", 0},
		"a variable":                       {"test/x", "func f() { g.Eventually(a, limit()).Should(b) }", 0},
		"a context before it":              {"test/x", "func f() { g.Eventually(ctx, a, 5*time.Second).Should(b) }", 1},
		"a context, and no time":           {"test/x", "func f() { g.Eventually(t.Context(), a).Should(b) }", 1},
		"a context, and enough time":       {"test/x", "func f() { g.Eventually(ctx, a, time.Minute).Should(b) }", 0},
		"another line":                     {"test/x", `func f() { g.EventuallyWithOffset(1, a, "5s").Should(b) }`, 1},
		"another line, and enough time":    {"test/x", "func f() { g.EventuallyWithOffset(1, a).WithTimeout(time.Minute).Should(b) }", 0},
		"a helper":                         {"test/x", `func f() { d.Await("a", 20*time.Second, a) }`, 1},
		"a helper with a number":           {"test/x", "func f() { awaitAll(t, 3, time.Minute) }", 0},
		"sleep":                            {"test/x", "func f() { time.Sleep(1) }", 1},
		"sleep between two looks":          {"tools/x", "func f() { for ; a; time.Sleep(1) {} }", 0},
		"sleep in a loop":                  {"tools/x", "func f() { for a { time.Sleep(1) } }", 1},
		"sleep in a loop without an end":   {"tools/x", "func f() { for ; ; time.Sleep(1) {} }", 1},
		"sleep in a bubble":                {"internal/x", "func f() { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }", 0},
		"sleep of a helper in a bubble":    {"internal/x", "import \"testing/synctest\"\nfunc f() { synctest.Test(t, g) }; func h() { time.Sleep(1) }", 0},
		"consistently without a cluster":   {"internal/x", `func f() { g.Consistently(a, "50ms").Should(b) }`, 1},
		"consistently where there are few": {"test/x", `func f() { g.Consistently(a, "50ms").Should(b) }`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			positions := token.NewFileSet()
			file, err := parser.ParseFile(positions, "x_test.go", "package x\n"+c.source, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if found := waits(c.folder, map[string]*ast.File{"x_test.go": file}, positions); len(found) != c.want {
				t.Errorf("got %q", found)
			}
		})
	}
}
