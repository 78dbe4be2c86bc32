package main

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

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

// TestMemoryLimit: the measured processes collect garbage as under the chart's limit.
func TestMemoryLimit(t *testing.T) {
	content, err := os.ReadFile("../../charts/mainstay/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Resources corev1.ResourceRequirements `json:"resources"`
		Apiserver struct {
			Resources corev1.ResourceRequirements `json:"resources"`
		} `json:"apiserver"`
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	wanted := fmt.Sprintf("%dMi", memoryLimit)
	for name, resources := range map[string]corev1.ResourceRequirements{"manager": values.Resources, "apiserver": values.Apiserver.Resources} {
		if got := resources.Limits.Memory().String(); got != wanted {
			t.Errorf("%s: the limit is %s, and not %s", name, got, wanted)
		}
	}
}
