package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/mainstay-platform/mainstay/"

// goPackage is the output of `go list -json` for a package: its imports, and all its dependencies.
type goPackage struct {
	ImportPath    string
	Imports, Deps []string
}

// importRule is what packages must not import, and why.
type importRule struct {
	// applies reports whether the rule applies to a path within the module, such as
	// "internal/kit/plan".
	applies func(at string) bool
	// forbids reports whether a package must not import another. Paths of this module are shortened,
	// others are complete.
	forbids func(at, imported string) bool
	// indirect applies the rule to all dependencies, not only to direct imports.
	indirect bool
	why      string
}

// pure are the packages of decisions that kinds share.
var pure = []string{
	"internal/kit/plan", "internal/kit/conditions", "internal/kit/summary", "internal/kit/naming", "internal/kit/image",
	"internal/kit/requeue", "internal/kit/rollout", "internal/kit/bounded", "internal/kit/jsonpatch", "internal/kit/monitoring",
	"internal/kit/component", "internal/kit/podspec",
	"internal/policy", "internal/policy/admissionpolicy", "internal/render", "internal/workload", "internal/instance/election", "internal/instance/contract",
	"internal/postgres", "internal/pgbouncer", "internal/valkey", "internal/database",
}

// large is a kind whose decisions are divided into parts, which are packages of their own.
const large = "internal/kinds/instrumentation"

var parts = []string{large + "/injection", large + "/agentrollout"}

// served are the packages of decisions about what our own API server serves. They may know kinds.
var served = []string{"internal/aggregated/farmpod", "internal/aggregated/table"}

// stacks are the kinds that create objects of our other kinds.
var stacks = []string{"internal/kinds/appstack", "internal/kinds/ecommerceplatform"}

// importRules are those of docs/architecture.
var importRules = []importRule{
	{
		applies: isAPI,
		forbids: func(_, imported string) bool {
			return !isStandard(imported) && !isAPI(imported) && !within(imported, "k8s.io/api") && !within(imported, "k8s.io/apimachinery")
		},
		why: "the API's types import k8s.io/api and apimachinery only",
	},
	{
		applies:  func(at string) bool { return isAPI(at) || isDecision(at) },
		forbids:  func(_, imported string) bool { return isClient(imported) },
		indirect: true,
		why:      "types and decisions know no client and no server, not even through others",
	},
	{
		applies: isDecision,
		forbids: func(_, imported string) bool {
			return slices.Contains([]string{"os", "os/exec", "net", "net/http", "log", "log/slog", "syscall"}, imported) ||
				within(imported, "math/rand") || within(imported, "github.com/go-logr/logr") || within(imported, "k8s.io/klog/v2")
		},
		why: "decisions rest on values only: no environment, network, randomness or log",
	},
	{
		applies: isKind,
		forbids: func(at, imported string) bool {
			return within(imported, "internal") && !slices.Contains(pure, imported) && !isOwn(at, imported)
		},
		why: "a kind knows no other kind, and of the rest what is pure",
	},
	{
		applies: isController,
		forbids: func(at, imported string) bool {
			return within(imported, "internal/kinds") && !isOwn(at, imported)
		},
		why: "a controller knows its own kind only",
	},
	{
		applies: func(at string) bool { return slices.Contains(stacks, at) },
		forbids: func(_, imported string) bool { return within(imported, "k8s.io/api/apps") },
		why:     "stacks are made of our own kinds, never of Deployments",
	},
	{
		applies: func(at string) bool {
			return within(at, "internal/kit") || within(at, "internal/workload") || within(at, "internal/database") ||
				at == "internal/registration" || slices.Contains(pure, at)
		},
		forbids: func(_, imported string) bool { return within(imported, "internal/kinds") },
		why:     "what kinds share knows no kind",
	},
	{
		applies: func(at string) bool { return within(at, "internal/kit") },
		forbids: func(_, imported string) bool {
			return within(imported, "internal") && !within(imported, "internal/kit") && imported != "internal/policy"
		},
		why: "the kit stands on nothing but itself, and policy, which is as pure",
	},
	{
		applies: func(at string) bool { return !within(at, "cmd") && !within(at, "test") && at != "internal/setup" },
		forbids: func(_, imported string) bool { return imported == "internal/setup" },
		why:     "nothing but cmd imports setup",
	},
}

func within(at, folder string) bool { return at == folder || strings.HasPrefix(at, folder+"/") }

func isAPI(at string) bool { return within(at, "api") }

// isStandard reports whether a package is in the standard library. The first element of any other
// path is a host with a dot, or a folder of this module.
func isStandard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".") && !slices.Contains([]string{"api", "charts", "cmd", "hack", "internal", "test"}, first)
}

func isClient(imported string) bool {
	return within(imported, "k8s.io/client-go") || within(imported, "sigs.k8s.io/controller-runtime") || within(imported, "k8s.io/apiserver")
}

// kindOf returns the X of internal/kinds/X and of what is below it; "" for other paths.
func kindOf(at string) string {
	below, isKind := strings.CutPrefix(at, "internal/kinds/")
	if !isKind {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

// isKind reports whether a path is internal/kinds/X, or one of the parts.
func isKind(at string) bool { return path.Dir(at) == "internal/kinds" || slices.Contains(parts, at) }

// isOwn reports whether a package of a kind imports one that isKind, of the same kind.
func isOwn(at, imported string) bool { return isKind(imported) && kindOf(imported) == kindOf(at) }

// isController reports whether a path is internal/kinds/X/Xcontroller.
func isController(at string) bool {
	return kindOf(at) != "" && at == path.Join("internal/kinds", kindOf(at), kindOf(at)+"controller")
}

func isDecision(at string) bool {
	return isKind(at) || slices.Contains(pure, at) || slices.Contains(served, at)
}

// violations returns all forbidden imports, as sorted sentences.
func violations(packages []goPackage) []string {
	var found []string
	for _, p := range packages {
		at := strings.TrimPrefix(p.ImportPath, module)
		if kind := kindOf(at); kind != "" && !isKind(at) && !isController(at) && path.Base(at) != kind+"test" {
			found = append(found, fmt.Sprintf("%s: below a kind are its parts, and the kind's name with controller and with test behind it", at))
		}
		for _, rule := range importRules {
			if !rule.applies(at) {
				continue
			}
			imports := p.Imports
			if rule.indirect {
				imports = slices.Concat(p.Imports, p.Deps)
			}
			for _, imported := range imports {
				imported = strings.TrimPrefix(imported, module)
				problem := fmt.Sprintf("%s imports %s: %s", at, imported, rule.why)
				if rule.forbids(at, imported) && !slices.Contains(found, problem) {
					found = append(found, problem)
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func TestImports(t *testing.T) {
	packages := listPackages(t)
	for _, problem := range violations(packages) {
		t.Error(problem)
	}
	// Otherwise a rule about a renamed folder would always pass.
	for _, kind := range []func(string) bool{isAPI, isKind, isController, isDecision} {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return kind(strings.TrimPrefix(p.ImportPath, module)) }) {
			t.Error("a group of packages is empty")
		}
	}
}

func listPackages(t *testing.T) []goPackage {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,Deps", "./...")
	command.Dir = ".."
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("listing the packages: %v\n%s", err, stderr.String())
	}
	decoder := json.NewDecoder(bytes.NewReader(output))
	var packages []goPackage
	for {
		var p goPackage
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		if err != nil {
			t.Fatalf("reading the packages: %v", err)
		}
		packages = append(packages, p)
	}
}

// TestImportRules: each rule refuses something and accepts a similar import.
func TestImportRules(t *testing.T) {
	for _, test := range []struct {
		at, imported string
		indirect     bool
		want         bool
	}{
		{at: "api/apps/v1", imported: "fmt", want: true},
		{at: "api/apps/v1", imported: "k8s.io/api/core/v1", want: true},
		{at: "api/apps/v1", imported: module + "api", want: true},
		{at: "api/apps/v1", imported: "k8s.io/apimachineryx/pkg"},
		{at: "api/apps/v1", imported: "k8s.io/utils/ptr"},
		{at: "api/apps/v1", imported: module + "internal/kit/naming"},
		{at: "api/apps/v1", imported: "k8s.io/client-go/rest", indirect: true},
		{at: "internal/kinds/webapp", imported: module + "internal/kit/plan", want: true},
		{at: "internal/kinds/webapp", imported: module + "internal/kit/apply"},
		{at: "internal/kinds/webapp", imported: module + "internal/kinds/cache"},
		{at: "internal/kinds/webapp", imported: module + large + "/injection"},
		{at: "internal/kinds/webapp", imported: module + "internal/aggregated/table"},
		{at: "internal/kinds/webapp", imported: "sigs.k8s.io/controller-runtime/pkg/client"},
		{at: "internal/kinds/webapp", imported: "k8s.io/client-go/util/retry", indirect: true},
		{at: "internal/kinds/webapp", imported: "os", indirect: true, want: true},
		{at: "internal/kinds/webapp", imported: "os"},
		{at: "internal/kinds/webapp", imported: "math/rand/v2"},
		{at: "internal/kinds/webapp", imported: "time", want: true},
		{at: "internal/kit/plan", imported: "net/http"},
		{at: "internal/kit/apply", imported: "sigs.k8s.io/controller-runtime/pkg/client", want: true},
		{at: "internal/kit/apply", imported: module + "internal/kinds/webapp"},
		{at: "internal/kit/apply", imported: module + "internal/workload"},
		{at: "internal/workload", imported: module + "internal/kinds/webapp"},
		{at: "internal/kinds/webapp/webappcontroller", imported: module + "internal/kinds/webapp", want: true},
		{at: "internal/kinds/webapp/webappcontroller", imported: module + "internal/kinds/cache"},
		{at: "internal/kinds/webapp/webappcontroller", imported: module + "internal/kinds/cache/cachecontroller"},
		{at: "internal/kinds/webapp/webappcontroller", imported: module + large + "/injection"},
		{at: "internal/kinds/webapp/controller", imported: "fmt"},
		{at: large, imported: module + large + "/injection", want: true},
		{at: large, imported: module + large + "/instrumentationcontroller"},
		{at: large + "/agentrollout", imported: module + large + "/injection", want: true},
		{at: large + "/injection", imported: "sigs.k8s.io/controller-runtime/pkg/client"},
		{at: large + "/injection", imported: module + large + "/instrumentationtest"},
		{at: large + "/instrumentationcontroller", imported: module + large + "/injection", want: true},
		{at: large + "/instrumentationcontroller", imported: module + large + "/instrumentationtest"},
		{at: large + "/instrumentationtest", imported: "math/rand/v2", want: true},
		{at: "internal/kinds/appstack", imported: "k8s.io/api/apps/v1"},
		{at: "internal/kinds/webapp", imported: "k8s.io/api/apps/v1", want: true},
		{at: "internal/aggregated/farmpod", imported: "k8s.io/apiserver/pkg/registry/rest", indirect: true},
		{at: "internal/aggregated/farmpod", imported: module + "internal/workload", want: true},
		{at: "internal/aggregated/farmpod", imported: module + large + "/injection", want: true},
		{at: "internal/aggregated/ownerchain", imported: "k8s.io/client-go/metadata", want: true},
		{at: "internal/cli/get", imported: module + "internal/setup"},
		{at: "cmd/mainstay", imported: module + "internal/setup", want: true},
	} {
		p := goPackage{ImportPath: module + test.at}
		if test.indirect {
			p.Deps = []string{test.imported}
		} else {
			p.Imports = []string{test.imported}
		}
		if found := violations([]goPackage{p}); (len(found) == 0) != test.want {
			t.Errorf("%s imports %s (indirectly: %t): got %q", test.at, test.imported, test.indirect, found)
		}
	}
}

// kindType matches the Go type of one of our kinds, or of a list of its objects.
var kindType = regexp.MustCompile(`(?m)^type (\w+) struct \{\n\tmetav1\.TypeMeta\b`)

// kindNames returns the names of our kinds.
func kindNames(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../api/*/*/*_types.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range kindType.FindAllSubmatch(source, -1) {
			// A Cache has the name of what controller-runtime and others keep.
			if name := string(match[1]); !strings.HasSuffix(name, "List") && name != "Cache" {
				names = append(names, name)
			}
		}
	}
	return names
}

// namedKinds returns the kinds that the code of a file names, in identifiers and strings.
func namedKinds(file *ast.File, kinds []string) []string {
	var named []string
	look := func(text string) {
		for _, kind := range kinds {
			if strings.Contains(text, kind) && !slices.Contains(named, kind) {
				named = append(named, kind)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.Ident:
			look(node.Name)
		case *ast.BasicLit:
			look(node.Value)
		}
		return true
	})
	return named
}

// TestImportsOfShared: the controller of workloads, too, knows no kind, and neither does what kinds
// register with.
func TestImportsOfShared(t *testing.T) {
	for _, at := range []string{
		"internal/workload", "internal/workload/observe", "internal/workload/workloadcontroller", "internal/registration",
		"internal/database", "internal/database/databasecontroller",
	} {
		for imported, want := range map[string]int{
			"internal/kit/plan": 0, "internal/kinds/webapp": 1, "internal/kinds/webapp/webappcontroller": 1,
		} {
			if found := violations([]goPackage{{ImportPath: module + at, Imports: []string{module + imported}}}); len(found) != want {
				t.Errorf("%s imports %s: got %q", at, imported, found)
			}
		}
	}
}

// TestWorkloadsNameNoKind: what kinds demand of workloads comes from the readers that they supply.
// So the code about workloads does not name them, although it imports the API's annotations.
func TestWorkloadsNameNoKind(t *testing.T) {
	kinds := kindNames(t)
	if !slices.Contains(kinds, "AppConfig") || !slices.Contains(kinds, "ConfigMonitor") {
		t.Fatalf("of our kinds only %v are found", kinds)
	}
	for source, want := range map[string]int{
		`var x = api.AppConfigList{}`:        1,
		`var x = "ConfigMonitor"`:            1,
		"// An AppConfig is one.\nvar x int": 0,
		`var x = api.AnnotationReload`:       0,
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "p.go", "package p\n"+source+"\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if named := namedKinds(file, kinds); len(named) != want {
			t.Errorf("%s: it names %v", source, named)
		}
	}
	seen := 0
	err := filepath.WalkDir("workload", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		seen++
		for _, kind := range namedKinds(file, kinds) {
			t.Errorf("%s names the kind %s", name, kind)
		}
		return nil
	})
	if err != nil || seen < 20 {
		t.Errorf("%d files were seen: %v", seen, err)
	}
}
