package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parsers are functions whose cost may grow faster than the length of the text that they read, or
// with what is in it. A constant text is not that of a user.
var parsers = map[string][]string{
	"encoding/json":                               {"Unmarshal", "NewDecoder"},
	"encoding/pem":                                {"Decode"},
	"crypto/x509":                                 {"ParseCertificate", "ParseCertificates"},
	"sigs.k8s.io/json":                            {"Unmarshal", "UnmarshalStrict", "UnmarshalCaseSensitivePreserveInts"},
	"sigs.k8s.io/yaml":                            {"Unmarshal", "UnmarshalStrict"},
	"k8s.io/apimachinery/pkg/api/resource":        {"ParseQuantity", "MustParse"},
	"k8s.io/apimachinery/pkg/labels":              {"Parse", "ParseToRequirements", "ConvertSelectorToLabelsMap"},
	"k8s.io/apimachinery/pkg/fields":              {"ParseSelector"},
	"k8s.io/apimachinery/pkg/apis/meta/v1":        {"LabelSelectorAsSelector", "ParseToLabelSelector"},
	"regexp":                                      {"Compile", "MustCompile"},
	"regexp/syntax":                               {"Parse"},
	"text/template":                               {"New"},
	"text/template/parse":                         {"New", "Parse"},
	"github.com/santhosh-tekuri/jsonschema/v6":    {"UnmarshalJSON", "NewCompiler"},
	"k8s.io/kube-openapi/pkg/validation/validate": {"NewSchemaValidator"},
	// Ours are bounded, but the number of bytes is the caller's.
	"github.com/mainstay-platform/mainstay/internal/kit/bounded": {"Unmarshal", "Check", "NewBudget"},
}

// methods are parsers that are methods, by their names.
var methods = []string{"FromJSON"}

// managed bounds managed fields, which nobody but the API server writes, from the fields of the
// object: the object has at most 1.5 MB, and the cost grows with their length.
const managed = "managed fields: the API server writes them, and an object has 1.5 MB"

// bounds name, for each function that calls a parser, what bounds its text: a row of the table of
// limits in docs/threat-model.md ("limits: ..."), or why users can't make it expensive.
var bounds = map[string]string{
	"aggregated/crdstorage/memory.go matcher":                            "a storage in memory, for tests",
	"aggregated/crdstorage/record.go KeptForm":                           "a stored record: 1.5 MB of JSON without quantities",
	"aggregated/crdstorage/record.go standIn":                            "the same record",
	"install/crds/carried.go parse":                                      "definitions that are compiled in",
	"install/crds/schema.go CheckSpec":                                   "limits: `components[].spec` of an AppStack",
	"install/uninstall/uninstall.go stopManagers":                        "the selector of our own Deployment",
	"instance/election/record.go Decode":                                 "16 KiB, 16 rules of 32 members: FuzzRecord",
	"instance/engine/scripted/scripted.go load":                          "a database server of tests",
	"instance/peers/peers.go decode":                                     "512 KiB, from a peer with a certificate of the database: FuzzMessage",
	"instance/volume/volume.go decodeLocal":                              "a file that the instance itself writes",
	"database/certificates.go validity":                                  "a Secret: 1 MiB, of each of five keys the first certificate",
	"install/certificates/pair.go parsePair":                             "a Secret of the manager's namespace: 1 MiB, FuzzParsePair",
	"kit/pki/pki.go ParseBundle":                                         "limits: Secret `NAME-certificates` of a database",
	"kit/pki/pki.go sign":                                                "what we have just signed",
	"workload/stamp.go ParseStamp":                                       "limits: annotation `config.mainstay.dev/observed`",
	"instance/contract/provisions.go ParseProvisions":                    "limits: Secret `NAME-provisions` of a PostgreSQL",
	"instance/contract/report.go ParseReport":                            "limits: annotation `database.mainstay.dev/instance`",
	"instance/contract/settings.go ParseSettings":                        "64 KiB: FuzzSettings",
	"kinds/appstack/bind.go bindingsIn":                                  "limits: `components[].spec` of an AppStack",
	"kinds/appstack/decide.go exposes":                                   "limits: `components[].spec` of an AppStack",
	"kinds/appstack/external.go readKind":                                "limits: `components[].spec` of an AppStack",
	"kinds/appstack/external.go readExternal":                            "limits: `components[].spec` of an AppStack",
	"kinds/appstack/object.go Object":                                    "limits: `components[].spec` of an AppStack",
	"kinds/appstack/warn.go importedPrefixes":                            "limits: `components[].spec` of an AppStack",
	"kinds/configmonitor/record.go ParseRecord":                          "limits: annotation `config.mainstay.dev/evicted`",
	"kinds/ecommerceplatform/compile.go formerly":                        "limits: `components[].spec` of an AppStack",
	"kinds/ecommerceplatform/warn.go valuesOf":                           "limits: `components[].spec` of an AppStack",
	"kinds/instrumentation/injection/record.go Injected":                 "limits: annotation `instrumentation.mainstay.dev/injected`",
	"kinds/webapp/unknown.go KeepUnknown":                                "limits: review of a conversion",
	"kinds/webapp/unknown.go decode":                                     "limits: review of a conversion",
	"kinds/webapp/unknown.go restoreUnknown":                             "limits: review of a conversion",
	"kinds/webapp/unknown.go stashUnknown":                               "limits: review of a conversion",
	"kit/admission/bounded.go checkCost":                                 "limits: review of an admission",
	"valkey/server/stream.go readJSON":                                   "the limit of the caller, from a peer with a certificate of the Cache: FuzzProtocol",
	"valkey/state.go ParseState":                                         "a file of the volume: FuzzState",
	"kinds/appstack/object.go read":                                      "limits: `components[].spec` of an AppStack",
	"kinds/ecommerceplatform/compile.go cache":                           "constants of the table of environments",
	"kinds/ecommerceplatform/compile.go size":                            "after bounded.Quantity",
	"kinds/ecommerceplatform/compile.go storage":                         "constants of the table of environments",
	"kinds/ecommerceplatform/table.go resources":                         "constants of the table of environments",
	"kinds/instrumentation/injection/match.go selectorOf":                "the review of its Instrumentation; grows with the number of values",
	"kinds/instrumentation/instrumentationcontroller/watch.go watch":     "the same",
	"kinds/instrumentation/instrumentationcontroller/webhook.go written": "limits: review of an admission",
	"kinds/webapp/convert.go parseStash":                                 "limits: annotation `mainstay.dev/v1-spec`",
	"kinds/webapp/ownership.go readFields":                               "limits: review of a conversion",
	"kit/apply/adopt.go takenOverEntries":                                managed,
	"kit/apply/reclaim.go reclaimedEntries":                              managed,
	"kit/apply/render.go ownedFields":                                    managed,
	"kit/apply/revert.go addedToSpec":                                    managed,
	"kit/apply/revert.go of":                                             managed,
	"workload/observe/hash.go writesData":                                managed,
	"kit/bounded/bounded.go Check":                                       "the limit of the caller, in bytes",
	"kit/bounded/bounded.go Unmarshal":                                   "after Check",
	"kit/bounded/patterns.go Compile":                                    "1,000 bytes, 10,000 instructions",
	"kit/bounded/unreadable.go Unreadable":                               "after Check",
	"kit/bounded/unreadable.go exampleFor":                               "after Check, which refuses costly quantities",
	"kit/bounded/unreadable.go likely":                                   "after Quantity",
	"kit/jsonpatch/jsonpatch.go treeOf":                                  "an object that we encode ourselves, or the review of an admission",
	"render/arguments.go decoded":                                        "limits: templates of an AppConfig",
	"render/schema.go ReadSchema":                                        "64 KiB, 100 levels: FuzzSchema",
	"render/template.go read":                                            "limits: templates of an AppConfig",
	"render/template.go variables":                                       "an expression that is compiled in",
	"setup/conversion.go ServeHTTP":                                      "limits: review of a conversion",
	"setup/conversion.go keepUnknown":                                    "limits: review of a conversion",
	"setup/conversion.go check":                                          "limits: review of a conversion",
	"setup/defaultpolicy.go newDefaultPolicy":                            "a policy that is compiled in",
	"valkey/history.go ParseHistory":                                     "32 KiB: FuzzHistory",
	"workload/demand.go OfSource":                                        "limits: annotation `config.mainstay.dev/pod-selector`",
	"workload/observe/template.go currentOf":                             "the selector of a workload: no more than its object; grows with the number of values",
	"workload/pods.go WithoutPodNames":                                   "the quoted name of a workload: 253 bytes",
}

// TestParsers finds every call of a parser in what is shipped. Each must be known here, with what
// bounds it: a new one is a question that has to be answered first.
func TestParsers(t *testing.T) {
	found := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		isShipped := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "test/")
		if err != nil || entry.IsDir() || !isShipped {
			return err
		}
		return addParsers(path, found)
	})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	for at, bound := range bounds {
		if row, isRow := strings.CutPrefix(bound, "limits: "); isRow && !strings.Contains(string(page), "\n| "+row+" |") {
			t.Errorf("%s: docs/threat-model.md has no limits of %s", at, row)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(bounds)), slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("parsers are called elsewhere than bounds says: name what bounds each (-bounds +calls):\n%s", diff)
	}
}

// addParsers adds the functions of a file that call a parser, as "FOLDER/FILE FUNCTION".
func addParsers(path string, found map[string]bool) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || ast.IsGenerated(file) {
		return err
	}
	imported := map[string]string{}
	for _, one := range file.Imports {
		from, err := strconv.Unquote(one.Path.Value)
		if err != nil {
			return err
		}
		name := from[strings.LastIndex(from, "/")+1:]
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" && !strings.HasPrefix(from, "k8s.io") {
			name = filepath.Base(filepath.Dir(from))
		}
		if one.Name != nil {
			name = one.Name.Name
		}
		imported[name] = from
	}
	for _, declaration := range file.Decls {
		name := "variables"
		if function, isFunction := declaration.(*ast.FuncDecl); isFunction {
			name = function.Name.Name
		}
		ast.Inspect(declaration, func(node ast.Node) bool {
			if call, isCall := node.(*ast.CallExpr); isCall && isParser(call, imported) {
				found[filepath.ToSlash(path)+" "+name] = true
			}
			return true
		})
	}
	return nil
}

// isParser reports whether a call is one of a parser, with a text that is not in the source itself.
func isParser(call *ast.CallExpr, imported map[string]string) bool {
	called, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector {
		return false
	}
	if slices.Contains(methods, called.Sel.Name) {
		return true
	}
	from, isName := called.X.(*ast.Ident)
	return isName && slices.Contains(parsers[imported[from.Name]], called.Sel.Name) && !isConstant(call.Args)
}

// isConstant reports whether the arguments are texts in the source.
func isConstant(arguments []ast.Expr) bool {
	return len(arguments) > 0 && !slices.ContainsFunc(arguments, func(argument ast.Expr) bool {
		if sum, isSum := argument.(*ast.BinaryExpr); isSum {
			return !isConstant([]ast.Expr{sum.X, sum.Y})
		}
		_, isText := argument.(*ast.BasicLit)
		return !isText
	})
}
