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
		Authority: func(name string) (configMap, key string) { return database.AuthorityName(name), database.AuthorityKey },
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
	of := func(variable, key string) component.Output { return database.FromApplication(name, variable, key) }
	return []component.Output{
		of("DATABASE_URL", "uri"), of("PGHOST", "host"), of("PGPORT", "port"), of("PGUSER", corev1.BasicAuthUsernameKey),
		of("PGPASSWORD", corev1.BasicAuthPasswordKey), of("PGDATABASE", "dbname"), {Name: "PGSSLMODE", Value: "verify-full"},
	}
}
