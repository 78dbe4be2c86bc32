package appconfig

import (
	"cmp"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
)

// defaultHistory is the default number of earlier contents to keep; the schema has the same.
const defaultHistory = 10

// Default fills in omitted fields, in memory only. It is idempotent.
func Default(config *configv1.AppConfig) {
	spec := &config.Spec
	spec.Rollout.Mode = cmp.Or(spec.Rollout.Mode, configv1.RolloutAutomatic)
	spec.Rollout.OnFailure = cmp.Or(spec.Rollout.OnFailure, configv1.FailureStop)
	if spec.RevisionHistoryLimit == nil {
		spec.RevisionHistoryLimit = new(int32(defaultHistory))
	}
}
