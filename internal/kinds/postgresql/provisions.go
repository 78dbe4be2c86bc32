package postgresql

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/conditions"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/summary"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// GenerationKey is the key of the generation of the spec from which the provisions were derived.
const GenerationKey = "generation"

// ObservedUser is what was read about the password of a user, and what [ObservedUser.Rotate]
// decides of it.
type ObservedUser struct {
	// Login is the role that its Secret names; IsStored reports whether that has a password for it.
	Login    string
	IsStored bool
	// Password is that of the Secret that has it, or a new random one if none has.
	Password string
	// Verifier is what the server keeps in place of it.
	Verifier string
	// Next is a password that the user is to get once the primary has made it, and NextVerifier what
	// the server keeps in place of it; "" if there is none.
	Next, NextVerifier string
	// WaitsFor is an application that has the former password still, although it would have ended.
	WaitsFor string
	// Problem says why the password can't be used; then there is none.
	Problem string
	// Users are the roles as the primary is to make them, without what the spec says of them.
	Users []contract.User
	// IsUnwritten reports whether the user's Secret is there, and lacks a password that it is to get:
	// see [ObservedUser.OnceWritten].
	IsUnwritten bool
}

// Before is what the primary was to make.
type Before struct {
	contract.Provisions
	// Generation is that of the spec from which they were derived; 0 if that is not known.
	Generation int64
	// IsMade reports whether the primary has made them.
	IsMade bool
}

// NextProvisions returns what the primary is to make, given what it was to make before, and which
// Secrets that users no longer have are still there:
//
//	a user of the spec          as the spec says; as before while its password can't be used, or
//	                            its Secret does not have it
//	a former user               stays listed until it can't log in any more and its Secret is gone,
//	                            or it is a user again: then none of its two roles is listed
//	a former Secret of a user   stays listed until it is gone
//	a former database           is dropped if its reclaim was Delete; listed until that is done
//
// A database is dropped only if the spec before this one is known to have said Delete: one that was
// changed to Retain, and removed before Mainstay saw that, stays.
func NextProvisions(
	db *databasev1.PostgreSQL, before Before, users map[string]ObservedUser, hasSecret func(name string) bool,
) contract.Provisions {
	isMade := before.IsMade
	next := contract.Provisions{Pooler: db.Spec.Pooler != nil, RotationDue: rotationDue(db, users)}
	for _, user := range db.Spec.Users {
		next.Users = append(next.Users, nextUsers(db, user, users[user.Name])...)
	}
	former := slices.Clone(before.FormerUsers)
	for _, user := range before.Users {
		if !isUser(db, cmp.Or(user.As, user.Name)) {
			former = append(former, contract.FormerUser{Name: user.Name, Secret: user.Secret})
		}
	}
	logins := loginsOf(next.Users)
	for i, user := range former {
		isLocked := isMade && i < len(before.FormerUsers)
		if !logins[user.Name] && (!isLocked || hasSecret(user.Secret)) {
			next.FormerUsers = append(next.FormerUsers, user)
		}
	}
	next.FormerSecrets = formerSecrets(db, before, next.FormerUsers, hasSecret)
	isListed := map[string]bool{}
	for _, database := range db.Spec.Databases {
		isListed[database.Name] = true
		owner := database.Owner
		if owner == applicationRole {
			owner = ""
		}
		next.Databases = append(next.Databases, contract.Database{
			Name: database.Name, Owner: owner, Extensions: database.Extensions, Schemas: database.Schemas,
			Delete: database.Reclaim == databasev1.DeletionDelete,
		})
	}
	for _, database := range before.Databases {
		if database.Delete && !isListed[database.Name] && before.Generation+1 == db.Generation {
			next.DropDatabases = append(next.DropDatabases, database.Name)
		}
	}
	for _, name := range before.DropDatabases {
		if !isMade && !isListed[name] {
			next.DropDatabases = append(next.DropDatabases, name)
		}
	}
	return next
}

// formerSecrets returns the Secrets that users had before, as long as they are there, without those
// that former users are listed with. They are deleted at the end of a pass, which may fail before,
// or end with the manager.
func formerSecrets(
	db *databasev1.PostgreSQL, before Before, listed []contract.FormerUser, hasSecret func(name string) bool,
) []string {
	isOther := map[string]bool{}
	for _, own := range ownSecrets(db) {
		isOther[own] = true
	}
	for _, user := range db.Spec.Users {
		isOther[UserSecretName(db, user)] = true
	}
	for _, user := range listed {
		isOther[user.Secret] = true
	}
	names := slices.Clone(before.FormerSecrets)
	for _, user := range before.Users {
		names = append(names, user.Secret)
	}
	for _, user := range before.FormerUsers {
		names = append(names, user.Secret)
	}
	slices.Sort(names)
	var former []string
	for _, name := range slices.Compact(names) {
		if !isOther[name] && hasSecret(name) {
			former = append(former, name)
		}
	}
	return former
}

// loginsOf returns the names of both roles of users: a second one that is not declared does not log
// in either, because the primary locks it.
func loginsOf(users []contract.User) map[string]bool {
	logins := map[string]bool{}
	for _, user := range users {
		logins[user.Name] = true
		if user.As == "" {
			logins[postgres.SecondLogin(user.Name)] = true
		}
	}
	return logins
}

// nextUsers returns the roles of a user as the primary is to make them; none while there is no
// password to make them with.
func nextUsers(db *databasev1.PostgreSQL, user databasev1.User, observed ObservedUser) []contract.User {
	users := slices.Clone(observed.Users)
	for i := range users {
		one := &users[i]
		one.Secret, one.ConnectionLimit, one.Roles = UserSecretName(db, user), -1, user.Roles
		if one.As != "" {
			one.Roles = []string{user.Name}
		}
		if user.ConnectionLimit != nil {
			one.ConnectionLimit = *user.ConnectionLimit
		}
	}
	return users
}

// addProvisions adds the Secrets of users, and the one that the primary reads. Those come first: a
// password that no Secret has must not become a user's. Needs is for Secrets that do not exist yet,
// and [ObservedUser.OnceWritten] for those that do.
func addProvisions(wanted *plan.Plan, db *databasev1.PostgreSQL, observed Observed) {
	certificates := Common(db, observed).CertificatesRef()
	needs := slices.Clone(certificates)
	for _, user := range db.Spec.Users {
		ref := Ref(db, "Secret", UserSecretName(db, user))
		if observed.Users[user.Name].Problem != "" {
			wanted.Keep = append(wanted.Keep, ref)
			wanted.Keep = append(wanted.Keep, formerSecret(db, user)...)
			continue
		}
		wanted.Children = append(wanted.Children, plan.Child{Object: userSecret(db, observed, user), Uncached: true, Needs: certificates})
		needs = append(needs, ref)
	}
	if observed.ProvisionsProblem != "" {
		wanted.Keep = append(wanted.Keep, Ref(db, "Secret", contract.ProvisionsName(db.Name)))
		return
	}
	if len(observed.Provisions) == 0 {
		return
	}
	wanted.Children = append(wanted.Children, plan.Child{
		Object: &corev1.Secret{
			ObjectMeta: Common(db, observed).Meta(contract.ProvisionsName(db.Name)), Type: corev1.SecretTypeOpaque,
			Data: map[string][]byte{
				contract.ProvisionsKey: observed.Provisions, GenerationKey: []byte(strconv.FormatInt(db.Generation, 10)),
			},
		},
		Uncached: true, Needs: needs,
	})
}

// formerSecret returns the Secret with which a user connects as long as that of the spec can't be
// written.
func formerSecret(db *databasev1.PostgreSQL, user databasev1.User) []plan.Ref {
	for _, one := range db.Status.Users {
		if one.Name == user.Name && one.SecretName != UserSecretName(db, user) {
			return []plan.Ref{Ref(db, "Secret", one.SecretName)}
		}
	}
	return nil
}

// unusable says which passwords can't be used, and why.
func unusable(s *subject) string {
	if problem := s.observed.ProvisionsProblem; problem != "" {
		return "users and databases are not updated: " + problem
	}
	var said []string
	for _, user := range s.db.Spec.Users {
		if problem := s.observed.Users[user.Name].Problem; problem != "" {
			said = append(said, fmt.Sprintf("user %s: %s", user.Name, problem))
		}
	}
	return summary.If(len(said) > 0, "some users cannot be updated: %s", conditions.FirstFew(said, "; "))
}

// provisioning: the primary has not made what the spec says yet.
func provisioning(s *subject) string {
	wanted := contract.ProvisionsRevision(s.observed.Provisions)
	if wanted == "" || s.Primary == nil || s.Primary.Report.Provisions == wanted {
		return ""
	}
	return fmt.Sprintf("%s is applying spec.databases, spec.users and spec.initSQL. An instance that an earlier version of Mainstay started does so only after a restart: "+
		"set spec.restartedAt", s.Primary.Pod.Name)
}

// Checked decides what becomes of the next content of the Secret that the primary reads. What is
// too long is not written, and neither is any Secret of a user, which would have a password that
// nobody makes: all stay as they were before.
func (o Observed) Checked(db *databasev1.PostgreSQL, next contract.Provisions, before Before, stored []byte) Observed {
	content := next.Encode()
	if len(content) <= contract.MaxProvisionsBytes {
		o.Provisions = content
		return o
	}
	o.Provisions = stored
	o.ProvisionsProblem = fmt.Sprintf("spec.users, spec.databases and spec.initSQL, with %d former users, are %d KiB together for the primary, "+
		"and may be at most %d KiB: use fewer or shorter ones", len(next.FormerUsers), (len(content)+1023)>>10, contract.MaxProvisionsBytes>>10)
	o.Users = map[string]ObservedUser{}
	for _, user := range db.Spec.Users {
		o.Users[user.Name] = ObservedUser{Problem: o.ProvisionsProblem}.Rotate(user, before.LoginsOf(user.Name), o.Now)
	}
	return o
}

// HasMade reports whether the primary has made what that revision says.
func HasMade(db *databasev1.PostgreSQL, observed Observed, revision string) bool {
	primary := database.PrimaryOf(observed.Instances(Common(db, observed)))
	return revision != "" && primary != nil && primary.Report.Provisions == revision
}

// neededByProvisioned names the Secret that the primary reads, and what that needs; nothing if none
// is written.
func neededByProvisioned(db *databasev1.PostgreSQL, observed Observed) []plan.Ref {
	if len(observed.Provisions) == 0 || observed.ProvisionsProblem != "" {
		return nil
	}
	return append(Common(db, observed).CertificatesRef(), Ref(db, "Secret", contract.ProvisionsName(db.Name)))
}
