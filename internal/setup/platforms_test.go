package setup

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/ecommerceplatform"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// underDefaultPolicy returns what the manager gives to kinds in a namespace of an environment with
// the policy that every installation starts with.
func underDefaultPolicy(t *testing.T, environment policy.Environment) registration.Input {
	t.Helper()
	made, err := newDefaultPolicy(nil)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{api.LabelEnvironment: string(environment)}
	rules := policy.Set{Policies: []mspolicyv1.PlatformPolicy{*made}}.Governing("web", labels)
	return registration.Input{
		Manager: someManager{scheme: scheme}, Kinds: kinds(), PostgreSQLImages: map[string]string{"17": "registry.example.com/postgresql:17.11"},
		Rules: func(context.Context, string) (policy.Rules, error) { return rules, nil },
	}
}

// TestPlatformsPassTheDefaultPolicy: what a platform is compiled into is admitted in a namespace of
// its environment, part by part; and the check would notice a part that is not.
func TestPlatformsPassTheDefaultPolicy(t *testing.T) {
	for _, environment := range []policy.Environment{policy.Development, policy.Staging, policy.Production} {
		in := underDefaultPolicy(t, environment)
		installation := ecommerceplatform.Installation{HasStacks: true, Databases: []string{"17"}}
		for _, c := range in.Components() {
			installation.Types = append(installation.Types, c.Type)
		}
		review := in.Review(schema.GroupKind{Group: "platform.mainstay.dev", Kind: "AppStack"})
		said := func(change func(*platformv1.EcommercePlatformSpec)) string {
			platform := &platformv1.EcommercePlatform{Spec: platformv1.EcommercePlatformSpec{Environment: string(environment),
				Frontend: platformv1.PlatformWeb{Image: "r.io/front:1"}, Backend: platformv1.PlatformWeb{Image: "r.io/back:1"},
				Cache:   platformv1.PlatformCache{Enabled: new(slices.Contains(installation.Types, "cache"))},
				Ingress: &platformv1.PlatformIngress{Host: "shop.example.com"},
			}}
			platform.Namespace, platform.Name = "web", "shop"
			change(&platform.Spec)
			ecommerceplatform.Default(platform)
			if problems := ecommerceplatform.Validate(platform, installation); len(problems) > 0 {
				t.Fatal(problems)
			}
			stack := ecommerceplatform.Compile(platform, nil, installation)
			found, err := review(t.Context(), stack, nil)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, problem := range found.Problems {
				texts = append(texts, ecommerceplatform.InPlatform(problem.Error(), stack))
			}
			for _, violation := range found.Violations {
				texts = append(texts, ecommerceplatform.InPlatform(violation.Field, stack)+" violates "+violation.Policy)
			}
			return strings.Join(texts, "; ")
		}
		if got := said(func(*platformv1.EcommercePlatformSpec) {}); got != "" {
			t.Errorf("%s: %s", environment, got)
		}
		if got := said(func(s *platformv1.EcommercePlatformSpec) { s.Backend.Replicas = ptr.To[int32](11) }); got != "spec.backend.replicas violates default" {
			t.Errorf("%s: of 11 replicas it says %q", environment, got)
		}
		if got := said(func(s *platformv1.EcommercePlatformSpec) { s.Frontend.Image = "A:b" }); !strings.HasPrefix(got, "spec.frontend.image: ") {
			t.Errorf("%s: of a bad image it says %q", environment, got)
		}
	}
}
