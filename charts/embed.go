// Package charts embeds the chart's definitions, so that the manager installs the same as the
// chart.
package charts

import (
	"embed"
	"fmt"
	"path"
)

//go:embed mainstay/crds/*.yaml
var crds embed.FS

const crdDirectory = "mainstay/crds"

// CRDs returns the CustomResourceDefinitions of all kinds, one YAML document each.
func CRDs() ([][]byte, error) {
	entries, err := crds.ReadDir(crdDirectory)
	if err != nil {
		return nil, fmt.Errorf("listing the embedded definitions: %w", err)
	}
	var documents [][]byte
	for _, entry := range entries {
		document, err := crds.ReadFile(path.Join(crdDirectory, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("reading an embedded definition: %w", err)
		}
		documents = append(documents, document)
	}
	return documents, nil
}

// DefaultPolicy is the PlatformPolicy that every installation starts with, as YAML.
//
//go:embed mainstay/files/default-policy.yaml
var DefaultPolicy []byte
