package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// listed returns the SBOM of some binaries.
func listed(t *testing.T, binaries ...string) cdx.BOM {
	t.Helper()
	var text bytes.Buffer
	if err := writeSBOM(binaries, "1.2.3", &text); err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&text, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	return bom
}

// TestSBOM reads the components of this test's own binary.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bom := listed(t, self)
	if got := bom.Metadata.Component.PackageURL; got != "pkg:golang/github.com/mainstay-platform/mainstay/tools/image@1.2.3" {
		t.Errorf("the product is %s", got)
	}
	named := func(name string) func(cdx.Component) bool {
		return func(c cdx.Component) bool { return c.Name == name && c.Version != "" && c.PackageURL != "" }
	}
	for _, name := range []string{"std", "github.com/google/go-containerregistry", "github.com/CycloneDX/cyclonedx-go"} {
		if !slices.ContainsFunc(*bom.Components, named(name)) {
			t.Errorf("%s is missing", name)
		}
	}
	if err := writeSBOM([]string{self, "sbom_test.go"}, "", &bytes.Buffer{}); err == nil {
		t.Error("a text is made of something")
	}
}

// TestSBOMOfPrograms: each program of a product is listed with what it needs itself, and what both
// need is there once.
func TestSBOMOfPrograms(t *testing.T) {
	folder := t.TempDir()
	const module = "example.com/product"
	for name, content := range map[string]string{
		"go.mod": "module " + module +
			"\n\ngo 1.26\n\nrequire example.com/library v1.0.0\n\nreplace example.com/library => ./library\n",
		"library/go.mod":     "module example.com/library\n\ngo 1.26\n",
		"library/library.go": "package library\n\nfunc Do() {}\n",
		"cmd/one/main.go":    "package main\n\nfunc main() {}\n",
		"cmd/two/main.go":    "package main\n\nimport \"example.com/library\"\n\nfunc main() { library.Do() }\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goBuild(t, folder, runtime.GOARCH, "-o", folder+"/", "./cmd/one", "./cmd/two")
	bom := listed(t, filepath.Join(folder, "one"), filepath.Join(folder, "two"))
	needs := map[string][]string{}
	for _, dependency := range *bom.Dependencies {
		needs[dependency.Ref] = *dependency.Dependencies
	}
	var refs []string
	for _, part := range *bom.Components {
		refs = append(refs, part.BOMRef)
		if want := "pkg:golang/" + module + "@1.2.3#cmd/one"; part.Name == module+"/cmd/one" && part.PackageURL != want {
			t.Errorf("the program is %s, want %s", part.PackageURL, want)
		}
	}
	one, two := module+"/cmd/one@1.2.3", module+"/cmd/two@1.2.3"
	if !slices.Equal(needs[module], []string{one, two}) || len(needs[one]) != 1 || len(needs[two]) != 2 || len(refs) != 4 {
		t.Errorf("there are %v, which need %v", refs, needs)
	}
	if !strings.HasPrefix(needs[one][0], "std@go") || !slices.Contains(needs[two], needs[one][0]) {
		t.Errorf("the programs need %v and %v", needs[one], needs[two])
	}
}
