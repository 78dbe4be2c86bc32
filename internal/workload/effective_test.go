package workload

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// TestEffectiveAppConfigs: of several AppConfigs for one application one is in effect, whatever
// their order.
func TestEffectiveAppConfigs(t *testing.T) {
	config := func(name, application string, created int64) configv1.AppConfig {
		return configv1.AppConfig{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(time.Unix(created, 0))},
			Spec:       configv1.AppConfigSpec{Application: application},
		}
	}
	for name, test := range map[string]struct {
		configs    []configv1.AppConfig
		controller types.UID
		want       []string
	}{
		"none": {nil, "", nil},
		"each for its application": {[]configv1.AppConfig{config("web", "web", 2), config("shop", "shop", 1)}, "",
			[]string{"shop", "web"}},
		"the older":                          {[]configv1.AppConfig{config("a", "shop", 2), config("b", "shop", 1)}, "", []string{"b"}},
		"the older, given first":             {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 2)}, "", []string{"b"}},
		"of the same age, the first by name": {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 1)}, "", []string{"a"}},
		"the one that controls the ConfigMap": {[]configv1.AppConfig{config("c", "shop", 1), config("b", "shop", 1), config("a", "shop", 1)},
			"uid-b",
			[]string{"b"}},
		"the same, given first":                {[]configv1.AppConfig{config("a", "shop", 1), config("b", "shop", 1)}, "uid-b", []string{"b"}},
		"another controls it":                  {[]configv1.AppConfig{config("b", "shop", 1), config("a", "shop", 1)}, "uid-x", []string{"a"}},
		"the older, which does not control it": {[]configv1.AppConfig{config("b", "shop", 2), config("a", "shop", 1)}, "uid-b", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			controller := func(configMap string) types.UID {
				if configMap != "shop-config" {
					t.Errorf("asked for %s", configMap)
				}
				return test.controller
			}
			var got []string
			for _, one := range EffectiveAppConfigs(test.configs, controller) {
				got = append(got, one.Name)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
