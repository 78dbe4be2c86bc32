package postgresqlcontroller

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database/databasecontroller"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// observeProvisions reads the passwords of users, and derives what the primary is to make.
func (k kind) observeProvisions(ctx context.Context, db *databasev1.PostgreSQL, observed *postgresql.Observed) error {
	listed := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: contract.ProvisionsName(db.Name)}}
	if err := k.reader.Children.FindLive(ctx, db, listed, observed.Children); err != nil {
		return err
	}
	stored := secretOf(db, *observed, listed.Name)[contract.ProvisionsKey]
	if len(stored)+len(db.Spec.Users)+len(db.Spec.Databases)+len(db.Spec.InitSQL) == 0 && db.Spec.Pooler == nil {
		return nil
	}
	if err := k.observeInit(ctx, db, observed); err != nil {
		return err
	}
	// A content that can't be read is written anew. What was to be dropped or locked by it is
	// forgotten, and stays.
	listedBefore, _ := contract.ParseProvisions(stored)
	before := postgresql.Before{
		Provisions: listedBefore, IsMade: postgresql.HasMade(db, *observed, contract.ProvisionsRevision(stored)),
	}
	if text := string(secretOf(db, *observed, listed.Name)[postgresql.GenerationKey]); len(text) <= maxGeneration {
		before.Generation, _ = strconv.ParseInt(text, 10, 64) // 0 is one that is not known.
	}
	if err := k.readUserSecrets(ctx, db, listedBefore, observed); err != nil {
		return err
	}
	observed.Users = map[string]postgresql.ObservedUser{}
	// They are read once, and only if a user has to wait for them.
	apps := sync.OnceValues(func() (postgresql.BoundApps, error) { return k.boundApps(ctx, db, observed.Now) })
	for _, user := range db.Spec.Users {
		logins := before.LoginsOf(user.Name)
		one, err := k.observeUser(ctx, db, *observed, user, logins)
		if err == nil && one.Problem == "" && logins.IsOver(observed.Now) {
			one.WaitsFor, err = waitsFor(apps, user.Name, observed.CredentialsRevision(
				postgresql.Common(db, *observed), postgresql.UserSecretName(db, user)))
		}
		if err != nil {
			return err
		}
		observed.Users[user.Name] = one.Rotate(user, logins, observed.Now).OnceWritten(db, *observed, user, logins)
	}
	next := postgresql.NextProvisions(db, before, observed.Users, func(name string) bool {
		return observed.Children[postgresql.Ref(db, "Secret", name)].Ownership == plan.Ours
	})
	next.InitSQL = observed.Init.Statements
	if !next.IsEmpty() {
		*observed = observed.Checked(db, next, before, stored)
	}
	return nil
}

// maxGeneration is the length of the highest generation.
const maxGeneration = 19

// readUserSecrets reads the Secrets of users, of those that are no longer in the spec, and those
// that users had before.
func (k kind) readUserSecrets(
	ctx context.Context, db *databasev1.PostgreSQL, before contract.Provisions, observed *postgresql.Observed,
) error {
	names := slices.Clone(before.FormerSecrets)
	for _, user := range db.Spec.Users {
		names = append(names, postgresql.UserSecretName(db, user))
	}
	for _, user := range before.Users {
		names = append(names, user.Secret)
	}
	for _, user := range before.FormerUsers {
		names = append(names, user.Secret)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := k.reader.Children.FindLive(ctx, db, secret, observed.Children); err != nil {
			return err
		}
	}
	return nil
}

// secretOf returns the data of a Secret of the PostgreSQL; nil if it is not there, or of another
// owner.
func secretOf(db *databasev1.PostgreSQL, observed postgresql.Observed, name string) map[string][]byte {
	return databasecontroller.SecretOf(observed.State, postgresql.Common(db, observed), name)
}

// isUsed reports whether a Secret is the PostgreSQL's, or consents to become so, whatever is in it.
func isUsed(found plan.Found) bool {
	return found.Ownership == plan.Ours || found.Ownership == plan.Consenting
}

// observeUser reads the password of a user, and makes what the server keeps in place of it: that
// of before, if it is of the same password.
func (k kind) observeUser(
	ctx context.Context, db *databasev1.PostgreSQL, observed postgresql.Observed, user databasev1.User, before postgresql.Logins,
) (postgresql.ObservedUser, error) {
	given, problem, err := k.passwordOf(ctx, db, observed, user)
	if err != nil || problem != "" {
		return postgresql.ObservedUser{Problem: problem}, err
	}
	secret := postgresql.UserSecretName(db, user)
	stored := secretOf(db, observed, secret)
	one := postgresql.ObservedUser{
		Login: string(stored[corev1.BasicAuthUsernameKey]), Password: given, IsStored: given != "" && user.PasswordSecret == nil,
	}
	if given == "" {
		one.Password = databasecontroller.Password()
	}
	named := before.Named(user, one.Login)
	if one.Verifier, err = k.verifierOf(one.Password, before, named); err != nil {
		return one, err
	}
	if next := string(stored[postgresql.NextPasswordKey]); next != "" && postgres.CheckPassword(next) == nil {
		one.Next = next
	} else if given != "" && postgresql.IsDue(user, before, observed.Now) {
		one.Next = databasecontroller.Password()
	}
	if one.Next != "" && user.PasswordSecret == nil {
		if one.NextVerifier, err = k.verifierOf(one.Next, before, before.Waiting(user.Name)); err != nil {
			return one, err
		}
	}
	return one, nil
}

// verifierOf returns what the server keeps in place of a password: what the role has, if that is
// of the same password.
func (k kind) verifierOf(password string, before postgresql.Logins, login string) (string, error) {
	for _, one := range []contract.User{before.First, before.Second} {
		if one.Name == login && k.verified.is(one.Verifier, password) {
			return one.Verifier, nil
		}
	}
	return postgres.Verifier(password) //nolint:wrapcheck // it says what it was doing
}

// verified remembers which verifiers are of which passwords: to find that out takes a millisecond
// of a processor for each of a thousand users, each time. It has hashes only.
type verified struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
}

// is reports whether a verifier is one of a password.
func (v *verified) is(verifier, password string) bool {
	const most = 1 << 14
	key := sha256.Sum256([]byte(verifier + "\x00" + password))
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known[key] {
		return true
	}
	if !postgres.Verifies(verifier, password) {
		return false
	}
	if v.known == nil || len(v.known) >= most {
		v.known = map[[sha256.Size]byte]bool{}
	}
	v.known[key] = true
	return true
}

// boundApps returns the applications that are bound to a database.
func (k kind) boundApps(ctx context.Context, db *databasev1.PostgreSQL, now time.Time) (postgresql.BoundApps, error) {
	var all appsv1.DeploymentList
	if err := k.client.List(ctx, &all, client.InNamespace(db.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the Deployments of applications: %w", err)
	}
	return postgresql.BoundTo(db, all.Items, now), nil
}

// waitsFor returns an application that has not replaced its pods since the Secret of a user was
// changed; "" if there is none.
func waitsFor(apps func() (postgresql.BoundApps, error), user, revision string) (string, error) {
	all, err := apps()
	return all.Laggard(user, revision), err
}

// passwordOf returns the password of the Secret that has it; "" if one is to be made.
func (k kind) passwordOf(
	ctx context.Context, db *databasev1.PostgreSQL, observed postgresql.Observed, user databasev1.User,
) (given, problem string, err error) {
	name, key := postgresql.UserSecretName(db, user), corev1.BasicAuthPasswordKey
	data := secretOf(db, observed, name)
	if from := user.PasswordSecret; from != nil {
		name, key = from.Name, from.Key
		var secret corev1.Secret
		err := k.reader.Children.Live.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: name}, &secret)
		switch {
		case apierrors.IsNotFound(err):
			return "", fmt.Sprintf("the Secret %s does not exist", name), nil
		case err != nil:
			return "", "", fmt.Errorf("reading the Secret %s: %w", name, err)
		}
		if _, hasKey := secret.Data[key]; !hasKey {
			return "", fmt.Sprintf("the Secret %s has no key %s", name, key), nil
		}
		data = secret.Data
	} else if found := observed.Children[postgresql.Ref(db, "Secret", name)]; found.Object != nil && !isUsed(found) {
		return "", fmt.Sprintf("the Secret %s exists and was not created by this PostgreSQL: delete it, or set secretName", name), nil
	} else if _, hasKey := data[key]; !hasKey {
		return "", "", nil
	}
	given = string(data[key])
	if err := postgres.CheckPassword(given); err != nil {
		return "", fmt.Sprintf("the key %s of the Secret %s: %s", key, name, err), nil
	}
	return given, "", nil
}
