package postgresql

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// NextPasswordKey is the key of a user's Secret with the password that it gets once the primary has
// made it.
const NextPasswordKey = "password.next"

// Limits of the times of a rotation, and their length in the schema, in bytes.
const (
	defaultOverlap                  = "1h"
	shortestOverlap, longestOverlap = time.Minute, 720 * time.Hour
	shortestEvery, longestEvery     = time.Hour, 17520 * time.Hour
	maxDuration                     = 16
)

// checkRotation returns what is wrong with when a user gets another password.
func checkRotation(user databasev1.User, at *field.Path) field.ErrorList {
	var problems field.ErrorList
	within := func(text, name string, least, most time.Duration, says string) time.Duration {
		value, err := time.Duration(0), errors.New("too long")
		if len(text) <= maxDuration {
			value, err = time.ParseDuration(text)
		}
		if err != nil || value < least || value > most {
			problems = append(problems, field.Invalid(at.Child(name), database.Shown(text), says))
		}
		return value
	}
	overlap := within(cmp.Or(user.Overlap, defaultOverlap), "overlap", shortestOverlap, longestOverlap, "must be from 1m to 720h, for example 1h")
	if user.RotateEvery != "" {
		every := within(user.RotateEvery, "rotateEvery", shortestEvery, longestEvery, "must be from 1h to 17520h, for example 720h")
		if len(problems) == 0 && every <= overlap {
			problems = append(problems, field.Invalid(at.Child("rotateEvery"), user.RotateEvery,
				fmt.Sprintf("must be longer than overlap, which is %s", cmp.Or(user.Overlap, defaultOverlap))))
		}
	}
	if user.PasswordSecret != nil {
		const says = "Mainstay does not make the password of passwordSecret: change it in that Secret"
		if user.RotateEvery != "" {
			problems = append(problems, field.Invalid(at.Child("rotateEvery"), database.Shown(user.RotateEvery), says))
		}
		if user.RotatedAt != nil {
			problems = append(problems, field.Invalid(at.Child("rotatedAt"), user.RotatedAt.UTC().Format(time.RFC3339), says))
		}
	}
	return problems
}

// waitsAgain is after how long it is looked again whether applications have the new password.
const waitsAgain = 30 * time.Second

// overlapOf returns how long the former password of a defaulted, valid user works.
func overlapOf(user databasev1.User) time.Duration {
	overlap, _ := time.ParseDuration(cmp.Or(user.Overlap, defaultOverlap)) // Validate has seen it.
	return overlap
}

// everyOf returns after how long the next password is made; 0 is never.
func everyOf(user databasev1.User) time.Duration {
	every, _ := time.ParseDuration(cmp.Or(user.RotateEvery, "0")) // Validate has seen it.
	return every
}

// Logins are the two roles of a user as the primary was to make them; the zero value of one that
// was not.
type Logins struct {
	First, Second contract.User
	// AreMade reports whether the primary has made them so.
	AreMade bool
}

// LoginsOf returns those of a user.
func (b Before) LoginsOf(user string) Logins {
	logins := Logins{AreMade: b.IsMade}
	for _, one := range b.Users {
		switch {
		case one.Name == user && one.As == "":
			logins.First = one
		case one.As == user:
			logins.Second = one
		}
	}
	return logins
}

// exists reports whether the user was to be made.
func (l Logins) exists() bool { return l.First.Name != "" }

// turn returns the role whose turn it is.
func (l Logins) turn(user string) string { return cmp.Or(l.First.Turn.Login, user) }

// Waiting returns the role whose turn it is not.
func (l Logins) Waiting(user string) string { return other(user, l.turn(user)) }

// IsOver reports whether the overlap of the last rotation is over, and the former password has not
// ended yet.
func (l Logins) IsOver(now time.Time) bool {
	return !l.First.Turn.Until.IsZero() && !now.Before(l.First.Turn.Until)
}

// verifier returns what the server keeps for one of the two; "" if it must not log in.
func (l Logins) verifier(user, login string) string {
	if login == user {
		return l.First.Verifier
	}
	return l.Second.Verifier
}

// other returns the role whose turn it is not.
func other(user, login string) string {
	if login == user {
		return postgres.SecondLogin(user)
	}
	return user
}

// IsDue reports whether a user is to get another password: one is asked for, or it is time, and the
// former one has ended. The primary has ended it by then: the next password is for the same role,
// which would go on otherwise with the sessions of the former one.
func IsDue(user databasev1.User, before Logins, now time.Time) bool {
	turn := before.First.Turn
	if user.PasswordSecret != nil || !before.exists() || !before.AreMade || !turn.Until.IsZero() {
		return false
	}
	asked := user.RotatedAt != nil && !user.RotatedAt.Time.Equal(turn.RotatedAt)
	every := everyOf(user)
	return asked || every > 0 && !turn.Since.IsZero() && !now.Before(turn.Since.Add(every))
}

// Named returns the role that a user's Secret names; the one whose turn it is, if it names neither.
// A password of spec.users[].passwordSecret is always that of the role with the user's name: who
// writes it there knows that name.
func (l Logins) Named(user databasev1.User, login string) string {
	switch {
	case user.PasswordSecret != nil:
		return user.Name
	case login == user.Name || login == postgres.SecondLogin(user.Name):
		return login
	}
	return l.turn(user.Name)
}

// Rotate decides with which of its two roles a user logs in, and what its Secret says:
//
//	the Secret                                  the role in it becomes       its password
//	has the password of the role that it names  that role                    as it is
//	has another one                             the one whose turn it isn't  that of the Secret
//	has a next one, which is not made yet       as it is                     as it is
//	has a next one, which the primary has made  the one whose turn it isn't  the next one
//
// So a password is in the server before a client can read it, unless a user has edited the Secret.
// A change of the role begins the overlap: the other role keeps its password until that is over and
// no application has it any more. Only an edit ends it earlier, because it needs the role, and a
// password of spec.users[].passwordSecret, which counts alone.
func (o ObservedUser) Rotate(user databasev1.User, before Logins, now time.Time) ObservedUser {
	now = now.UTC().Truncate(time.Second)
	former, named := before.turn(user.Name), before.Named(user, o.Login)
	next := before.rotating(user)
	if o.Problem != "" {
		o.Users = next.users()
		return o
	}
	waiting, given, isNew := "", o.Verifier, o.Verifier != before.verifier(user.Name, named)
	switch {
	case isNew && before.exists() && user.PasswordSecret == nil:
		named = other(user.Name, former)
	case isNew || o.Next == "" || !next.turn.Until.IsZero() || named != former || user.PasswordSecret != nil:
	case before.AreMade && before.verifier(user.Name, other(user.Name, named)) == o.NextVerifier:
		named, given, o.Password = other(user.Name, named), o.NextVerifier, o.Next
	default:
		waiting = other(user.Name, named)
		if isMadeNow := before.verifier(user.Name, waiting) != o.NextVerifier; isMadeNow && user.RotatedAt != nil {
			// A later time, which comes before clients get this password, asks for another one.
			next.turn.RotatedAt = user.RotatedAt.UTC()
		}
		next.gets(waiting, o.NextVerifier)
	}
	next.gets(named, given)
	if waiting == "" {
		o.Next = ""
	}
	o.Login = named
	switch {
	case named != former || !before.exists() && o.IsStored:
		next.begin(named, now)
	case !before.exists() || isNew || next.turn.Since.IsZero() && user.RotateEvery != "":
		next.turn.Since = now
	}
	if !before.exists() && user.RotatedAt != nil {
		next.turn.RotatedAt = user.RotatedAt.UTC()
	}
	isGiven := user.PasswordSecret != nil
	if isGiven && now.Before(next.turn.Until) {
		next.turn.Until = now // One that is given counts alone.
	}
	isOver := !next.turn.Until.IsZero() && !now.Before(next.turn.Until)
	if isOver && (o.WaitsFor == "" || isGiven) && before.AreMade {
		next.gets(other(user.Name, named), "")
		next.turn.Until = time.Time{}
	}
	o.Users = next.users()
	return o
}

// OnceWritten returns a user whose roles stay as they were before, if its Secret is there and lacks
// a password that [ObservedUser.Rotate] has decided on. The API server may refuse that change,
// which keeps nothing else from being written: the primary would make a password that no Secret
// has, and another one in each pass if it is random. What a user has written into the Secret counts
// at once; only for a password of spec.users[].passwordSecret is the role in it decisive as well.
func (o ObservedUser) OnceWritten(db *databasev1.PostgreSQL, observed Observed, user databasev1.User, before Logins) ObservedUser {
	object, _ := observed.Children.Get(Ref(db, "Secret", UserSecretName(db, user)))
	secret, isThere := object.(*corev1.Secret)
	if !isThere || o.Problem != "" {
		return o
	}
	lacks := func(key, want string) bool { return string(secret.Data[key]) != want }
	if !lacks(corev1.BasicAuthPasswordKey, o.Password) && (o.Next == "" || !lacks(NextPasswordKey, o.Next)) &&
		(user.PasswordSecret == nil || !lacks(corev1.BasicAuthUsernameKey, o.Login)) {
		return o
	}
	as := before.rotating(user)
	o.Users, o.IsUnwritten = as.users(), true
	return o
}

// rotating returns the two roles as they were to be made.
func (l Logins) rotating(user databasev1.User) rotating {
	return rotating{user: user, turn: l.First.Turn, first: l.First, second: l.Second}
}

// rotating are the two roles of a user, while it is decided what becomes of them.
type rotating struct {
	user          databasev1.User
	turn          contract.Turn
	first, second contract.User
}

// gets notes what the server is to keep for a role; "" if it must not log in.
func (r *rotating) gets(login, verifier string) {
	one := &r.first
	if login != r.user.Name {
		one = &r.second
	}
	*one = contract.User{Name: login, Verifier: verifier}
}

// begin notes whose turn begins, and that the other one goes on for a while. What the primary was
// to make may not be known any more: then the other one stays as it is.
func (r *rotating) begin(login string, now time.Time) {
	if former := &r.first; login != r.user.Name && former.Name == "" {
		*former = contract.User{Name: r.user.Name, IsUnknown: true}
	}
	if former := &r.second; login == r.user.Name && former.Name == "" {
		*former = contract.User{Name: postgres.SecondLogin(r.user.Name), IsUnknown: true}
	}
	r.turn.Login, r.turn.Since, r.turn.Until = login, now, now.Add(overlapOf(r.user))
	if login == r.user.Name {
		r.turn.Login = ""
	}
}

// users returns the roles, as the primary is to make them; the one with the user's name is first.
// There is none while there is no password.
func (r *rotating) users() []contract.User {
	if r.first.Name == "" {
		return nil
	}
	first := contract.User{Name: r.first.Name, Verifier: r.first.Verifier, IsUnknown: r.first.IsUnknown, Turn: r.turn}
	if r.second.Name == "" {
		return []contract.User{first}
	}
	return []contract.User{first, {
		Name: r.second.Name, As: r.user.Name, Verifier: r.second.Verifier, IsUnknown: r.second.IsUnknown,
	}}
}

// rotationStatus completes what the status says of a user.
func rotationStatus(one *databasev1.UserStatus, observed ObservedUser) {
	if len(observed.Users) == 0 {
		return
	}
	turn := observed.Users[0].Turn
	one.Login, one.FormerLogin, one.FormerUntil, one.Since, one.WaitsFor = cmp.Or(turn.Login, one.Name), "", nil, nil, ""
	if !turn.Since.IsZero() {
		one.Since = &metav1.Time{Time: turn.Since}
	}
	if !turn.Until.IsZero() {
		one.FormerLogin, one.FormerUntil = other(one.Name, one.Login), &metav1.Time{Time: turn.Until}
		one.WaitsFor = observed.WaitsFor
	}
}

// thePrimary is what the end of a former password waits for if no application has that any more. No
// application has a name with a space.
const thePrimary = "the primary"

// endStatus says what the end of a former password waits for, if it is time for it: the status is
// that of the last rotation that the primary has made.
func endStatus(one *databasev1.UserStatus, observed ObservedUser, now time.Time) {
	if one.FormerUntil != nil && !now.Before(one.FormerUntil.Time) {
		one.WaitsFor = cmp.Or(observed.WaitsFor, thePrimary)
	}
}

// stepAt returns when a user gets its next password, or loses its former one; zero is not by time.
func stepAt(user databasev1.User, observed ObservedUser) time.Time {
	if len(observed.Users) == 0 {
		return time.Time{}
	}
	turn := observed.Users[0].Turn
	if every := everyOf(user); turn.Until.IsZero() && every > 0 && !turn.Since.IsZero() {
		return turn.Since.Add(every)
	}
	return turn.Until
}

// rotationDue returns the first of these times of all users.
func rotationDue(db *databasev1.PostgreSQL, users map[string]ObservedUser) time.Time {
	var first time.Time
	for _, user := range db.Spec.Users {
		if at := stepAt(user, users[user.Name]); !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// nextRotation returns after how long a password is to be made, or ends; 0 is never.
func nextRotation(db *databasev1.PostgreSQL, observed Observed) time.Duration {
	var after time.Duration
	for _, user := range db.Spec.Users {
		at := stepAt(user, observed.Users[user.Name])
		left := at.Sub(observed.Now)
		switch {
		case at.IsZero():
		case left <= 0:
			after = requeue.Sooner(after, waitsAgain)
		default:
			after = requeue.Sooner(after, left+time.Second)
		}
	}
	return after
}
