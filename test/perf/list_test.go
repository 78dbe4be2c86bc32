package main

import (
	"testing"

	recordsv1alpha1 "github.com/mainstay-platform/mainstay/api/records/v1alpha1"
	"github.com/mainstay-platform/mainstay/charts"
)

// TestListedHasOurKinds: the floor lists the objects of each kind, as a manager does. A run would
// find that out after some minutes only.
func TestListedHasOurKinds(t *testing.T) {
	definitions, err := charts.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	for _, definition := range definitions {
		_, found := listed[definition.Spec.Names.Plural]
		if isRead := definition.Spec.Group != recordsv1alpha1.GroupVersion.Group; found != isRead {
			t.Errorf("%s: in `listed`: %t; read by a manager: %t", definition.Name, found, isRead)
		}
	}
}
