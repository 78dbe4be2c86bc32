package workload

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// Counting are, of the AppConfigs of a namespace, those that count, by name: of several for one application the oldest. The age is
// known to the second. Of several of one age that one counts which controls the ConfigMap, for the other could not write
// it and would wait for ever; while none does, the first by name. controller is the UID of a ConfigMap's controller, empty if it has none.
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
	switch controller(ConfigMapName(a.Spec.Application)) {
	case a.UID:
		return true
	case b.UID:
		return false
	default:
		return a.Name < b.Name
	}
}
