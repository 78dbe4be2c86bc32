package observe

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// optionsOf returns the options that the cache of sources is made with, by the type of object.
func optionsOf(t *testing.T, namespaces []string, access SecretAccess) (cache.Options, map[string]cache.ByObject) {
	t.Helper()
	var used cache.Options
	_, err := NewSources(t.Context(), namespaces, access, func(options cache.Options) (cache.Cache, error) {
		used = options
		return nil, errors.New("enough")
	})
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Fatalf("got %v", err)
	}
	byType := map[string]cache.ByObject{}
	for object, option := range used.ByObject {
		byType[typeOf(object)] = option
		if !option.Label.Matches(labels.Set{}) || option.Transform == nil {
			t.Errorf("%T: only some are cached, or as they are", object)
		}
	}
	return used, byType
}

func typeOf(object client.Object) string {
	if _, isSecret := object.(*corev1.Secret); isSecret {
		return "Secret"
	}
	return "ConfigMap"
}

// TestSourcesOptions: of ConfigMaps, all in the watched namespaces are cached; of Secrets, those of
// the granted namespaces only, and none without any.
func TestSourcesOptions(t *testing.T) {
	all, byType := optionsOf(t, []string{"shop", "web", "db"}, SecretAccess{Namespaces: []string{"shop", "web"}, Hasher: hasher})
	if diff := cmp.Diff(map[string]cache.Config{"shop": {}, "web": {}, "db": {}}, all.DefaultNamespaces); diff != "" {
		t.Error(diff)
	}
	if configMaps := byType["ConfigMap"]; configMaps.Namespaces != nil || configMaps.Field != nil {
		t.Error("only some ConfigMaps are cached")
	}
	if diff := cmp.Diff(map[string]cache.Config{"shop": {}, "web": {}}, byType["Secret"].Namespaces); diff != "" {
		t.Error(diff)
	}
	if got := byType["Secret"].Field.String(); got != "type!=helm.sh/release.v1" {
		t.Errorf("got the field selector %s", got)
	}
	if _, byType = optionsOf(t, nil, SecretAccess{}); len(byType) != 1 {
		t.Error("Secrets are cached although no namespace is opted in")
	}
}
