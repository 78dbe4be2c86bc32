package hack

import (
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// TestPlatformSamples: each platform is valid where all kinds are on.
func TestPlatformSamples(t *testing.T) {
	installation := ecommerceplatform.Installation{HasStacks: true, Types: []string{"webApp", "postgresql", "cache"}, Databases: []string{"14", "17"}}
	files := map[string]string{"staging-platform.yaml": "staging", "platform/ecommerceplatform.yaml": "staging",
		"platform/production-store.yaml": "production"}
	for file, environment := range files {
		content, err := os.ReadFile("../config/samples/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var platform platformv1.EcommercePlatform
		if err := yaml.UnmarshalStrict(content, &platform); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		ecommerceplatform.Default(&platform)
		namespace := map[string]string{api.LabelEnvironment: environment}
		for _, found := range []field.ErrorList{ecommerceplatform.Validate(&platform, installation),
			ecommerceplatform.ValidateWithin(&platform, namespace, nil, installation)} {
			if err := found.ToAggregate(); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
		if parts := ecommerceplatform.Compile(&platform, nil, installation).Spec.Components; len(parts) != 4 {
			t.Errorf("%s has %d parts", file, len(parts))
		}
	}
}

// TestSmokeSamples: the objects of the smoke test are valid, and belong together.
func TestSmokeSamples(t *testing.T) {
	var app msappsv1.WebApp
	var config configv1.AppConfig
	var monitor configv1.ConfigMonitor
	for file, object := range map[string]any{"webapp": &app, "appconfig": &config, "configmonitor": &monitor} {
		content, err := os.ReadFile("../config/samples/staging-" + file + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(content, object); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	webapp.Default(&app)
	appconfig.Default(&config)
	configmonitor.Default(&monitor)
	for _, found := range []field.ErrorList{webapp.Validate(&app), appconfig.Validate(&config, policy.Environments{}),
		configmonitor.Validate(&monitor)} {
		if err := found.ToAggregate(); err != nil {
			t.Error(err)
		}
	}
	config.Namespace = "mainstay-smoke"
	if rendering := appconfig.RenderingIn(&config, policy.None, policy.Environments{}); rendering.Content["URL"] != "http://staging-smoke.mainstay-smoke.svc:80/" {
		t.Errorf("the configuration is %+v", rendering)
	}
	if used := app.Spec.EnvFrom; len(used) != 1 || used[0].ConfigMapRef.Name != config.Spec.Application+"-config" {
		t.Errorf("the WebApp uses %+v", used)
	}
	if selected := monitor.Spec.PodSelector; len(selected) != 1 || selected["app"] != app.Name {
		t.Errorf("the ConfigMonitor selects %+v", selected)
	}
}
