package webappcontroller

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

// Hooks are the webhooks of WebApps and of their subresource scale. That an app with an autoscaler
// is not scaled by hand, the schema says: it is checked before webhooks are asked.
func Hooks(scheme *runtime.Scheme, rules admission.Governed) []admission.Hook {
	hooks := admission.Kind[*appsv1.WebApp]{
		Kind:       appsv1.GroupVersion.WithKind("WebApp"),
		Resource:   resource,
		Scope:      admissionregistrationv1.NamespacedScope,
		New:        func() *appsv1.WebApp { return &appsv1.WebApp{} },
		Default:    webapp.Default,
		Validate:   webapp.Validate,
		Warn:       webapp.Warn,
		IsSameSpec: func(a, b *appsv1.WebApp) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern:     govern,
		Subject:    func(app *appsv1.WebApp) policy.Subject { return webapp.Wanted(app, webapp.Observed{}) },
		Rules:      rules,
	}.Hooks(scheme)
	scale := admission.Scale{
		Resource: schema.GroupResource{Group: appsv1.GroupVersion.Group, Resource: resource},
		Versions: []string{appsv1.GroupVersion.Version, "v1beta1"},
		Field:    field.NewPath("spec", "replicas"),
		Rules:    rules,
	}
	return append(hooks, scale.Hook(scheme))
}

const resource = "webapps"

// govern also has what was written through an older version owned as if through v1.
func govern(app, before *appsv1.WebApp, rules policy.Rules) []string {
	webapp.OwnAsV1(app)
	return webapp.Govern(app, before, rules)
}

// Objects are all WebApps in the cache, as policy looks at them.
func Objects(ctx context.Context, cached client.Reader) ([]policy.Object, error) {
	var apps appsv1.WebAppList
	if err := cached.List(ctx, &apps); err != nil {
		return nil, fmt.Errorf("listing WebApps: %w", err)
	}
	objects := make([]policy.Object, 0, len(apps.Items))
	for i := range apps.Items {
		app := &apps.Items[i]
		webapp.Default(app)
		objects = append(objects, policy.Object{Kind: "WebApp", Namespace: app.Namespace, Name: app.Name, Subject: webapp.Wanted(app, webapp.Observed{})})
	}
	return objects, nil
}
