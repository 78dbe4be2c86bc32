package webappcontroller

import (
	"context"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/policy"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// admitted returns how WebApps are admitted.
func admitted(in registration.Input) admission.Kind[*msappsv1.WebApp] {
	bindables := in.Bindables()
	return admission.Kind[*msappsv1.WebApp]{
		Kind:     msappsv1.GroupVersion.WithKind("WebApp"),
		Resource: resource,
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *msappsv1.WebApp { return &msappsv1.WebApp{} },
		Default:  webapp.Default,
		Validate: func(app *msappsv1.WebApp) field.ErrorList {
			return append(webapp.Validate(app), webapp.ValidateBindings(app, bindables)...)
		},
		Annotations: []string{api.AnnotationV1Spec},
		Warn:        webapp.Warn,
		IsSameSpec:  func(a, b *msappsv1.WebApp) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
		Govern:      govern,
		Subject:     func(app *msappsv1.WebApp) policy.Subject { return webapp.Wanted(app, webapp.Observed{}) },
		Rules:       in.Rules,
	}
}

// scaleHooks returns the webhook of the subresource scale.
func scaleHooks(in registration.Input) []admission.Hook {
	scale := admission.Scale{
		Kind:     "WebApp",
		Resource: schema.GroupResource{Group: msappsv1.GroupVersion.Group, Resource: resource},
		Versions: []string{msappsv1.GroupVersion.Version, msappsv1beta1.GroupVersion.Version},
		Field:    field.NewPath("spec", "replicas"),
		Refuse:   whyNotScaled(in.Manager.GetClient()),
		Rules:    in.Rules,
	}
	return []admission.Hook{scale.Hook(in.Manager.GetScheme())}
}

const resource = "webapps"

// whyNotScaled returns a function that says why an app can't be scaled: its replicas are the
// autoscaler's. The schema of v1 says so too, before any webhook is called; that of v1beta1 does
// not know autoscaling. What a stale cache misses, the reconciler refuses.
func whyNotScaled(cached client.Reader) func(context.Context, types.NamespacedName) (string, error) {
	return func(ctx context.Context, key types.NamespacedName) (string, error) {
		var app msappsv1.WebApp
		if err := cached.Get(ctx, key, &app); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("reading WebApp %s: %w", key, err)
		}
		if app.Spec.Autoscaling == nil {
			return "", nil
		}
		return "spec.autoscaling chooses the number of replicas: change spec.autoscaling.min and spec.autoscaling.max, or remove " +
			"spec.autoscaling first", nil
	}
}

// govern governs an app, and rewrites managed fields of an older version as if written through v1.
func govern(app, before *msappsv1.WebApp, rules policy.Rules) []string {
	webapp.OwnAsV1(app)
	given := app.DeepCopy()
	replaced := webapp.Govern(app, before, rules)
	return append(replaced, webapp.WarnOfImposed(given, app, rules)...)
}
