package workload

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// EffectiveAppConfigs returns the AppConfigs of a namespace that are in effect, sorted by name. If
// several are for one application, the oldest is. Creation times have a precision of one second;
// among AppConfigs of the same age, the one that controls the ConfigMap is in effect, because no
// other could write it. If none controls it, the first by name is. controller returns the UID of a
// ConfigMap's controller, or "" if it has none.
func EffectiveAppConfigs(configs []configv1.AppConfig, controller func(configMap string) types.UID) []*configv1.AppConfig {
	oldest := map[string]*configv1.AppConfig{}
	for i := range configs {
		config := &configs[i]
		if known, taken := oldest[config.Spec.Application]; !taken || precedes(config, known, controller) {
			oldest[config.Spec.Application] = config
		}
	}
	var counting []*configv1.AppConfig
	for _, config := range oldest {
		counting = append(counting, config)
	}
	slices.SortFunc(counting, func(a, b *configv1.AppConfig) int { return cmp.Compare(a.Name, b.Name) })
	return counting
}

func precedes(a, b *configv1.AppConfig, controller func(configMap string) types.UID) bool {
	if age := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); age != 0 {
		return age < 0
	}
	switch controller(a.ConfigMapName()) {
	case a.UID:
		return true
	case b.UID:
		return false
	default:
		return a.Name < b.Name
	}
}
