package cache

import (
	"cmp"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// Defaults that the CRD's schema has too, for objects that were stored before it had them.
const (
	defaultReplicas         = 1
	defaultMaxMemoryPercent = 75
	defaultRunAsUser        = 1000
	defaultAfter            = "11s"
)

// Default fills in omitted fields. It changes c in place, in memory only, and is idempotent.
func Default(c *databasev1.Cache) {
	spec := &c.Spec
	spec.Replicas = cmp.Or(spec.Replicas, defaultReplicas)
	spec.MaxMemoryPercent = cmp.Or(spec.MaxMemoryPercent, defaultMaxMemoryPercent)
	spec.EvictionPolicy = cmp.Or(spec.EvictionPolicy, databasev1.EvictAllKeysLRU)
	spec.RunAsUser = cmp.Or(spec.RunAsUser, defaultRunAsUser)
	spec.Failover.After = cmp.Or(spec.Failover.After, defaultAfter)
	spec.TopologySpread = cmp.Or(spec.TopologySpread, databasev1.SpreadPreferred)
	spec.DeletionPolicy = cmp.Or(spec.DeletionPolicy, databasev1.DeletionRetain)
	spec.Reclaim = cmp.Or(spec.Reclaim, databasev1.DeletionRetain)
	if spec.TLS == nil {
		spec.TLS = new(true)
	}
}
