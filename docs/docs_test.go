package docs

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/charts"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// row is a line of the table of folders.md.
var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

// compare tells which packages folders lacks, and which of folders are none. A folder that ends in
// /... stands for all below it.
func compare(folders, packages []string) (missing, gone []string) {
	covers := func(folder, at string) bool {
		above, all := strings.CutSuffix(folder, "/...")
		return folder == at || (all && strings.HasPrefix(at, above+"/"))
	}
	for _, at := range packages {
		if !slices.ContainsFunc(folders, func(folder string) bool { return covers(folder, at) }) {
			missing = append(missing, at)
		}
	}
	for _, folder := range folders {
		if !slices.ContainsFunc(packages, func(at string) bool { return covers(folder, at) }) {
			gone = append(gone, folder)
		}
	}
	return missing, gone
}

func TestFolders(t *testing.T) {
	page, err := os.ReadFile("folders.md")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		folders = append(folders, match[1])
	}
	missing, gone := compare(folders, packages(t))
	for _, at := range missing {
		t.Errorf("docs/folders.md does not say what %s is for", at)
	}
	for _, folder := range gone {
		t.Errorf("docs/folders.md names %s, where there is no Go code", folder)
	}
}

// packages are the folders of this repository that have Go files, in all its modules.
func packages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != ".." && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if at := path.Dir(strings.TrimPrefix(filepath.ToSlash(name), "../")); strings.HasSuffix(name, ".go") && !slices.Contains(found, at) {
			found = append(found, at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 20 {
		t.Fatalf("only %d packages were found", len(found))
	}
	return found
}

func TestCompare(t *testing.T) {
	missing, gone := compare([]string{"a", "old", "b/...", "empty/..."}, []string{"a", "new", "b/c", "bb"})
	if !slices.Equal(missing, []string{"new", "bb"}) || !slices.Equal(gone, []string{"old", "empty/..."}) {
		t.Errorf("missing %q, gone %q", missing, gone)
	}
}

// fuzzTarget is one that the threat model names.
var fuzzTarget = regexp.MustCompile("`(Fuzz[A-Za-z]+)`")

func TestThreatModel(t *testing.T) {
	page, err := os.ReadFile("threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, match := range fuzzTarget.FindAllStringSubmatch(string(page), -1) {
		named = append(named, match[1])
	}
	missing, gone := compare(named, fuzzTargets(t))
	for _, target := range missing {
		t.Errorf("docs/threat-model.md does not say which way in %s is about", target)
	}
	for _, target := range gone {
		t.Errorf("docs/threat-model.md names %s, which is no fuzz target", target)
	}
}

// fuzzTargets are those of the product: the testbed is a tool.
func fuzzTargets(t *testing.T) []string {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z]+)\(`)
	var found []string
	err := filepath.WalkDir("../internal", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(name) //nolint:gosec // a file of this repository
		for _, match := range declared.FindAllStringSubmatch(string(content), -1) {
			found = append(found, match[1])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 5 {
		t.Fatalf("only %d fuzz targets were found", len(found))
	}
	return found
}

// TestStoredQuantities checks the command of threat-model.md that finds costly quantities in what
// is stored: it finds those that take long to parse, and nothing that people write.
func TestStoredQuantities(t *testing.T) {
	page, err := os.ReadFile("threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`grep -E '([^']+)'`).FindStringSubmatch(string(page))
	if found == nil {
		t.Fatal("docs/threat-model.md has no such command")
	}
	costly := regexp.MustCompile(found[1])
	for text, want := range map[string]bool{
		"1e-999999999": true, "-1E+30000000": true, ".5e-1000": true, "1.e100": true, strings.Repeat("9", bounded.MaxQuantity+1): true,
		"500m": false, "64Mi": false, "1e3": false, "1E30": false, "12E": false, "-1.5e-30": false, strings.Repeat("9", 40): false,
	} {
		if isCostly := costly.MatchString(`{"limits":{"cpu":"` + text + `"}}`); isCostly != want {
			t.Errorf("%s is found: %t", text, isCostly)
		}
		if isRefused := bounded.QuantityProblem(text) != ""; isRefused != want {
			t.Errorf("%s is refused: %t", text, isRefused)
		}
	}
}

// versionRow is a line of the table of API versions.
var versionRow = regexp.MustCompile("(?m)^\\| ([A-Za-z]+ \\| `[a-z0-9./]+`) \\| [0-9.]+ \\| ([^|]+) \\|$")

// TestVersions checks that versioning.md says of each version of our definitions whether it is
// stored, deprecated, or served only where the webhook converts it.
func TestVersions(t *testing.T) {
	page, err := os.ReadFile("versioning.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, match := range versionRow.FindAllStringSubmatch(string(page), -1) {
		var state []string
		for part := range strings.SplitSeq(match[2], ", ") {
			word, _, _ := strings.Cut(part, " since ")
			state = append(state, word)
		}
		documented = append(documented, match[1]+": "+strings.Join(state, ", "))
	}
	missing, gone := compare(documented, definedVersions(t))
	for _, version := range missing {
		t.Errorf("docs/versioning.md does not say %s", version)
	}
	for _, version := range gone {
		t.Errorf("docs/versioning.md says %s, which the definitions do not", version)
	}
}

// definedVersions returns what versioning.md must say of each version of our definitions, except
// those of records, which are not a public API.
func definedVersions(t *testing.T) []string {
	t.Helper()
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, definition := range definitions {
		if definition.Spec.Group == recordsv1alpha1.GroupVersion.Group {
			continue
		}
		for _, version := range definition.Spec.Versions {
			state := "current"
			if version.Deprecated {
				state = "deprecated"
			}
			if version.Storage {
				state += ", stored"
			}
			if !version.Served {
				state += ", served with the webhook only"
			}
			found = append(found, definition.Spec.Names.Kind+" | `"+definition.Spec.Group+"/"+version.Name+"`: "+state)
		}
	}
	if len(found) < 5 {
		t.Fatalf("only %d versions were found", len(found))
	}
	return found
}
