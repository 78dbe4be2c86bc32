package appconfigcontroller

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// cacheOf is a cache that reads from a client.
type cacheOf struct {
	cache.Cache
	client client.Client
}

func (c cacheOf) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	return c.client.Get(ctx, key, into, options...)
}

func (cacheOf) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return nil
}

// reading returns a reader whose caches have some objects.
func reading(t *testing.T, objects ...client.Object) observe.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, configv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	cached := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	sources, err := observe.NewSources(t.Context(), nil, observe.SecretAccess{}, func(cache.Options) (cache.Cache, error) {
		return cacheOf{client: cached}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return observe.Reader{Cached: cached, Sources: sources}
}

// TestDemands: the AppConfigs that are in effect demand restarts, sorted by name. Of two of one
// age, the one that controls the ConfigMap is in effect. One that is being deleted demands until it
// is gone, or another one with the same content would restart the workloads.
func TestDemands(t *testing.T) {
	config := func(name, application string, created int64) *configv1.AppConfig {
		return &configv1.AppConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-of-" + name),
				CreationTimestamp: metav1.Unix(created, 0)},
			Spec: configv1.AppConfigSpec{Application: application},
		}
	}
	elsewhere, leaving := config("elsewhere", "blog", 1), config("leaving", "left", 1)
	elsewhere.Namespace = "other"
	leaving.Finalizers, leaving.DeletionTimestamp = []string{"example.com/a"}, new(metav1.Unix(2, 0))
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-config", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "config.mainstay.dev/v1", Kind: "AppConfig", Name: "d", UID: "uid-of-d", Controller: new(true)},
	}}}
	reader := demands()
	demands, err := reader.List(t.Context(), reading(t, owned, elsewhere, leaving, config("younger", "shop", 2), config("older", "shop", 1),
		config("c", "web", 3), config("d", "web", 3), config("b", "api", 4), config("a", "api", 4)), "shop")
	if err != nil {
		t.Fatal(err)
	}
	var origins []string
	for _, demand := range demands {
		origins = append(origins, demand.Origin)
	}
	if diff := cmp.Diff([]string{"AppConfig/a", "AppConfig/d", "AppConfig/leaving", "AppConfig/older"}, origins); diff != "" {
		t.Error(diff)
	}
	if declared := reader.Declaration(owned); declared.Owner != "AppConfig" {
		t.Errorf("about its ConfigMap it declares %+v", declared)
	}
}

// TestDemandsOfARevision: spec.revision lifts the policy only once the ConfigMap has that revision.
// Until then workloads are compared with a content that the user is taking back.
func TestDemandsOfARevision(t *testing.T) {
	for name, test := range map[string]struct {
		// has is the revision in the ConfigMap; empty if there is none.
		has     string
		chosen  *int64
		isGated bool
	}{
		"no revision is chosen":               {"5", nil, true},
		"the ConfigMap has it":                {"4", new(int64(4)), false},
		"the ConfigMap has another one still": {"5", new(int64(4)), true},
		"it is not kept":                      {"5", new(int64(99)), true},
		"there is no ConfigMap":               {"", new(int64(4)), true},
	} {
		t.Run(name, func(t *testing.T) {
			config := &configv1.AppConfig{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
				Spec:       configv1.AppConfigSpec{Application: "web", Revision: test.chosen},
			}
			config.Spec.Rollout.MaxParallel = new(int32(1))
			objects := []client.Object{config}
			if test.has != "" {
				objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-config",
					Annotations: map[string]string{configv1.AnnotationRevision: test.has}}})
			}
			demands, err := demands().List(t.Context(), reading(t, objects...), "shop")
			if err != nil || len(demands) != 1 {
				t.Fatalf("got %v, %v", demands, err)
			}
			if isGated := demands[0].Rollout.MaxParallel != nil; isGated != test.isGated {
				t.Errorf("it has a policy: %t", isGated)
			}
		})
	}
}
