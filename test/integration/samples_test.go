package integration

import (
	"os"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/kinds/cache"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
)

// sampled is a kind with samples.
type sampled struct {
	resource  schema.GroupVersionResource
	isCluster bool
	// problems returns the errors of the manager's validation.
	problems func(accepted map[string]any) (field.ErrorList, error)
}

// problemsOf returns a function that reads a sample and validates it.
func problemsOf[T any](fill func(*T), validate func(*T) field.ErrorList) func(accepted map[string]any) (field.ErrorList, error) {
	return func(accepted map[string]any) (field.ErrorList, error) {
		var object T
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(accepted, &object); err != nil {
			return nil, err
		}
		fill(&object)
		return validate(&object), nil
	}
}

func allSampled() map[string]sampled {
	return map[string]sampled{
		"WebApp": {resource: webapps, problems: problemsOf(webapp.Default, webapp.Validate)},
		"PostgreSQL": {resource: databasev1.GroupVersion.WithResource("postgresqls"),
			problems: problemsOf(postgresql.Default, postgresql.Validate)},
		"Cache": {resource: databasev1.GroupVersion.WithResource("caches"), problems: problemsOf(cache.Default, cache.Validate)},
		"Instrumentation": {resource: instrv1.GroupVersion.WithResource("instrumentations"),
			problems: problemsOf(instrumentation.Default[*instrv1.Instrumentation], instrumentation.Validate)},
		"ClusterInstrumentation": {instrv1.GroupVersion.WithResource("clusterinstrumentations"), true,
			problemsOf(instrumentation.Default[*instrv1.ClusterInstrumentation], instrumentation.Validate)},
	}
}

// TestSamplesAreAccepted checks that the API server, under strict validation, and the manager
// accept all samples.
func TestSamplesAreAccepted(t *testing.T) {
	api, err := dynamic.NewForConfig(cluster.Config)
	if err != nil {
		t.Fatal(err)
	}
	space, tried := namespace(t), map[string]int{}
	dry := metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll}}
	for _, pattern := range []string{"*webapp*.yaml", "*instrumentation*.yaml", "database/postgresql*.yaml", "database/cache*.yaml"} {
		files, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				sample := readSample(t, file)
				kind := allSampled()[sample.GetKind()]
				tried[sample.GetKind()]++
				var in dynamic.ResourceInterface = api.Resource(kind.resource)
				if !kind.isCluster {
					in = api.Resource(kind.resource).Namespace(space)
				}
				accepted, err := in.Create(t.Context(), sample, dry)
				if err != nil {
					t.Fatal(err)
				}
				if problems, err := kind.problems(accepted.Object); err != nil || len(problems) > 0 {
					t.Error(problems, err)
				}
			})
		}
	}
	if tried["WebApp"] < 4 || tried["Instrumentation"] < 1 || tried["PostgreSQL"] < 2 || tried["Cache"] < 2 ||
		tried["ClusterInstrumentation"] < 1 {
		t.Errorf("only these samples were found: %v", tried)
	}
	if _, err := api.Resource(webapps).Namespace(space).Create(t.Context(), manifest(t, "shop", "port: 0"), dry); !apierrors.IsInvalid(err) {
		t.Errorf("an invalid sample is accepted: %v", err)
	}
}

func readSample(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sample := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &sample.Object); err != nil {
		t.Fatal(err)
	}
	return sample
}
