package internal_test

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Limits of what a reader can take in at once. Comments inside a function do not count: they make
// it easier to understand.
const (
	maxFile     = 600
	maxFunction = 60
)

// tooLong returns what is too long in a file, unless it is generated.
func tooLong(name string, source []byte) ([]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	var found []string
	if lines := bytes.Count(source, []byte("\n")); lines > maxFile {
		found = append(found, fmt.Sprintf("%s has %d lines, more than %d", name, lines, maxFile))
	}
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		if lines := bodyLines(files, file, function.Body); lines > maxFunction {
			found = append(found, fmt.Sprintf("%s: %s has %d lines, more than %d", name, function.Name.Name, lines, maxFunction))
		}
	}
	return found, nil
}

// bodyLines returns the number of lines between the braces, without comment lines. A row of a table
// (a slice or map) in a test counts as one line, however it is broken.
func bodyLines(files *token.FileSet, file *ast.File, body *ast.BlockStmt) int {
	line := func(at token.Pos) int { return files.Position(at).Line }
	lines := line(body.Rbrace) - line(body.Lbrace) - 1
	for _, group := range file.Comments {
		if group.Pos() < body.Lbrace || group.End() > body.Rbrace {
			continue
		}
		if startsLine(files, body, group.Pos()) {
			lines -= line(group.End()) - line(group.Pos()) + 1
		}
	}
	if strings.HasSuffix(files.Position(body.Pos()).Filename, "_test.go") {
		lines -= brokenRows(body, line)
	}
	return lines
}

// brokenRows returns how many lines the rows of tables take beyond one each.
func brokenRows(body *ast.BlockStmt, line func(token.Pos) int) int {
	lines := 0
	ast.Inspect(body, func(node ast.Node) bool {
		table, isTable := node.(*ast.CompositeLit)
		if !isTable {
			return true
		}
		switch table.Type.(type) {
		case *ast.ArrayType, *ast.MapType:
		default:
			return true
		}
		for _, row := range table.Elts {
			lines += line(row.End()) - line(row.Pos())
		}
		return false
	})
	return lines
}

// startsLine reports whether a comment is the first thing in its line.
func startsLine(files *token.FileSet, body *ast.BlockStmt, at token.Pos) bool {
	line := files.Position(at).Line
	alone := true
	ast.Inspect(body, func(node ast.Node) bool {
		if node != nil && node != body && node.Pos() < at && (files.Position(node.Pos()).Line == line ||
			files.Position(node.End()).Line == line) {
			alone = false
		}
		return alone
	})
	return alone
}

func TestLength(t *testing.T) {
	seen := 0
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", ".cache", "bin", "node_modules"}, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		seen++
		problems, err := tooLong(filepath.ToSlash(strings.TrimPrefix(name, ".."+string(filepath.Separator))), source)
		if len(source) > 0 && !bytes.Contains(source[:min(len(source), 200)], []byte("DO NOT EDIT")) {
			problems = append(problems, tooWide(name, source)...)
		}
		for _, problem := range problems {
			t.Error(problem)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d files were seen", seen)
	}
}

func TestTooLong(t *testing.T) {
	function := func(lines string) string { return "package p\n\nfunc f() {\n" + lines + "}\n" }
	for name, test := range map[string]struct {
		source string
		want   int
		file   string
	}{
		"as long as may be":     {function(strings.Repeat("\tf()\n", maxFunction)), 0, ""},
		"a line too many":       {function(strings.Repeat("\tf()\n", maxFunction+1)), 1, ""},
		"comments":              {function(strings.Repeat("\t// why\n\tf()\n", maxFunction)), 0, ""},
		"comments behind code":  {function(strings.Repeat("\tf() // why\n", maxFunction+1)), 1, ""},
		"one long statement":    {function("\tf(" + strings.Repeat("\n\t\t1,", maxFunction) + "\n\t)\n"), 1, ""},
		"a table of a test":     {function("\tt := []int{" + strings.Repeat("\n\t\tf(1,\n\t\t\t2),", maxFunction-2) + "\n\t}\n"), 0, "p_test.go"},
		"a table elsewhere":     {function("\tt := []int{" + strings.Repeat("\n\t\tf(1,\n\t\t\t2),", maxFunction-2) + "\n\t}\n"), 1, "p.go"},
		"file":                  {"package p\n" + strings.Repeat("\n", maxFile-1), 0, ""},
		"file, a line too many": {"package p\n" + strings.Repeat("\n", maxFile), 1, ""},
		"generated":             {"// Code generated by x. DO NOT EDIT.\n" + function(strings.Repeat("\tf()\n", 1000)), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			name := cmp.Or(test.file, "p.go")
			found, err := tooLong(name, []byte(test.source))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != test.want {
				t.Errorf("got %q", found)
			}
		})
	}
}

// What fits beside another window. A string may be as wide as its text, so that a message can be
// searched for.
const (
	maxCode    = 140
	maxComment = 100
)

// marker is a comment for programs, a row of a table, or one with a link: these can't be broken.
var marker = regexp.MustCompile(`^//(\s*\+|nolint|go:|\t|.*https?://\S{40,})`)

// tooWide names the lines of a file that are too wide. Tabs count as one column.
func tooWide(name string, source []byte) []string {
	var found []string
	files := token.NewFileSet()
	file := files.AddFile(name, -1, len(source))
	var tokens scanner.Scanner
	tokens.Init(file, source, nil, scanner.ScanComments)
	texts := map[int]bool{}
	for {
		position, kind, literal := tokens.Scan()
		if kind == token.EOF {
			break
		}
		isWide := strings.HasPrefix(literal, "`") || files.Position(position).Column+len(literal) > maxCode
		if kind == token.STRING && isWide {
			first := files.Position(position).Line
			for line := range strings.Count(literal, "\n") + 1 {
				texts[first+line] = true
			}
		}
	}
	for i, line := range strings.Split(string(source), "\n") {
		text, limit := strings.TrimLeft(line, "\t"), maxCode
		isComment := strings.HasPrefix(text, "//")
		if isComment {
			limit = maxComment
		}
		if utf8.RuneCountInString(line) <= limit || texts[i+1] || isComment && marker.MatchString(text) || strings.Contains(line, "//nolint") {
			continue
		}
		found = append(found, fmt.Sprintf("%s:%d has %d columns, more than %d", name, i+1, utf8.RuneCountInString(line), limit))
	}
	return found
}

func TestTooWide(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		want   int
	}{
		"code that fits":             {"\tf(" + strings.Repeat("1, ", 45) + "1)", 0},
		"code":                       {"\tf(" + strings.Repeat("1, ", 46) + "1)", 1},
		"a text":                     {"\tf(\"" + strings.Repeat("a", 150) + "\")", 0},
		"code behind a text":         {"\tf(\"a\"" + strings.Repeat(", 1", 50) + ")", 1},
		"a raw text of many lines":   {"\tf(`\n" + strings.Repeat("a", 150) + "\n`)", 0},
		"a comment that fits":        {"// " + strings.Repeat("a", 97), 0},
		"a comment":                  {"// " + strings.Repeat("a", 98), 1},
		"a marker":                   {"// +kubebuilder:" + strings.Repeat("a", 98), 0},
		"a comment with a long link": {"// Source: https://example.com/" + strings.Repeat("a", 98), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if found := tooWide("p.go", []byte("package p\n\nfunc f() {\n"+test.source+"\n}\n")); len(found) != test.want {
				t.Errorf("got %q", found)
			}
		})
	}
}
