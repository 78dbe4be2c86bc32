package postgresql

import (
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Binding is what an application that is bound to a database gets: the variables that libpq, and
// what is built on it, reads by itself, and the address as one URL. The URL has a sslmode of its
// own, which does not check the name of the server; libpq checks its authority even so, because
// PGSSLROOTCERT is set.
func Binding() *component.Binding {
	return &component.Binding{
		Variables: variables,
		Authority: database.Authority,
		// https://www.postgresql.org/docs/current/libpq-envars.html
		AuthorityVariables: []string{"PGSSLROOTCERT"},
		Condition:          databasev1.ConditionWritable,
		Revision: func(object component.Object) string {
			if db, isDatabase := object.(*databasev1.PostgreSQL); isDatabase {
				return db.Status.CredentialsRevision
			}
			return ""
		},
	}
}

func variables(name string) []component.Output {
	return []component.Output{
		database.Variable(name, "DATABASE_URL", "uri"), database.Variable(name, "PGHOST", "host"), database.Variable(name, "PGPORT", "port"),
		database.Variable(name, "PGUSER", corev1.BasicAuthUsernameKey), database.Variable(name, "PGPASSWORD", corev1.BasicAuthPasswordKey),
		database.Variable(name, "PGDATABASE", "dbname"), {Name: "PGSSLMODE", Value: "verify-full"},
	}
}
