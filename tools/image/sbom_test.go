package main

import (
	"bytes"
	"os"
	"slices"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// TestSBOM reads what this test's own binary is made of.
func TestSBOM(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := writeSBOM(self, "1.2.3", &text); err != nil {
		t.Fatal(err)
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(&text, cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
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
	if needs := *(*bom.Dependencies)[0].Dependencies; len(needs) != len(*bom.Components) {
		t.Errorf("%d of %d components are needed", len(needs), len(*bom.Components))
	}
	if err := writeSBOM("sbom_test.go", "", &text); err == nil {
		t.Error("a text is made of something")
	}
}
