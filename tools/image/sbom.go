package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes the components of Go binaries of one module, as CycloneDX: the product, its
// programs, and for each the linked modules, as recorded in the binary itself.
//
// Source: https://cyclonedx.org/specification/overview/, https://github.com/package-url/purl-spec
func writeSBOM(binaries []string, version string, to io.Writer) error {
	bom := cdx.NewBOM()
	product := cdx.Component{Type: cdx.ComponentTypeApplication, Version: version}
	parts, needs := map[string]cdx.Component{}, map[string][]string{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return fmt.Errorf("reading the modules of %s: %w", binary, err)
		}
		product.BOMRef, product.Name, product.PackageURL = info.Main.Path, info.Main.Path, packageURL(info.Main.Path, version)
		program := cdx.Component{
			Type: cdx.ComponentTypeApplication, BOMRef: info.Path + "@" + version, Name: info.Path, Version: version,
			// The package URL of a package has its path within the module.
			PackageURL: packageURL(info.Main.Path, version) + "#" + strings.TrimPrefix(strings.TrimPrefix(info.Path, info.Main.Path), "/"),
		}
		parts[program.BOMRef] = program
		needs[product.BOMRef] = append(needs[product.BOMRef], program.BOMRef)
		for _, library := range libraries(info) {
			parts[library.BOMRef] = library
			needs[program.BOMRef] = append(needs[program.BOMRef], library.BOMRef)
		}
	}
	bom.Metadata = &cdx.Metadata{Component: &product}
	components, dependencies := []cdx.Component{}, []cdx.Dependency{}
	for _, ref := range slices.Sorted(maps.Keys(parts)) {
		components = append(components, parts[ref])
	}
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		needed := slices.Sorted(slices.Values(needs[ref]))
		dependencies = append(dependencies, cdx.Dependency{Ref: ref, Dependencies: &needed})
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return cdx.NewBOMEncoder(to, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// libraries returns the modules in a binary, and Go's standard library.
func libraries(info *debug.BuildInfo) []cdx.Component {
	found := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, BOMRef: "std@" + info.GoVersion, Name: "std", Version: info.GoVersion, PackageURL: packageURL("std",
			info.GoVersion),
	}}
	for _, module := range info.Deps {
		found = append(found, component(module))
	}
	return found
}

// component returns the component of a module, or of its replacement.
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

// saveSBOM writes the SBOM to a file.
func saveSBOM(o options) error {
	file, err := os.Create(o.sbom)
	if err != nil {
		return err
	}
	var binaries []string
	for _, p := range o.programs() {
		binaries = append(binaries, p.binary)
	}
	if err := writeSBOM(binaries, o.version, file); err != nil {
		_ = file.Close() // the first error says more
		return err
	}
	return file.Close()
}
