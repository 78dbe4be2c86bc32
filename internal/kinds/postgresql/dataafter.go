package postgresql

import (
	"fmt"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
)

// DataAfter says where the data of a database are once it is deleted, by its spec.deletionPolicy.
// It returns "" for an object of another kind.
func DataAfter(object component.Object) string {
	stored, isDatabase := object.(*databasev1.PostgreSQL)
	if !isDatabase {
		return ""
	}
	db := stored.DeepCopy()
	Default(db)
	if db.Spec.DeletionPolicy == databasev1.DeletionDelete {
		return "its volumes and all data on them are deleted with it (spec.deletionPolicy is Delete)"
	}
	var volumes []string
	for ordinal := range int(min(db.Spec.Replicas, MaxReplicas)) {
		for _, kind := range storageKinds(db) {
			volumes = append(volumes, kind.claim(db.Name, ordinal))
		}
	}
	return fmt.Sprintf("its data stay on its volumes, the PersistentVolumeClaims %s: a new PostgreSQL named %s takes them up "+
		"(spec.deletionPolicy is Retain)", conditions.FirstFew(volumes, ", "), db.Name)
}
