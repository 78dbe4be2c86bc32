package integration

import (
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
)

// TestSamplesAreAccepted: by the API server, as strictly as kubectl asks, and by the manager.
func TestSamplesAreAccepted(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*webapp*.yaml"))
	if err != nil || len(files) < 4 {
		t.Fatalf("only %d samples were found, %v", len(files), err)
	}
	api, err := dynamic.NewForConfig(cluster.config)
	if err != nil {
		t.Fatal(err)
	}
	in := api.Resource(webapps).Namespace(namespace(t))
	dry := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			sample := &unstructured.Unstructured{}
			if err := yaml.UnmarshalStrict(text, &sample.Object); err != nil {
				t.Fatal(err)
			}
			accepted, err := in.Create(t.Context(), sample, dry)
			if err != nil {
				t.Fatal(err)
			}
			var app appsv1.WebApp
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(accepted.Object, &app); err != nil {
				t.Fatal(err)
			}
			webapp.Default(&app)
			if problems := webapp.Validate(&app); len(problems) > 0 {
				t.Error(problems)
			}
		})
	}
	if _, err := in.Create(t.Context(), manifest(t, "shop", "port: 0"), dry); !apierrors.IsInvalid(err) {
		t.Errorf("what is no sample is accepted: %v", err)
	}
}
