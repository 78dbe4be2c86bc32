package appconfigcontroller

import (
	"context"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/render"
)

// admitted returns how AppConfigs are admitted.
func admitted(in registration.Input) admission.Kind[*configv1.AppConfig] {
	within := namespacesOf(in, in.Reviewing)
	return admission.Kind[*configv1.AppConfig]{
		Kind:     configv1.GroupVersion.WithKind(appconfig.Kind),
		Resource: "appconfigs",
		Scope:    admissionregistrationv1.NamespacedScope,
		New:      func() *configv1.AppConfig { return &configv1.AppConfig{} },
		Default:  appconfig.Default,
		Validate: func(config *configv1.AppConfig) field.ErrorList { return appconfig.Validate(config, in.Environments) },
		Warn:     appconfig.Warn,
		ValidateWithin: func(ctx context.Context, config *configv1.AppConfig) (field.ErrorList, error) {
			labels, err := within.labels(ctx, config.Namespace)
			if err != nil {
				return nil, err
			}
			return appconfig.ValidateIn(config, appconfig.Place{Labels: labels, Environments: in.Environments}, render.BudgetOf(ctx)), nil
		},
		IsSameSpec: func(a, b *configv1.AppConfig) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}
