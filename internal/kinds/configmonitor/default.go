package configmonitor

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Default fills in omitted fields, and changes configmap to configMap unless both are set. It
// changes monitor in place, in memory only, and is idempotent.
func Default(monitor *configv1.ConfigMonitor) {
	spec := &monitor.Spec
	if spec.ConfigMap == "" {
		spec.ConfigMap, spec.LowerConfigMap = spec.LowerConfigMap, ""
	}
	spec.Strategy = cmp.Or(spec.Strategy, configv1.StrategyRollout)
	if spec.Cooldown == nil {
		spec.Cooldown = &metav1.Duration{Duration: workload.DefaultCooldown}
	}
	if spec.Debounce == nil {
		spec.Debounce = &metav1.Duration{}
	}
}
