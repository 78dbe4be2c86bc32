package ecommerceplatform

import (
	"cmp"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/policy"
)

const defaultPort = 8080

// Default fills in what does not follow from the environment. It changes platform in place, in
// memory only, and is idempotent.
func Default(platform *platformv1.EcommercePlatform) {
	spec := &platform.Spec
	spec.Environment = cmp.Or(spec.Environment, string(policy.Development))
	spec.Frontend.Port = cmp.Or(spec.Frontend.Port, defaultPort)
	spec.Backend.Port = cmp.Or(spec.Backend.Port, defaultPort)
	spec.Database.Type = cmp.Or(spec.Database.Type, platformv1.DatabasePostgreSQL)
	if spec.Cache.Enabled == nil {
		spec.Cache.Enabled = new(true)
	}
	if spec.Monitoring.Enabled == nil {
		spec.Monitoring.Enabled = new(true)
	}
}
