package postgresql

import (
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// Controller is the name of the kind's controller; its field manager is mainstay/postgresql.
	Controller = "postgresql"
	// Component is the value of app.kubernetes.io/component on all objects of a PostgreSQL.
	Component = "postgresql"
	// ContainerName is the server's container, which users rely on (kubectl exec -c postgres).
	ContainerName = "postgres"
)

// The ports of an instance.
const (
	serverPort = 5432
	// metricsPort is that of PostgreSQL's exporters.
	metricsPort = 9187
)

// WALVolumeName is the name of the volume claim of an instance for the server's log.
func WALVolumeName(name string, ordinal int) string { return "wal-" + database.PodName(name, ordinal) }

// Ref names a child.
func Ref(db *databasev1.PostgreSQL, kind, name string) plan.Ref {
	return (&database.Database{Namespace: db.Namespace}).Ref(kind, name)
}

// Secrets returns the names of the Secrets of a PostgreSQL whose content the manager reads. It does
// not read those of spec.imagePullSecrets.
func Secrets(db *databasev1.PostgreSQL) []string {
	names := ownSecrets(db)
	for _, user := range db.Spec.Users {
		names = append(names, UserSecretName(db, user))
		if user.PasswordSecret != nil {
			names = append(names, user.PasswordSecret.Name)
		}
	}
	for _, one := range db.Spec.InitSQL {
		if one.SecretKeyRef != nil && Initialises(db) {
			names = append(names, one.SecretKeyRef.Name)
		}
	}
	return names
}
