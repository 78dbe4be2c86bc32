package appconfig

import (
	"cmp"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// defaultHistory is how many earlier contents are kept: the schema's default.
const defaultHistory = 10

// Default fills in what the user left out, in memory only. It is idempotent.
func Default(config *configv1.AppConfig) {
	spec := &config.Spec
	spec.Rollout.Mode = cmp.Or(spec.Rollout.Mode, configv1.RolloutAutomatic)
	spec.Rollout.OnFailure = cmp.Or(spec.Rollout.OnFailure, configv1.FailureStop)
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(defaultHistory))
	}
}
