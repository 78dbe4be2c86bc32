package postgresql

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
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
	volumes := "the PersistentVolumeClaims with the labels " +
		metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: part(db).Selector()})
	if !isCarriedOut(db) {
		return fmt.Sprintf("its data stay only if its own spec.deletionPolicy is Retain, and Mainstay has carried that out, before it is deleted: "+
			"then they are on %s, and a new PostgreSQL named %s takes them up", volumes, db.Name)
	}
	return fmt.Sprintf("its data stay on its volumes, %s: a new PostgreSQL named %s takes them up (spec.deletionPolicy is Retain)",
		volumes, db.Name)
}

// isCarriedOut reports whether it is certain that the volumes are as the spec says: those of an
// object that exists, is not paused, and is Ready for its present generation. One that is not Ready
// may have been refused something. Nothing of one that is being deleted is changed, so its spec may
// be newer than what was done.
func isCarriedOut(db *databasev1.PostgreSQL) bool {
	if db.UID == "" || db.DeletionTimestamp != nil || db.Spec.Paused || db.Status.ObservedGeneration != db.Generation {
		return false
	}
	ready := meta.FindStatusCondition(db.Status.Conditions, conditions.Ready)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == db.Generation
}
