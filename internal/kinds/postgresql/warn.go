package postgresql

import (
	"fmt"
	"slices"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// pastEnd are the versions that the PostgreSQL project no longer mends, and since when
// (https://www.postgresql.org/support/versioning/).
var pastEnd = map[string]string{"12": "2024-11-21", "13": "2025-11-13", "14": "2026-11-12"}

// Warn returns what is legal but unwise about a defaulted PostgreSQL.
func Warn(db *databasev1.PostgreSQL) []string {
	var warnings []string
	if since, ended := pastEnd[db.Spec.Version]; ended {
		warnings = append(warnings, fmt.Sprintf("spec.version: PostgreSQL %s has had no fixes since %s: use a later one, such as %q",
			db.Spec.Version, since, Versions[slices.Index(Versions, "17")]))
	}
	if db.Spec.Replicas == 2 && db.Spec.Durability == databasev1.DurabilityRequired {
		warnings = append(warnings, "spec.durability: with Required and 2 instances, no write is acknowledged while one of them is away: "+
			"use Preferred, or 3 instances")
	}
	if db.Spec.Replicas == 1 && db.Spec.SwitchoverAt != nil {
		warnings = append(warnings, "spec.switchoverAt: there is one instance, which can hand over to nobody")
	}
	if db.Spec.Replicas > 1 && db.Spec.Durability == databasev1.DurabilityAsynchronous {
		warnings = append(warnings, "spec.durability: with Asynchronous, a failover loses the writes that no replica has received yet, "+
			"although clients were told that they are committed")
	}
	if db.Spec.Backup.Enabled {
		warnings = append(warnings, "spec.backup: "+noBackups)
	}
	return warnings
}
