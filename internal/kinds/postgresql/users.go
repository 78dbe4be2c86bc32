package postgresql

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// The most items that the schema takes.
const (
	maxDatabases = 100
	maxUsers     = 1000
	maxItems     = 32 // roles of a user, extensions and schemas of a database
)

// Forms of names, as in the schema. They need no quoting in any client.
var (
	nameForm      = regexp.MustCompile(`^[A-Za-z_][-A-Za-z0-9_]{0,62}$`)
	extensionForm = regexp.MustCompile(`^[a-z_][-a-z0-9_]{0,62}$`)
)

const nameAccepted = "must be letters, digits, _ and -, beginning with a letter or _; at most 63 characters"

// predefined are the roles of the server that a user may be a member of: none of them leads to
// files or programs of the pod (https://www.postgresql.org/docs/current/predefined-roles.html).
var predefined = []string{
	"pg_read_all_data", "pg_write_all_data", "pg_monitor", "pg_read_all_settings", "pg_read_all_stats", "pg_stat_scan_tables",
	"pg_signal_backend", "pg_checkpoint", "pg_maintain",
}

// predefinedSince are the versions that have brought some of them.
var predefinedSince = map[string]int{"pg_read_all_data": 14, "pg_write_all_data": 14, "pg_checkpoint": 15, "pg_maintain": 17}

// UserSecretName returns the name of the Secret with which a user connects.
func UserSecretName(db *databasev1.PostgreSQL, user databasev1.User) string {
	return cmp.Or(user.SecretName, db.Name+"-"+user.Name)
}

// ownSecrets are those that no user may have.
func ownSecrets(db *databasev1.PostgreSQL) []string {
	own := []string{
		database.CertificatesName(db.Name), database.ApplicationName(db.Name), database.MetricsName(db.Name), contract.ProvisionsName(db.Name),
	}
	if db.Spec.Pooler != nil {
		own = append(own, PoolerName(db.Name))
	}
	return own
}

// checkUsers returns what is wrong with the users.
func checkUsers(db *databasev1.PostgreSQL, at *field.Path) field.ErrorList {
	users := db.Spec.Users
	if len(users) > maxUsers {
		return field.ErrorList{field.TooMany(at, len(users), maxUsers)}
	}
	var problems field.ErrorList
	names, secrets, all := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, user := range users {
		all[user.Name] = true
	}
	for _, own := range ownSecrets(db) {
		secrets[own] = true
	}
	for i, user := range users {
		at := at.Index(i)
		problems = append(problems, checkUserName(user.Name, at.Child("name"))...)
		if names[user.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), database.Shown(user.Name)))
		}
		names[user.Name] = true
		secret := UserSecretName(db, user)
		switch {
		case len(validation.IsDNS1123Subdomain(secret)) == 0 && !secrets[secret]:
		case len(validation.IsDNS1123Subdomain(secret)) == 0:
			problems = append(problems, field.Invalid(at.Child("secretName"), database.Shown(secret), "is the name of another Secret of this PostgreSQL"))
		case user.SecretName == "":
			problems = append(problems, field.Required(at.Child("secretName"),
				fmt.Sprintf("the default, %s, is not a valid name of a Secret", database.Shown(secret))))
		default:
			problems = append(problems, field.Invalid(at.Child("secretName"), database.Shown(secret),
				"must be the name of a Secret: lower-case letters, digits, - and ."))
		}
		secrets[secret] = true
		problems = append(problems, checkPasswordSecret(user.PasswordSecret, at.Child("passwordSecret"))...)
		if limit := user.ConnectionLimit; limit != nil && (*limit < 0 || *limit > maxConnectionLimit) {
			problems = append(problems, field.Invalid(at.Child("connectionLimit"), *limit, "must be from 0 to 10000"))
		}
		problems = append(problems, checkRoles(db, user, all, at.Child("roles"))...)
		problems = append(problems, checkRotation(user, at)...)
	}
	problems = append(problems, checkCircles(users, at)...)
	if bytes := provisionsBytes(db); bytes > maxProvisionsBytes {
		problems = append(problems, field.Invalid(at, fmt.Sprintf("%d users", len(users)), fmt.Sprintf("must be at most %d KiB with their roles and "+
			"spec.databases, and are %d KiB: use fewer roles, or shorter names", maxProvisionsBytes>>10, bytes>>10)))
	}
	return problems
}

// maxProvisionsBytes is what users and databases may take of the Secret that the primary reads: a
// Secret has at most 1 MiB, and it also has spec.initSQL and former users.
const maxProvisionsBytes = 850 << 10

// provisionsBytes returns about how much users and databases take of that Secret: each user with
// two roles, as during a rotation.
func provisionsBytes(db *databasev1.PostgreSQL) int {
	const role, database, item = 490, 80, 3 // bytes: a verifier has 133, and a turn 150
	bytes := 0
	for _, user := range db.Spec.Users {
		bytes += role + 6*len(user.Name) + 2*len(UserSecretName(db, user))
		for _, one := range user.Roles {
			bytes += item + len(one)
		}
	}
	for _, one := range db.Spec.Databases {
		bytes += database + len(one.Name) + len(one.Owner)
		for _, name := range slices.Concat(one.Extensions, one.Schemas) {
			bytes += item + len(name)
		}
	}
	return bytes
}

const maxConnectionLimit = 10_000

func checkUserName(name string, at *field.Path) field.ErrorList {
	if !nameForm.MatchString(name) {
		return field.ErrorList{field.Invalid(at, database.Shown(name), nameAccepted)}
	}
	if name == applicationRole {
		return field.ErrorList{field.Invalid(at, name, "always exists, with the Secret NAME-app: choose another name")}
	}
	if err := postgres.CheckUser(name); err != nil {
		return field.ErrorList{field.Invalid(at, name, err.Error())}
	}
	return nil
}

func checkPasswordSecret(from *corev1.SecretKeySelector, at *field.Path) field.ErrorList {
	if from == nil {
		return nil
	}
	var problems field.ErrorList
	if len(validation.IsDNS1123Subdomain(from.Name)) > 0 {
		problems = append(problems, field.Invalid(at.Child("name"), database.Shown(from.Name), "must be the name of a Secret"))
	}
	if len(validation.IsConfigMapKey(from.Key)) > 0 {
		problems = append(problems, field.Invalid(at.Child("key"), database.Shown(from.Key), "must be a key of a Secret, for example password"))
	}
	return problems
}

// checkRoles returns what is wrong with the roles of a user.
func checkRoles(db *databasev1.PostgreSQL, user databasev1.User, users map[string]bool, at *field.Path) field.ErrorList {
	if len(user.Roles) > maxItems {
		return field.ErrorList{field.TooMany(at, len(user.Roles), maxItems)}
	}
	var problems field.ErrorList
	for i, role := range user.Roles {
		switch {
		case role == user.Name:
			problems = append(problems, field.Invalid(at.Index(i), database.Shown(role), "a user can't be a member of itself"))
		case slices.Contains(user.Roles[:i], role):
			problems = append(problems, field.Duplicate(at.Index(i), database.Shown(role)))
		case role != applicationRole && !slices.Contains(predefined, role) && !users[role]:
			problems = append(problems, field.Invalid(at.Index(i), database.Shown(role),
				"must be app, one of spec.users, or one of "+strings.Join(predefined, ", ")))
		case isNewerRole(db, role):
			problems = append(problems, field.Invalid(at.Index(i), role,
				fmt.Sprintf("exists since PostgreSQL %d, and spec.version is %s", predefinedSince[role], database.Shown(db.Spec.Version))))
		}
	}
	return problems
}

// isNewerRole reports whether the version lacks a predefined role.
func isNewerRole(db *databasev1.PostgreSQL, role string) bool {
	version, err := strconv.Atoi(db.Spec.Version)
	return err == nil && version < predefinedSince[role]
}

// checkCircles returns the memberships that make a user a member of itself through others. Each
// user is visited once.
func checkCircles(users []databasev1.User, at *field.Path) field.ErrorList {
	index := map[string]int{}
	for i, user := range users {
		index[user.Name] = i
	}
	const underWay, done = 1, 2
	var problems field.ErrorList
	visited := make([]int, len(users))
	var visit func(i int)
	visit = func(i int) {
		visited[i] = underWay
		for j, role := range users[i].Roles[:min(len(users[i].Roles), maxItems)] {
			next, isUser := index[role]
			switch {
			case !isUser || next == i:
			case visited[next] == underWay:
				problems = append(problems, field.Invalid(at.Index(i).Child("roles").Index(j), database.Shown(role),
					fmt.Sprintf("is a member of %s itself, directly or through others", database.Shown(users[i].Name))))
			case visited[next] != done:
				visit(next)
			}
		}
		visited[i] = done
	}
	for i := range users {
		if visited[i] != done {
			visit(i)
		}
	}
	return problems
}

func isUser(db *databasev1.PostgreSQL, name string) bool {
	return slices.ContainsFunc(db.Spec.Users, func(user databasev1.User) bool { return user.Name == name })
}

// checkDatabases returns what is wrong with the databases.
func checkDatabases(db *databasev1.PostgreSQL, at *field.Path) field.ErrorList {
	if len(db.Spec.Databases) > maxDatabases {
		return field.ErrorList{field.TooMany(at, len(db.Spec.Databases), maxDatabases)}
	}
	var problems field.ErrorList
	names := map[string]bool{}
	for i, one := range db.Spec.Databases {
		at := at.Index(i)
		if !nameForm.MatchString(one.Name) {
			problems = append(problems, field.Invalid(at.Child("name"), database.Shown(one.Name), nameAccepted))
		} else if err := postgres.CheckDatabase(one.Name); err != nil {
			problems = append(problems, field.Invalid(at.Child("name"), one.Name, err.Error()))
		}
		if names[one.Name] {
			problems = append(problems, field.Duplicate(at.Child("name"), database.Shown(one.Name)))
		}
		names[one.Name] = true
		owner := cmp.Or(one.Owner, applicationRole)
		switch {
		case owner != applicationRole && one.Name == applicationDatabase:
			problems = append(problems, field.Invalid(at.Child("owner"), database.Shown(owner), "the database app belongs to the user app: leave owner out"))
		case owner != applicationRole && !isUser(db, owner):
			problems = append(problems, field.Invalid(at.Child("owner"), database.Shown(owner), "must be app or one of spec.users"))
		}
		if one.Name == applicationDatabase && one.Reclaim == databasev1.DeletionDelete {
			problems = append(problems, field.Invalid(at.Child("reclaim"), one.Reclaim,
				"the database app always exists: it can't be dropped"))
		}
		problems = append(problems, checkNames(one.Extensions, extensionForm, at.Child("extensions"))...)
		problems = append(problems, checkNames(one.Schemas, nameForm, at.Child("schemas"))...)
	}
	return problems
}

// checkNames returns what is wrong with the names of extensions or schemas.
func checkNames(names []string, form *regexp.Regexp, at *field.Path) field.ErrorList {
	if len(names) > maxItems {
		return field.ErrorList{field.TooMany(at, len(names), maxItems)}
	}
	var problems field.ErrorList
	for i, name := range names {
		switch {
		case !form.MatchString(name):
			problems = append(problems, field.Invalid(at.Index(i), database.Shown(name), nameAccepted))
		case strings.HasPrefix(name, "pg_") && form == nameForm || name == "information_schema":
			problems = append(problems, field.Invalid(at.Index(i), name, "is the server's own: choose another name"))
		case slices.Contains(names[:i], name):
			problems = append(problems, field.Duplicate(at.Index(i), name))
		}
	}
	return problems
}

// userSecret is what a user needs to connect. It follows the password, wherever that comes from:
// the one in the Secret itself counts, unless another Secret has it.
func userSecret(db *databasev1.PostgreSQL, observed Observed, user databasev1.User) *corev1.Secret {
	one := observed.Users[user.Name]
	as := login{user: cmp.Or(one.Login, user.Name), password: one.Password, database: applicationDatabase}
	if at := slices.IndexFunc(db.Spec.Databases, func(one databasev1.Database) bool { return one.Owner == user.Name }); at >= 0 {
		as.database = db.Spec.Databases[at].Name
	}
	host := primaryHost(db)
	if isPooled(db, observed) {
		host = poolerHost(db)
	}
	data := as.data(host, observed.Certificates[database.AuthorityKey])
	if one.Next != "" {
		data[NextPasswordKey] = []byte(one.Next)
	}
	return &corev1.Secret{
		ObjectMeta: Common(db, observed).Meta(UserSecretName(db, user)), Type: corev1.SecretTypeBasicAuth, Data: data,
	}
}
