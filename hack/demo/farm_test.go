package main

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// TestLlamas: each sample is a Llama, with no field that there is not, and of some weight and height.
func TestLlamas(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", llamas, "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("only %d samples were found: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var llama farmv1alpha1.Llama
		if err := yaml.UnmarshalStrict(text, &llama); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if llama.APIVersion != farmv1alpha1.GroupVersion.String() || llama.Kind != "Llama" || llama.Name == "" || llama.Namespace != "" {
			t.Errorf("%s is a %s %s, %s/%s", file, llama.APIVersion, llama.Kind, llama.Namespace, llama.Name)
		}
		if llama.Spec.Weight <= 0 || llama.Spec.Height <= 0 {
			t.Errorf("%s weighs %g and is %g high", file, llama.Spec.Weight, llama.Spec.Height)
		}
	}
}
