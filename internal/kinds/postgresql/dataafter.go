package postgresql

import (
	"fmt"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// DataAfter says where the data of a database are once it is deleted, by its spec.deletionPolicy.
// It returns "" for an object of another kind. It names volumes by their labels: there may be some
// of an earlier spec.replicas, which stay too.
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
	volumes := "the PersistentVolumeClaims with the labels " + Common(db, Observed{}).Selector()
	if !database.IsCarriedOut(db, db.Spec.Paused, db.Status.ObservedGeneration, db.Status.Conditions) {
		return fmt.Sprintf("its data are kept only if, before it is deleted, its own spec.deletionPolicy is Retain and Mainstay has applied that: "+
			"then they are on %s, and a new PostgreSQL named %s uses them again", volumes, db.Name)
	}
	return fmt.Sprintf("its data stay on its volumes, %s: a new PostgreSQL named %s uses them again (spec.deletionPolicy is Retain)",
		volumes, db.Name)
}
