package postgresql

import (
	"cmp"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// Defaults that the CRD's schema has too, for objects that were stored before it had them, or that
// depend on other fields.
const (
	defaultReplicas  = 1
	defaultRunAsUser = 1000
	defaultAfter     = "11s"
	// defaultFrom and defaultBy are those of spec.autoGrow, in percent.
	defaultFrom, defaultBy = 80, 25
	// safely is from how many instances on one of them may fail without a loss or a wait.
	safely = 3
)

// Default fills in omitted fields. It changes db in place, in memory only, and is idempotent.
func Default(db *databasev1.PostgreSQL) {
	spec := &db.Spec
	spec.Replicas = cmp.Or(spec.Replicas, defaultReplicas)
	spec.RunAsUser = cmp.Or(spec.RunAsUser, defaultRunAsUser)
	spec.Failover.After = cmp.Or(spec.Failover.After, defaultAfter)
	spec.TopologySpread = cmp.Or(spec.TopologySpread, databasev1.SpreadPreferred)
	spec.DeletionPolicy = cmp.Or(spec.DeletionPolicy, databasev1.DeletionRetain)
	spec.Reclaim = cmp.Or(spec.Reclaim, databasev1.DeletionRetain)
	defaultBackup(&spec.Backup)
	defaultPooler(db)
	if grow := spec.AutoGrow; grow != nil {
		grow.From, grow.By = cmp.Or(grow.From, defaultFrom), cmp.Or(grow.By, defaultBy)
	}
	if spec.Durability == "" {
		spec.Durability = databasev1.DurabilityPreferred
		if spec.Replicas >= safely {
			spec.Durability = databasev1.DurabilityRequired
		}
	}
}
