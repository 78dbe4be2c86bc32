package postgresql

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// Binding is what an application that is bound to a database gets: the variables that libpq, and
// what is built on it, reads by itself, and the address as one URL. The URL has a sslmode of its
// own, which does not check the name of the server; libpq checks its authority even so, because
// PGSSLROOTCERT is set.
func Binding() *component.Binding {
	return &component.Binding{
		Variables: variables,
		Secret:    database.ApplicationName,
		Authority: database.Authority,
		// https://www.postgresql.org/docs/current/libpq-envars.html
		AuthorityVariables: []string{"PGSSLROOTCERT"},
		Condition:          databasev1.ConditionWritable,
		Account: func(object component.Object, user string) component.Account {
			if db, isDatabase := object.(*databasev1.PostgreSQL); isDatabase {
				return account(db, user)
			}
			return component.Account{}
		},
		HasUsers: true,
	}
}

// account returns as whom an application connects: as a user that the primary has made, or as the
// one that every database has.
func account(db *databasev1.PostgreSQL, user string) component.Account {
	if user == "" || user == applicationRole {
		return component.Account{Secret: applicationSecret(db), Revision: db.Status.CredentialsRevision}
	}
	made := slices.IndexFunc(db.Status.Users, func(one databasev1.UserStatus) bool { return one.Name == user })
	switch {
	case !isUser(db, user):
		return component.Account{Problem: "which has no user " + user}
	case made < 0:
		return component.Account{Problem: fmt.Sprintf("whose user %s is not made yet", user)}
	}
	return component.Account{Secret: db.Status.Users[made].SecretName, Revision: db.Status.Users[made].Revision}
}

// applicationSecret returns the name of the Secret with which the user app connects: through the
// pooler, as soon as the status says that there is one.
func applicationSecret(db *databasev1.PostgreSQL) string {
	if pooler := db.Status.Pooler; db.Spec.Pooler != nil && pooler != nil && pooler.SecretName != "" {
		return pooler.SecretName
	}
	return database.ApplicationName(db.Name)
}

// credentialsRevision returns that of the Secret with which the user app connects by a status. A
// Secret that can't be read now, or is being made again, is no change.
func credentialsRevision(db *databasev1.PostgreSQL, observed Observed, status databasev1.PostgreSQLStatus) string {
	told := db.DeepCopy()
	told.Status = status
	return cmp.Or(observed.CredentialsRevision(Common(db, observed), applicationSecret(told)), db.Status.CredentialsRevision)
}

func variables(secret string) []component.Output {
	from := func(name, key string) component.Output { return component.Output{Name: name, Secret: secret, Key: key} }
	return []component.Output{
		from("DATABASE_URL", "uri"), from("PGHOST", "host"), from("PGPORT", "port"), from("PGUSER", corev1.BasicAuthUsernameKey),
		from("PGPASSWORD", corev1.BasicAuthPasswordKey), from("PGDATABASE", "dbname"), {Name: "PGSSLMODE", Value: "verify-full"},
	}
}

// madeUsers returns the users that the primary has made, by its report, and those that it had made
// before. What is not known now is as it was.
func madeUsers(db *databasev1.PostgreSQL, observed Observed) []databasev1.UserStatus {
	var made []databasev1.UserStatus
	isMade := HasMade(db, observed, contract.ProvisionsRevision(observed.Provisions))
	for _, user := range db.Spec.Users {
		at := slices.IndexFunc(db.Status.Users, func(one databasev1.UserStatus) bool { return one.Name == user.Name })
		one := databasev1.UserStatus{Name: user.Name}
		if at >= 0 {
			one = db.Status.Users[at]
		}
		if secret := UserSecretName(db, user); isMade && observed.Users[user.Name].Problem == "" {
			if revision := observed.CredentialsRevision(Common(db, observed), secret); revision != "" {
				one.SecretName, one.Revision = secret, revision
				rotationStatus(&one, observed.Users[user.Name])
			}
		}
		endStatus(&one, observed.Users[user.Name], observed.Now)
		if one.Revision != "" {
			made = append(made, one)
		}
	}
	return made
}
