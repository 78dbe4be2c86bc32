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
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
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

// poolerStarts: the pooler of the spec has not taken connections yet, or the user's Secret does not
// have its address. A pooler that is away later changes neither. One that can't start now is not
// waited for, and neither is a Secret that can't be written now: applications move to it later.
const poolerStarts = "whose pooler takes no connections yet"

// account returns as whom an application connects: as a user that the primary has made, or as the
// one that every database has.
func account(db *databasev1.PostgreSQL, user string) component.Account {
	awaited := db.Spec.Pooler != nil && (db.Status.Pooler == nil || db.Status.Pooler.Problem == "")
	starting := func(isPooled bool) string { return summary.If(awaited && !isPooled, poolerStarts) }
	if user == "" || user == applicationRole {
		secret := applicationSecret(db)
		return component.Account{
			Secret: secret, Revision: db.Status.CredentialsRevision, Starting: starting(secret == PoolerName(db.Name)),
		}
	}
	made := slices.IndexFunc(db.Status.Users, func(one databasev1.UserStatus) bool { return one.Name == user })
	switch {
	case !isUser(db, user):
		return component.Account{Problem: "which has no user " + user}
	case made < 0:
		return component.Account{Problem: fmt.Sprintf("whose user %s is not created yet", user)}
	}
	status := db.Status.Users[made]
	one := component.Account{Secret: status.SecretName, Revision: status.Revision, Starting: starting(status.Pooled || status.Blocked)}
	if one.Starting != "" && applicationSecret(db) == PoolerName(db.Name) {
		// While the PostgreSQL is paused, no Secret gets it.
		one.Starting = summary.If(!db.Spec.Paused, "whose user %s does not have the address of the pooler yet", user)
	}
	return one
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
// Secret that can't be read now, or is being written or made again, is no change.
func credentialsRevision(db *databasev1.PostgreSQL, observed Observed, result plan.Result, status databasev1.PostgreSQLStatus) string {
	if writesURI(db, observed, result) {
		return db.Status.CredentialsRevision
	}
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

// isBlocked reports whether the Secret of a user can't be written now.
func isBlocked(db *databasev1.PostgreSQL, observed Observed, result plan.Result, user databasev1.User) bool {
	ref := Ref(db, "Secret", UserSecretName(db, user))
	_, isRefused := result.Refusals[ref]
	return isRefused || observed.Users[user.Name].Problem != "" || slices.Contains(result.Conflicts, ref)
}

// madeUsers returns the users that the primary has made, by its report, and those that it had made
// before. What is not known now is as it was.
func madeUsers(db *databasev1.PostgreSQL, observed Observed, result plan.Result) []databasev1.UserStatus {
	var made []databasev1.UserStatus
	isMade := HasMade(db, observed, contract.ProvisionsRevision(observed.Provisions))
	for _, user := range db.Spec.Users {
		at := slices.IndexFunc(db.Status.Users, func(one databasev1.UserStatus) bool { return one.Name == user.Name })
		one := databasev1.UserStatus{Name: user.Name}
		if at >= 0 {
			one = db.Status.Users[at]
		}
		secret, isUsable := UserSecretName(db, user), isMade && observed.Users[user.Name].Problem == "" && !observed.Users[user.Name].IsUnwritten
		revision := observed.CredentialsRevision(Common(db, observed), secret)
		switch {
		case revision == "":
		case isUsable:
			one.SecretName, one.Revision, one.Pooled = secret, revision, hasPooler(db, observed, secret)
			rotationStatus(&one, observed.Users[user.Name])
		case revision == one.Revision:
			one.Pooled = hasPooler(db, observed, secret)
		}
		one.Blocked = isBlocked(db, observed, result, user)
		endStatus(&one, observed.Users[user.Name], observed.Now)
		if one.Revision != "" {
			made = append(made, one)
		}
	}
	return made
}

// hasPooler reports whether a Secret has the address of the pooler.
func hasPooler(db *databasev1.PostgreSQL, observed Observed, name string) bool {
	object, _ := observed.Children.Get(Ref(db, "Secret", name))
	secret, isSecret := object.(*corev1.Secret)
	return isSecret && string(secret.Data["host"]) == poolerHost(db)
}

// hasWritten reports whether the Secret of a user was given what the primary makes as soon as the
// Secret has it: no event tells of that.
func hasWritten(db *databasev1.PostgreSQL, observed Observed, result plan.Result) bool {
	return slices.ContainsFunc(db.Spec.Users, func(user databasev1.User) bool {
		return observed.Users[user.Name].IsUnwritten && result.Changed(Ref(db, "Secret", UserSecretName(db, user)))
	})
}

// repoints reports whether the Secret of a user gets the address of the pooler now: no event tells
// when it has it. While the PostgreSQL is paused, none gets it.
func repoints(db *databasev1.PostgreSQL, observed Observed, result plan.Result) bool {
	return !db.Spec.Paused && isPooled(db, observed) && slices.ContainsFunc(db.Spec.Users, func(user databasev1.User) bool {
		name := UserSecretName(db, user)
		_, there := observed.Children.Get(Ref(db, "Secret", name))
		return there && !isBlocked(db, observed, result, user) && !hasPooler(db, observed, name)
	})
}
