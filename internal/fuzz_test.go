package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// budgeted are fuzz targets with a budget of their own, and the function that compares with it.
var budgeted = map[string]string{
	"FuzzAdmission": "isTooMuch", // for each webhook
}

// TestFuzzTargets: each fuzz target of the repository begins with the bombs of test/fuzz, and has a
// budget for each of the texts that it gets.
func TestFuzzTargets(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "testdata"}, entry.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, target := range fuzzTargets(file) {
			seen++
			for _, problem := range fuzzProblems(target) {
				t.Errorf("%s: %s: %s", name, target.Name.Name, problem)
			}
		}
		return nil
	})
	if err != nil || seen < 30 {
		t.Errorf("%d targets were found: %v", seen, err)
	}
}

// fuzzTargets returns the fuzz targets of a file.
func fuzzTargets(file *ast.File) []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, declaration := range file.Decls {
		function, isFunction := declaration.(*ast.FuncDecl)
		if isFunction && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Fuzz") {
			found = append(found, function)
		}
	}
	return found
}

// fuzzProblems says what a fuzz target lacks: bombs, or a budget.
func fuzzProblems(target *ast.FuncDecl) []string {
	var problems []string
	if len(callsOf(target.Body, "fuzz", "AddBombs")) == 0 {
		problems = append(problems, "has no bombs: call fuzz.AddBombs before f.Fuzz")
	}
	calls := callsOf(target.Body, "f", "Fuzz")
	if len(calls) != 1 {
		return append(problems, "must call f.Fuzz once")
	}
	tried, isLiteral := calls[0].Args[0].(*ast.FuncLit)
	if !isLiteral {
		return append(problems, "must give f.Fuzz a function literal")
	}
	if own := budgeted[target.Name.Name]; own != "" && len(callsOf(tried.Body, "", own)) > 0 {
		return problems
	}
	measured := budgetOf(tried.Body)
	for _, text := range textsOf(tried.Type) {
		if !measured[text] {
			problems = append(problems, "has no budget for "+text+": begin with defer fuzz.Budget(t, "+text+")()")
		}
	}
	return problems
}

// callsOf returns the calls of a function of a package, or of this package: "".
func callsOf(within ast.Node, in, function string) []*ast.CallExpr {
	var found []*ast.CallExpr
	ast.Inspect(within, func(node ast.Node) bool {
		if call, isCall := node.(*ast.CallExpr); isCall && isCallOf(call, in, function) {
			found = append(found, call)
		}
		return true
	})
	return found
}

func isCallOf(call *ast.CallExpr, in, function string) bool {
	if name, isName := call.Fun.(*ast.Ident); isName {
		return in == "" && name.Name == function
	}
	called, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector || called.Sel.Name != function {
		return false
	}
	from, isName := called.X.(*ast.Ident)
	return isName && from.Name == in
}

// budgetOf returns the names of what is given to a budget whose check is deferred.
func budgetOf(body *ast.BlockStmt) map[string]bool {
	measured := map[string]bool{}
	for _, statement := range body.List {
		deferred, isDeferred := statement.(*ast.DeferStmt)
		if !isDeferred {
			continue
		}
		begun, isCall := deferred.Call.Fun.(*ast.CallExpr)
		if !isCall || !isCallOf(begun, "fuzz", "Budget") && !isCallOf(begun, "fuzz", "BudgetOf") {
			continue
		}
		for _, argument := range begun.Args {
			ast.Inspect(argument, func(node ast.Node) bool { // []byte(text) measures text
				if name, isName := node.(*ast.Ident); isName {
					measured[name.Name] = true
				}
				return true
			})
		}
	}
	return measured
}

// textsOf returns the names of the parameters that are strings or bytes.
func textsOf(function *ast.FuncType) []string {
	var names []string
	for _, field := range function.Params.List {
		kind, isName := field.Type.(*ast.Ident)
		if _, isList := field.Type.(*ast.ArrayType); !isList && (!isName || kind.Name != "string") {
			continue
		}
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// TestFuzzProblems: each thing that a fuzz target may lack is found.
func TestFuzzProblems(t *testing.T) {
	const bombs = "fuzz.AddBombs(f, \"a\"); "
	for body, want := range map[string]string{
		bombs + `f.Fuzz(func(t *testing.T, a, b string) { defer fuzz.Budget(t, a, b)() })`:                                 "",
		bombs + `f.Fuzz(func(t *testing.T, number int, a []byte, b string) { defer fuzz.BudgetOf(t, 1, b, string(a))() })`: "",
		bombs + `f.Fuzz(func(t *testing.T, number int, a []byte) { defer fuzz.BudgetOf(t, 1, a)() })`:                      "",
		bombs + `f.Fuzz(func(t *testing.T, a string) { defer fuzz.Budget(t, a) })`:                                         "budget for a:",
		bombs + `f.Fuzz(func(t *testing.T, a string) { fuzz.Budget(t, a)() })`:                                             "budget for a:",
		bombs + `f.Fuzz(func(t *testing.T, a string) { isTooMuch(a) })`:                                                    "budget for a:",
		bombs + `f.Fuzz(func(t *testing.T, a string) { _ = func() { defer fuzz.Budget(t, a)() } })`:                        "budget for a:",
		`f.Add("a"); f.Fuzz(func(t *testing.T, a string) { defer fuzz.Budget(t, a)() })`:                                   "no bombs",
		`other.AddBombs(f, "a"); f.Fuzz(func(t *testing.T, a string) { defer fuzz.Budget(t, a)() })`:                       "no bombs",
		bombs + `f.Fuzz(func(t *testing.T, a, b string) { defer fuzz.Budget(t, b)() })`:                                    "budget for a:",
		bombs + `f.Fuzz(tried)`: "a function literal",
		bombs:                   "must call f.Fuzz",
	} {
		source := "package a\nfunc FuzzA(f *testing.F) { " + body + " }"
		file, err := parser.ParseFile(token.NewFileSet(), "a_test.go", source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(fuzzProblems(fuzzTargets(file)[0]), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}
