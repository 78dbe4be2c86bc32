package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// silent are the reasons that no event has: those of conditions whose changes are none, those of
// served resources, and those of workloads that are not Failed.
var silent = []string{"RolledOut", "Settled", "Active", "Kept", "Unreadable", "Rolling"}

// recording are the files that record events. For a further one, see that the page and reasonsIn
// have its reasons.
var recording = []string{
	"install/apiservice/publisher.go", "install/webhooks/revert.go", "kit/apply/patch.go", "kit/reconciler/reconciler.go",
	"kit/reconciler/reverts.go", "kit/recorder/recorder.go", "workload/workloadcontroller/missing.go", "workload/workloadcontroller/reconciler.go",
	"workload/workloadcontroller/setup.go",
}

// listed matches the first column of a row of events.md.
var listed = regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z]+`(?:, )?)+) \\|")

// TestEvents: the page lists the reasons of all events, and no others.
func TestEvents(t *testing.T) {
	page, err := os.ReadFile("events.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range listed.FindAllStringSubmatch(string(page), -1) {
		for reason := range strings.SplitSeq(row[1], ", ") {
			documented = append(documented, strings.Trim(reason, "`"))
		}
	}
	reasons := []string{"LeaderElection"} // client-go's
	for folder, named := range map[string]string{
		"../api": "Reason", "../api/instrumentation": "Workload", "../internal/kinds/instrumentation/agentrollout": "Event",
		"../internal/workload/workloadcontroller": "reason", "../internal/install/apiservice": "reason",
	} {
		reasons = append(reasons, reasonsIn(t, folder, named)...)
	}
	for _, reason := range reasons {
		if !slices.Contains(documented, reason) && !slices.Contains(silent, reason) {
			t.Errorf("docs/events.md lacks %s", reason)
		}
	}
	for _, reason := range documented {
		if !slices.Contains(reasons, reason) || slices.Contains(silent, reason) {
			t.Errorf("docs/events.md has %s, which no event has", reason)
		}
	}
}

// TestRecording: no other file records events.
func TestRecording(t *testing.T) {
	var found []string
	eachFile(t, "../internal", func(path string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			if selected, ok := node.(*ast.SelectorExpr); ok && selected.Sel.Name == "Eventf" {
				found = append(found, filepath.ToSlash(strings.TrimPrefix(path, "../internal/")))
			}
			return true
		})
	})
	slices.Sort(found)
	if found = slices.Compact(found); !slices.Equal(found, recording) {
		t.Errorf("events are recorded in %q, want %q", found, recording)
	}
}

// reasonsIn returns the values of the constants below a folder whose names begin with named, and
// the reasons of events that are written as such.
func reasonsIn(t *testing.T, folder, named string) (reasons []string) {
	t.Helper()
	eachFile(t, folder, func(_ string, file *ast.File) {
		ast.Inspect(file, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.ValueSpec:
				if len(node.Values) == 1 && strings.HasPrefix(node.Names[0].Name, named) {
					reasons = append(reasons, textsOf(node.Values...)...)
				}
			case *ast.CompositeLit:
				if name, ok := node.Type.(*ast.Ident); ok && name.Name == "event" && len(node.Elts) == 3 {
					reasons = append(reasons, textsOf(node.Elts[1])...)
				}
			}
			return true
		})
	})
	return reasons
}

// textsOf returns the values of those expressions that are texts.
func textsOf(expressions ...ast.Expr) (texts []string) {
	for _, expression := range expressions {
		if literal, ok := expression.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// eachFile parses the Go files below a folder, except tests.
func eachFile(t *testing.T, folder string, visit func(path string, file *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err == nil {
			visit(path, file)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
