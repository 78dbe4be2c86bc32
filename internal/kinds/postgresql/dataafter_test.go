package postgresql

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// TestDataAfter: that data stay is said only where it is certain.
func TestDataAfter(t *testing.T) {
	// live is a database that exists, and whose spec is carried out, with a change.
	live := func(change func(db *databasev1.PostgreSQL)) *databasev1.PostgreSQL {
		db := &databasev1.PostgreSQL{
			ObjectMeta: metav1.ObjectMeta{Name: "db", UID: "uid", Generation: 3},
			Spec:       databasev1.PostgreSQLSpec{Replicas: 3, DeletionPolicy: databasev1.DeletionRetain},
			Status: databasev1.PostgreSQLStatus{ObservedGeneration: 3, Conditions: []metav1.Condition{
				{Type: "Ready", Status: metav1.ConditionTrue, ObservedGeneration: 3}}},
		}
		change(db)
		return db
	}
	const labels = "the PersistentVolumeClaims with the labels app=db,app.kubernetes.io/component=postgresql"
	const stay = "its data stay on its volumes, " + labels + ": a new PostgreSQL named db uses them again (spec.deletionPolicy is Retain)"
	const perhaps = "its data are kept only if, before it is deleted, its own spec.deletionPolicy is Retain and Mainstay has applied that: " +
		"then they are on " + labels + ", and a new PostgreSQL named db uses them again"
	const deleted = "its volumes and all data on them are deleted with it (spec.deletionPolicy is Delete)"
	for name, test := range map[string]struct {
		object component.Object
		want   string
	}{
		"carried out":   {live(func(*databasev1.PostgreSQL) {}), stay},
		"by default":    {live(func(db *databasev1.PostgreSQL) { db.Spec.DeletionPolicy = "" }), stay},
		"not live":      {&databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db"}}, perhaps},
		"not seen yet":  {live(func(db *databasev1.PostgreSQL) { db.Generation = 4 }), perhaps},
		"paused":        {live(func(db *databasev1.PostgreSQL) { db.Spec.Paused = true }), perhaps},
		"being deleted": {live(func(db *databasev1.PostgreSQL) { db.DeletionTimestamp = new(metav1.Now()) }), perhaps},
		"refused":       {live(func(db *databasev1.PostgreSQL) { db.Status.Conditions[0].Status = metav1.ConditionUnknown }), perhaps},
		"Ready before":  {live(func(db *databasev1.PostgreSQL) { db.Status.Conditions[0].ObservedGeneration = 2 }), perhaps},
		"Delete":        {live(func(db *databasev1.PostgreSQL) { db.Spec.DeletionPolicy = databasev1.DeletionDelete }), deleted},
		"another kind":  {&msappsv1.WebApp{}, ""},
	} {
		if got := DataAfter(test.object); got != test.want {
			t.Errorf("%s: got %s\nwant %s", name, got, test.want)
		}
	}
}
