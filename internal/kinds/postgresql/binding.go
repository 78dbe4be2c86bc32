package postgresql

import (
	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
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
	of := func(variable, key string) component.Output {
		return component.Output{Name: variable, Secret: database.ApplicationName(name), Key: key}
	}
	return []component.Output{
		of("DATABASE_URL", "uri"), of("PGHOST", "host"), of("PGPORT", "port"), of("PGUSER", corev1.BasicAuthUsernameKey),
		of("PGPASSWORD", corev1.BasicAuthPasswordKey), of("PGDATABASE", "dbname"), {Name: "PGSSLMODE", Value: "verify-full"},
	}
}

// credentialsRevision returns a text that changes with the content of the application's Secret; ""
// while there is none. It is a hash under a key that is as secret as the content, so that no
// password can be guessed from it: the password with which metrics are read, which Mainstay has
// made, and which stays.
func credentialsRevision(db *databasev1.PostgreSQL, observed Observed) string {
	application, metrics := observed.secret(db, database.ApplicationName(db.Name)), observed.secret(db, database.MetricsName(db.Name))
	if application == nil || metrics == nil || len(metrics.Data[corev1.BasicAuthPasswordKey]) == 0 {
		return ""
	}
	hasher := workload.NewHasher(metrics.Data[corev1.BasicAuthPasswordKey]).For(db.Namespace, application.Name)
	hashes := map[string]string{}
	for key, value := range application.Data {
		hashes[key] = hasher.HashKey(value)
	}
	return workload.HashAll(hashes)
}

// secret returns a Secret of the database; nil if there is none.
func (o Observed) secret(db *databasev1.PostgreSQL, name string) *corev1.Secret {
	found := o.Children[Ref(db, "Secret", name)]
	secret, _ := found.Object.(*corev1.Secret)
	if found.Ownership != plan.Ours {
		return nil
	}
	return secret
}
