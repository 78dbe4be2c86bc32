package cache

import (
	"fmt"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// DataAfter says where the data of a cache are once it is deleted, by its spec.persistence and its
// spec.deletionPolicy. It returns "" for an object of another kind.
func DataAfter(object component.Object) string {
	stored, isCache := object.(*databasev1.Cache)
	if !isCache {
		return ""
	}
	c := stored.DeepCopy()
	Default(c)
	switch {
	case c.Spec.Persistence == nil:
		return "what it has in memory is lost (it has no spec.persistence)"
	case c.Spec.DeletionPolicy == databasev1.DeletionDelete:
		return "its volumes and all data on them are deleted with it (spec.deletionPolicy is Delete)"
	}
	volumes := "the PersistentVolumeClaims with the labels " + Common(c, Observed{}).Selector()
	if !database.IsCarriedOut(c, c.Spec.Paused, c.Status.ObservedGeneration, c.Status.Conditions) {
		return fmt.Sprintf("its data are kept only if, before it is deleted, its own spec.deletionPolicy is Retain and Mainstay has applied that: "+
			"then they are on %s, and a new Cache named %s uses them again", volumes, c.Name)
	}
	return fmt.Sprintf("its data stay on its volumes, %s: a new Cache named %s uses them again (spec.deletionPolicy is Retain)",
		volumes, c.Name)
}
