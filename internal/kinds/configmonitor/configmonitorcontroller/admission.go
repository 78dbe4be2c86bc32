package configmonitorcontroller

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/admission"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// admitted returns how ConfigMonitors are admitted.
func admitted(registration.Input) admission.Kind[*configv1.ConfigMonitor] {
	return admission.Kind[*configv1.ConfigMonitor]{
		Kind:       configv1.GroupVersion.WithKind(configmonitor.Kind),
		Resource:   "configmonitors",
		Scope:      admissionregistrationv1.NamespacedScope,
		New:        func() *configv1.ConfigMonitor { return &configv1.ConfigMonitor{} },
		Default:    configmonitor.Default,
		Validate:   configmonitor.Validate,
		Warn:       configmonitor.Warn,
		IsSameSpec: func(a, b *configv1.ConfigMonitor) bool { return equality.Semantic.DeepEqual(a.Spec, b.Spec) },
	}
}
