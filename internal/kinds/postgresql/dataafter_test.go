package postgresql

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

func TestDataAfter(t *testing.T) {
	database := func(spec databasev1.PostgreSQLSpec) *databasev1.PostgreSQL {
		return &databasev1.PostgreSQL{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: spec}
	}
	const taken = ": a new PostgreSQL named db takes them up (spec.deletionPolicy is Retain)"
	const stay = "its data stay on its volumes, the PersistentVolumeClaims "
	for want, object := range map[string]component.Object{
		stay + "data-db-0" + taken: database(databasev1.PostgreSQLSpec{}),
		stay + "data-db-0, data-db-1, data-db-2" + taken: database(databasev1.PostgreSQLSpec{
			Replicas: 3, DeletionPolicy: databasev1.DeletionRetain}),
		stay + "data-db-0, wal-db-0, data-db-1 and 1 more" + taken: database(databasev1.PostgreSQLSpec{
			Replicas: 2, WALStorage: &databasev1.WALStorage{}}),
		"its volumes and all data on them are deleted with it (spec.deletionPolicy is Delete)": database(databasev1.PostgreSQLSpec{
			Replicas: 3, DeletionPolicy: databasev1.DeletionDelete}),
		"": &msappsv1.WebApp{},
	} {
		if got := DataAfter(object); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
