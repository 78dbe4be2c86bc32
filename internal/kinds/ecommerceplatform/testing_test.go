package ecommerceplatform

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// installation is one with all kinds.
var installation = Installation{
	HasStacks: true, Types: []string{"webApp", "postgresql", "cache", "appConfig"}, Databases: []string{"9", "17", "16", "next"},
}

// newPlatform returns the smallest platform, as a user writes it, with changes.
func newPlatform(changes ...change) *platformv1.EcommercePlatform {
	platform := &platformv1.EcommercePlatform{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop", UID: "uid-1", Generation: 3},
		Spec: platformv1.EcommercePlatformSpec{
			Frontend: platformv1.PlatformWeb{Image: "r.io/front:1"}, Backend: platformv1.PlatformWeb{Image: "r.io/back:1"},
		},
	}
	for _, change := range changes {
		change(&platform.Spec)
	}
	return platform
}

// admitted returns newPlatform after admission.
func admitted(changes ...change) *platformv1.EcommercePlatform {
	platform := newPlatform(changes...)
	Default(platform)
	return platform
}

type change = func(*platformv1.EcommercePlatformSpec)

// withFields returns a change of the spec to fields as users write them, in YAML.
func withFields(fields string) change {
	return func(spec *platformv1.EcommercePlatformSpec) {
		if err := yaml.UnmarshalStrict([]byte(fields), spec); err != nil {
			panic(fields + ": " + err.Error())
		}
	}
}

// in returns a change of the environment.
func in(environment string) change { return withFields("environment: " + environment) }

// withoutCache and withoutMonitoring are changes.
var withoutCache, withoutMonitoring = withFields(`cache: {enabled: false}`), withFields(`monitoring: {enabled: false}`)

// made returns the AppStack of a platform as it exists after it was applied.
func made(platform *platformv1.EcommercePlatform, existing *platformv1.AppStack) *platformv1.AppStack {
	stack := Compile(platform, existing, installation)
	stack.UID, stack.Generation = "uid-2", 1
	return stack
}

// with returns what is observed of an AppStack.
func with(platform *platformv1.EcommercePlatform, stack *platformv1.AppStack, ownership plan.Ownership) Observed {
	return Observed{Installation: installation, Children: plan.Children{Ref(platform): {Object: stack, Ownership: ownership}}}
}
