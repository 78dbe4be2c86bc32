package main

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/charts"
)

// TestListedHasOurKinds: the floor lists the objects of each kind, as a manager does. A run would
// find that out after some minutes only.
func TestListedHasOurKinds(t *testing.T) {
	documents, err := charts.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, document := range documents {
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(document, &definition); err != nil {
			t.Fatal(err)
		}
		_, found := listed[definition.Spec.Names.Plural]
		if isRead := definition.Spec.Group != recordsv1alpha1.GroupVersion.Group; found != isRead {
			t.Errorf("%s: in `listed`: %t; read by a manager: %t", definition.Name, found, isRead)
		}
	}
}
