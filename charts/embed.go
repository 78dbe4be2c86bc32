// Package charts embeds the chart's definitions, so that the manager installs the same as the
// chart.
package charts

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed mainstay/crds/*.yaml
var crds embed.FS

const crdDirectory = "mainstay/crds"

// Definitions returns the CustomResourceDefinitions of all kinds. Each call parses them anew, which
// takes some 0.2 s: a manager does so once, and needs the 1.6 MB that they take for a moment only.
func Definitions() ([]apiextensionsv1.CustomResourceDefinition, error) {
	documents, err := CRDs()
	if err != nil {
		return nil, err
	}
	found := make([]apiextensionsv1.CustomResourceDefinition, len(documents))
	for i, document := range documents {
		if err := yaml.UnmarshalStrict(document, &found[i]); err != nil {
			return nil, fmt.Errorf("parsing an embedded definition: %w", err)
		}
	}
	return found, nil
}

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
