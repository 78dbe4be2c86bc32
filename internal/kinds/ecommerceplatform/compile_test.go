package ecommerceplatform

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/test/golden"
)

type change = func(*platformv1.EcommercePlatformSpec)

// situations returns all cases that testdata has a file for, by the file's name: each environment,
// and each override.
func situations() map[string]change {
	return map[string]change{
		"development": in("dev"), "staging": in("staging"), "production": in("prod"),
		"defaults": func(*platformv1.EcommercePlatformSpec) {},
		"replicas": func(s *platformv1.EcommercePlatformSpec) {
			s.Environment, s.Frontend.Replicas, s.Backend.Replicas = "production", ptr.To[int32](5), ptr.To[int32](2)
		},
		"autoscaling": func(s *platformv1.EcommercePlatformSpec) {
			s.Frontend.Autoscaling = &msappsv1.Autoscaling{Min: 2, Max: 8, CPU: ptr.To[int32](70)}
		},
		"ports-and-variables": func(s *platformv1.EcommercePlatformSpec) {
			s.Frontend.Port, s.Backend.Port = 3000, 9000
			s.Frontend.Env = []corev1.EnvVar{{Name: "THEME", Value: "dark"}, {Name: "BACKEND_URL", Value: "http://proxy"}}
			s.Backend.Env = []corev1.EnvVar{{Name: "LOG_LEVEL", Value: "info"}}
		},
		"resources": func(s *platformv1.EcommercePlatformSpec) {
			s.Backend.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("4")}}
		},
		"database": func(s *platformv1.EcommercePlatformSpec) {
			s.Database = platformv1.PlatformDatabase{
				Version: "14", Storage: new(resource.MustParse("500Gi")), StorageClassName: new("fast"),
				Resources: &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("16Gi")}},
			}
		},
		"mysql": func(s *platformv1.EcommercePlatformSpec) {
			s.Environment, s.Database = "production", platformv1.PlatformDatabase{Type: "mysql", Version: "8.4"}
		},
		"cache": func(s *platformv1.EcommercePlatformSpec) {
			s.Cache = platformv1.PlatformCache{
				Memory: new(resource.MustParse("2Gi")), Version: "8",
				Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
			}
		},
		"without-cache":      func(s *platformv1.EcommercePlatformSpec) { s.Cache.Enabled = new(false) },
		"without-monitoring": func(s *platformv1.EcommercePlatformSpec) { s.Monitoring.Enabled = new(false) },
		"ingress": func(s *platformv1.EcommercePlatformSpec) {
			s.Ingress = &platformv1.PlatformIngress{Host: "shop.example.com", ClassName: new("nginx"), TLSSecretName: "shop-tls"}
		},
		"route": func(s *platformv1.EcommercePlatformSpec) {
			s.Ingress = &platformv1.PlatformIngress{Host: "shop.example.com", Route: &platformv1.PlatformRoute{
				ParentRefs: []msappsv1.ParentReference{{Name: "public", Namespace: "gateways"}}}}
		},
		"labels": func(s *platformv1.EcommercePlatformSpec) { s.Labels = msappsv1.Labels{"team": "commerce"} },
	}
}

// TestCompile pins what a platform is made of: a change of a component replaces the pods of all
// platforms at the next upgrade of Mainstay.
func TestCompile(t *testing.T) {
	files := []string{"rule.yaml", "dashboard.yaml"} // of TestMonitoring
	withMySQL := installation
	withMySQL.Types, withMySQL.Databases = append(slices.Clone(installation.Types), "mysql"), append(slices.Clone(installation.Databases), "14")
	for name, change := range situations() {
		t.Run(name, func(t *testing.T) {
			platform := admitted(change)
			if problems := append(Validate(platform, withMySQL), ValidateWithin(platform, nil, nil, withMySQL)...); len(problems) > 0 {
				t.Fatal(problems)
			}
			content, err := yaml.Marshal(Compile(platform, nil, installation))
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name+".yaml", content)
		})
		files = append(files, name+".yaml")
	}
	golden.CheckUnused(t, files)
}

// specOf returns the spec of a component as text.
func specOf(stack *platformv1.AppStack, name string) string {
	if c := componentOf(stack, name); c != nil {
		return string(c.Spec.Raw)
	}
	return ""
}

// TestCompileKeeps: what can't be taken back stays as it was made.
func TestCompileKeeps(t *testing.T) {
	first := made(admitted(in("staging")), nil)
	newer := installation
	newer.Databases, newer.Caches = []string{"17", "18"}, []string{"10", "9"}
	for want, stack := range map[string]*platformv1.AppStack{
		`"storage":"50Gi"`:  Compile(admitted(in("development")), first, newer),
		`"version":"17"`:    Compile(admitted(in("staging")), first, newer),
		`"version":"18"`:    Compile(admitted(in("staging")), nil, newer),
		`"storage":"100Gi"`: Compile(admitted(in("production")), first, newer),
		`"storage":"60Gi"`: Compile(admitted(in("staging"), func(s *platformv1.EcommercePlatformSpec) {
			s.Database.Storage = new(resource.MustParse("60Gi"))
		}), first, newer),
	} {
		if got := specOf(stack, "db"); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	kept, chosen := specOf(Compile(admitted(), first, newer), "cache"), specOf(Compile(admitted(), nil, newer), "cache")
	if !strings.Contains(kept, `"version":"9"`) || !strings.Contains(chosen, `"version":"10"`) {
		t.Errorf("the cache is %s, of a new platform %s", kept, chosen)
	}
	if again := Compile(admitted(in("staging")), first, installation); again.Spec.Components[0].Spec.Raw == nil ||
		specOf(again, "db") != specOf(first, "db") {
		t.Errorf("the second time it is %s, was %s", specOf(again, "db"), specOf(first, "db"))
	}
	foreign := made(admitted(), nil)
	foreign.Spec.Components[0].Spec.Raw = []byte(`{"storage":"x","version":1}`)
	if got := specOf(Compile(admitted(), foreign, installation), "db"); !strings.Contains(got, `"storage":"10Gi"`) {
		t.Errorf("a spec that can't be read is kept: %s", got)
	}
}

// TestCacheGoesLast: a cache that is disabled stays until the backend runs without it.
func TestCacheGoesLast(t *testing.T) {
	disabled := admitted(func(s *platformv1.EcommercePlatformSpec) { s.Cache.Enabled = new(false) })
	has := func(stack *platformv1.AppStack) string {
		text := ""
		if componentOf(stack, "cache") != nil {
			text = "cache"
		}
		if strings.Contains(specOf(stack, "backend"), "shop-cache") {
			text += " bound"
		}
		return text
	}
	ready := func(stack *platformv1.AppStack, phase platformv1.ComponentPhase) *platformv1.AppStack {
		stack.Status = platformv1.AppStackStatus{ObservedGeneration: stack.Generation,
			Components: []platformv1.ComponentStatus{{Name: "backend", Phase: phase}}}
		return stack
	}
	first := ready(made(admitted(), nil), platformv1.ComponentReady)
	if got := has(first); got != "cache bound" {
		t.Fatalf("at first there is %q", got)
	}
	second := made(disabled, first)
	second.Generation = 2
	second.Status = first.Status
	if got := has(second); got != "cache" {
		t.Errorf("with the backend that uses it there is %q", got)
	}
	if got := has(Compile(disabled, second, installation)); got != "cache" {
		t.Errorf("before the stack has reported there is %q", got)
	}
	if got := has(Compile(disabled, ready(second, platformv1.ComponentProgressing), installation)); got != "cache" {
		t.Errorf("while the backend is rolled out there is %q", got)
	}
	if got := has(Compile(disabled, ready(second, platformv1.ComponentReady), installation)); got != "" {
		t.Errorf("once it runs without it there is %q", got)
	}
	if got := has(Compile(disabled, nil, installation)); got != "" {
		t.Errorf("of a new platform there is %q", got)
	}
}

// TestEndpoints: the most public address of the frontend, and that of the backend.
func TestEndpoints(t *testing.T) {
	for want, change := range map[string]change{
		"http://shop-frontend.web.svc:8080 http://shop-backend.web.svc:8080": func(*platformv1.EcommercePlatformSpec) {},
		"https://a.example.com/ http://shop-backend.web.svc:8080":            situationHost("a.example.com", "tls"),
		"http://a.example.com/ http://shop-backend.web.svc:8080":             situationHost("a.example.com", ""),
		"http://shop-frontend.web.svc:8080 http://shop-backend.web.svc:9000": func(s *platformv1.EcommercePlatformSpec) {
			situationHost("*.example.com", "tls")(s)
			s.Backend.Port = 9000
		},
	} {
		all := endpoints(admitted(change))
		if got := all[0].URL + " " + all[1].URL; got != want || all[0].Name != "frontend" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func situationHost(host, secret string) change {
	return func(s *platformv1.EcommercePlatformSpec) {
		s.Ingress = &platformv1.PlatformIngress{Host: host, TLSSecretName: secret}
	}
}

// TestSpecsAreObjects: what is compiled is JSON that an AppStack takes.
func TestSpecsAreObjects(t *testing.T) {
	for _, c := range Compile(admitted(), nil, installation).Spec.Components {
		var spec map[string]any
		if err := json.Unmarshal(c.Spec.Raw, &spec); err != nil || len(spec) == 0 {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
