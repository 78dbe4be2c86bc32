package observe

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TestCountingAsksTheConfigMap: of two AppConfigs of one second, that one counts which the ConfigMap is controlled by.
func TestCountingAsksTheConfigMap(t *testing.T) {
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
