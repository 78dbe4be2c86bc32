package main

import (
	"cmp"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes what a Go binary is made of, as CycloneDX: the modules that the linker took in, as the binary
// itself tells them.
//
// Source: https://cyclonedx.org/specification/overview/, https://github.com/package-url/purl-spec
func writeSBOM(binary, version string, to io.Writer) error {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return fmt.Errorf("reading what %s is made of: %w", binary, err)
	}
	bom := cdx.NewBOM()
	product := cdx.Component{
		Type: cdx.ComponentTypeApplication, BOMRef: info.Main.Path, Name: info.Main.Path, Version: version,
		PackageURL: packageURL(info.Main.Path, version),
	}
	bom.Metadata = &cdx.Metadata{Component: &product}
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, BOMRef: "std", Name: "std", Version: info.GoVersion, PackageURL: packageURL("std", info.GoVersion),
	}}
	for _, module := range info.Deps {
		components = append(components, component(module))
	}
	slices.SortFunc(components, func(a, b cdx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom.Components = &components
	needs := make([]string, 0, len(components))
	for _, needed := range components {
		needs = append(needs, needed.BOMRef)
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &needs}}
	return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component is a module, or what replaces it.
func component(module *debug.Module) cdx.Component {
	if module.Replace != nil {
		module = module.Replace
	}
	return cdx.Component{
		Type: cdx.ComponentTypeLibrary, BOMRef: module.Path + "@" + module.Version, Name: module.Path, Version: module.Version,
		PackageURL: packageURL(module.Path, module.Version),
	}
}

func packageURL(path, version string) string { return "pkg:golang/" + path + "@" + version }

// saveSBOM writes it to a file.
func saveSBOM(o options) error {
	file, err := os.Create(o.sbom)
	if err != nil {
		return err
	}
	if err := writeSBOM(o.binary, o.version, file); err != nil {
		_ = file.Close() // the first error tells more
		return err
	}
	return file.Close()
}
