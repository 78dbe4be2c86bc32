package observe

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TestEffectiveByController: of two AppConfigs created in the same second, the one that controls
// the ConfigMap is in effect.
func TestEffectiveByController(t *testing.T) {
	owned := configMap("shop-config", "hello")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "config.mainstay.dev/v1", Kind: "AppConfig", Name: "b", UID: "uid-of-b",
		Controller: new(true)}}
	configs := []configv1.AppConfig{*appConfig("a", "shop", at(1)), *appConfig("b", "shop", at(1)), *appConfig("c", "web", at(1)),
		*appConfig("d", "web", at(1))}
	counting, err := reader(t, owned).EffectiveAppConfigs(t.Context(), "shop", configs)
	if err != nil || len(counting) != 2 || counting[0].Name != "b" || counting[1].Name != "c" {
		t.Errorf("got %v, %v", counting, err)
	}
}
