package workload

import (
	"cmp"
	"slices"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// Counting are, of the AppConfigs of a namespace, those that count, by name: of several for one application the oldest, and of several of
// one age the first by name.
func Counting(configs []configv1.AppConfig) []*configv1.AppConfig {
	oldest := map[string]*configv1.AppConfig{}
	for i := range configs {
		config := &configs[i]
		if known, taken := oldest[config.Spec.Application]; !taken || isOlder(config, known) {
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

func isOlder(a, b *configv1.AppConfig) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}
