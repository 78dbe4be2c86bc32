package postgresql

import (
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

var (
	hourAgo = noon.Add(-time.Hour)
	// begun is the turn of the second role, which begins at noon, and is over an hour ago.
	begun     = contract.Turn{Login: "shop.2", Since: noon, Until: noon.Add(time.Hour)}
	over      = contract.Turn{Login: "shop.2", Since: hourAgo, Until: noon}
	withGiven = databasev1.User{PasswordSecret: &corev1.SecretKeySelector{}}
)

func first(verifier string, turn contract.Turn) contract.User {
	return contract.User{Name: "shop", Verifier: verifier, Turn: turn}
}

func second(verifier string) contract.User {
	return contract.User{Name: "shop.2", As: "shop", Verifier: verifier}
}

func since(at time.Time) contract.Turn { return contract.Turn{Since: at} }

// declaredMade are roles that the primary has made, and declaredOnly those that it is to make.
func declaredMade(users ...contract.User) Logins {
	return Before{Provisions: contract.Provisions{Users: users}, IsMade: true}.LoginsOf("shop")
}

func declaredOnly(users ...contract.User) Logins {
	return Before{Provisions: contract.Provisions{Users: users}}.LoginsOf("shop")
}

// is what the Secret says, and next the same with a password that waits.
func is(login, password string) ObservedUser {
	return ObservedUser{Login: login, IsStored: true, Password: password, Verifier: "v-" + password}
}

func next(one ObservedUser) ObservedUser {
	one.Next, one.NextVerifier = "new", "v-new"
	return one
}

func waiting(one ObservedUser) ObservedUser {
	one.WaitsFor = "web"
	return one
}

// rotation is what becomes of a user.
type rotation struct {
	user     databasev1.User
	before   Logins
	observed ObservedUser
	want     string // the Secret: role, password, next password
	users    []contract.User
}

// TestRotate: what becomes of the roles and the Secret of a user, from each state in which a crash
// can leave them.
func TestRotate(t *testing.T) {
	for _, all := range []map[string]rotation{beginnings(), ends(), edits()} {
		for name, test := range all {
			test.user.Name = "shop"
			got := test.observed.Rotate(test.user, test.before, noon.Add(time.Millisecond))
			if is := strings.Join([]string{got.Login, got.Password, got.Next}, " "); is != test.want {
				t.Errorf("%s: the Secret has %q, want %q", name, is, test.want)
			}
			if !reflect.DeepEqual(got.Users, test.users) {
				t.Errorf("%s: got %+v, want %+v", name, got.Users, test.users)
			}
		}
	}
}

// beginnings are new users, and those that get another password.
func beginnings() map[string]rotation {
	return map[string]rotation{
		"a new user": {
			before: declaredOnly(), observed: ObservedUser{Password: "a", Verifier: "v-a"}, want: "shop a ",
			users: []contract.User{first("v-a", since(noon))},
		},
		"a new user with an old time": {
			user: databasev1.User{RotatedAt: new(metav1.NewTime(hourAgo))}, before: declaredOnly(),
			observed: ObservedUser{Password: "a", Verifier: "v-a"}, want: "shop a ",
			users: []contract.User{first("v-a", contract.Turn{Since: noon, RotatedAt: hourAgo})},
		},
		"one that is as it was": {
			before: declaredMade(first("v-a", contract.Turn{})), observed: is("shop", "a"), want: "shop a ",
			users: []contract.User{first("v-a", contract.Turn{})},
		},
		"a next password": {
			before: declaredMade(first("v-a", since(hourAgo))), observed: next(is("shop", "a")), want: "shop a new",
			users: []contract.User{first("v-a", since(hourAgo)), second("v-new")},
		},
		"a next password, not made yet": {
			before: declaredOnly(first("v-a", since(hourAgo)), second("v-new")), observed: next(is("shop", "a")), want: "shop a new",
			users: []contract.User{first("v-a", since(hourAgo)), second("v-new")},
		},
		"a next password, of which the primary has made another one": {
			before: declaredMade(first("v-a", since(hourAgo)), second("")), observed: next(is("shop", "a")), want: "shop a new",
			users: []contract.User{first("v-a", since(hourAgo)), second("v-new")},
		},
		"a next password, for a time": {
			user:   databasev1.User{RotatedAt: new(metav1.NewTime(noon))},
			before: declaredMade(first("v-a", since(hourAgo))), observed: next(is("shop", "a")), want: "shop a new",
			users: []contract.User{first("v-a", contract.Turn{Since: hourAgo, RotatedAt: noon}), second("v-new")},
		},
		"another time while the next password waits": {
			user:   databasev1.User{RotatedAt: new(metav1.NewTime(noon))},
			before: declaredOnly(first("v-a", contract.Turn{Since: hourAgo, RotatedAt: hourAgo}), second("v-new")), observed: next(is("shop", "a")),
			want:  "shop a new",
			users: []contract.User{first("v-a", contract.Turn{Since: hourAgo, RotatedAt: hourAgo}), second("v-new")},
		},
		"another time when the next password is made": {
			user:   databasev1.User{RotatedAt: new(metav1.NewTime(noon))},
			before: declaredMade(first("v-a", contract.Turn{Since: hourAgo, RotatedAt: hourAgo}), second("v-new")), observed: next(is("shop", "a")),
			want: "shop.2 new ",
			users: []contract.User{
				first("v-a", contract.Turn{Login: "shop.2", Since: noon, Until: noon.Add(time.Hour), RotatedAt: hourAgo}), second("v-new"),
			},
		},
		"a next password that is made": {
			before: declaredMade(first("v-a", since(hourAgo)), second("v-new")), observed: next(is("shop", "a")), want: "shop.2 new ",
			users: []contract.User{first("v-a", begun), second("v-new")},
		},
		"the Secret was written, and nothing else": {
			before: declaredMade(first("v-a", since(hourAgo)), second("v-new")), observed: is("shop.2", "new"), want: "shop.2 new ",
			users: []contract.User{first("v-a", begun), second("v-new")},
		},
	}
}

// ends are users whose former password ends.
func ends() map[string]rotation {
	return map[string]rotation{
		"within the overlap": {
			before:   declaredMade(first("v-a", contract.Turn{Login: "shop.2", Since: hourAgo, Until: noon.Add(time.Second)}), second("v-new")),
			observed: next(is("shop.2", "new")), want: "shop.2 new ",
			users: []contract.User{first("v-a", contract.Turn{Login: "shop.2", Since: hourAgo, Until: noon.Add(time.Second)}), second("v-new")},
		},
		"after the overlap": {
			before:   declaredMade(first("v-a", over), second("v-new")),
			observed: is("shop.2", "new"), want: "shop.2 new ",
			users: []contract.User{first("", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-new")},
		},
		"after the overlap, while an application has it still": {
			before:   declaredMade(first("v-a", over), second("v-new")),
			observed: waiting(is("shop.2", "new")), want: "shop.2 new ",
			users: []contract.User{first("v-a", over), second("v-new")},
		},
		"after the overlap, while the primary has not made the change": {
			before:   declaredOnly(first("v-a", over), second("v-new")),
			observed: is("shop.2", "new"), want: "shop.2 new ",
			users: []contract.User{first("v-a", over), second("v-new")},
		},
		"back to the first": {
			before:   declaredMade(first("v-new", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-b")),
			observed: next(is("shop.2", "b")),
			want:     "shop new ",
			users:    []contract.User{first("v-new", contract.Turn{Since: noon, Until: noon.Add(time.Hour)}), second("v-b")},
		},
	}
}

// edits are users whose Secret was changed, or is lost.
func edits() map[string]rotation {
	return map[string]rotation{
		"an edit": {
			before: declaredMade(first("v-a", since(hourAgo))), observed: is("shop", "mine"), want: "shop.2 mine ",
			users: []contract.User{first("v-a", begun), second("v-mine")},
		},
		"an edit while a next password waits": {
			before: declaredMade(first("v-a", since(hourAgo)), second("v-new")), observed: next(is("shop", "mine")), want: "shop.2 mine ",
			users: []contract.User{first("v-a", begun), second("v-mine")},
		},
		"an edit within the overlap": {
			before:   declaredMade(first("v-a", contract.Turn{Login: "shop.2", Since: hourAgo, Until: noon.Add(time.Minute)}), second("v-b")),
			observed: is("shop.2", "mine"), want: "shop mine ",
			users: []contract.User{first("v-mine", contract.Turn{Since: noon, Until: noon.Add(time.Hour)}), second("v-b")},
		},
		"an edit of the name": {
			before: declaredMade(first("v-a", since(hourAgo))), observed: is("root", "a"), want: "shop a ",
			users: []contract.User{first("v-a", since(hourAgo))},
		},
		"what the primary was to make is lost": {
			before: declaredOnly(), observed: is("shop.2", "b"), want: "shop.2 b ",
			users: []contract.User{{Name: "shop", IsUnknown: true, Turn: begun}, second("v-b")},
		},
		"the same, of the first": {
			before: declaredOnly(), observed: is("shop", "a"), want: "shop a ",
			users: []contract.User{
				first("v-a", contract.Turn{Since: noon, Until: noon.Add(time.Hour)}), {Name: "shop.2", As: "shop", IsUnknown: true},
			},
		},
		"after the overlap of what is not known": {
			before:   declaredMade(contract.User{Name: "shop", IsUnknown: true, Turn: over}, second("v-b")),
			observed: is("shop.2", "b"), want: "shop.2 b ",
			users: []contract.User{first("", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-b")},
		},
		"a Secret that can't be used": {
			before: declaredMade(first("v-a", begun), second("v-b")), observed: ObservedUser{Problem: "gone"}, want: "  ",
			users: []contract.User{first("v-a", begun), second("v-b")},
		},
		"a given password": {
			user: withGiven, before: declaredMade(first("v-a", since(hourAgo))),
			observed: ObservedUser{Login: "shop", Password: "mine", Verifier: "v-mine"}, want: "shop mine ",
			users: []contract.User{first("v-mine", since(noon))},
		},
		"a given password after a rotation": {
			user: withGiven, before: declaredMade(first("", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-b")),
			observed: ObservedUser{Login: "shop.2", Password: "mine", Verifier: "v-mine"}, want: "shop mine ",
			users: []contract.User{first("v-mine", since(noon)), second("")},
		},
		"a given password within an overlap": {
			user: withGiven, before: declaredMade(first("v-a", contract.Turn{Since: hourAgo, Until: noon.Add(time.Minute)}), second("v-b")),
			observed: waiting(ObservedUser{Login: "shop", Password: "mine", Verifier: "v-mine"}), want: "shop mine ",
			users: []contract.User{first("v-mine", since(noon)), second("")},
		},
		"a given password after a rotation that is not made yet": {
			user: withGiven, before: declaredOnly(first("", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-b")),
			observed: ObservedUser{Login: "shop.2", Password: "mine", Verifier: "v-mine"}, want: "shop mine ",
			users: []contract.User{first("v-mine", contract.Turn{Since: noon, Until: noon}), second("v-b")},
		},
	}
}

// TestOnceWritten: while the Secret of a user lacks a password that was decided on, its roles stay
// as they were, and so does the time of the spec that asked for it. The API server may refuse each
// change of the Secret.
func TestOnceWritten(t *testing.T) {
	db := newDatabase(withUsers)
	old, both := []contract.User{first("v-a", since(hourAgo))}, []contract.User{first("v-a", since(hourAgo)), second("v-new")}
	later := []contract.User{first("", contract.Turn{Login: "shop.2", Since: hourAgo}), second("v-b")}
	asks := databasev1.User{RotatedAt: new(metav1.NewTime(noon))}
	for name, test := range map[string]struct {
		user        databasev1.User
		before      []contract.User
		observed    ObservedUser
		secret      []string // role, password, next password; nil if there is none
		want        []contract.User
		isUnwritten bool
	}{
		"there is no Secret": {
			observed: ObservedUser{Password: "a", Verifier: "v-a"}, want: []contract.User{first("v-a", since(noon))},
		},
		"a Secret that has lost its data": {
			before: old, observed: ObservedUser{Password: "b", Verifier: "v-b"}, secret: []string{"", "", ""}, want: old, isUnwritten: true,
		},
		"a next password that was drawn": {
			user: asks, before: old, observed: next(is("shop", "a")), secret: []string{"shop", "a", ""}, want: old, isUnwritten: true,
		},
		"a next password that was drawn again": {
			user: asks, before: old, observed: next(is("shop", "a")), secret: []string{"shop", "a", "former"}, want: old, isUnwritten: true,
		},
		"a next password that the Secret has": {
			user: asks, before: old, observed: next(is("shop", "a")), secret: []string{"shop", "a", "new"},
			want: []contract.User{first("v-a", contract.Turn{Since: hourAgo, RotatedAt: noon}), second("v-new")},
		},
		"a next password that is made": {
			before: both, observed: next(is("shop", "a")), secret: []string{"shop", "a", "new"}, want: both, isUnwritten: true,
		},
		"the Secret has the password that is made": {
			before: both, observed: is("shop.2", "new"), secret: []string{"shop.2", "new", ""},
			want: []contract.User{first("v-a", begun), second("v-new")},
		},
		"a given password": {
			user: withGiven, before: old, observed: ObservedUser{Login: "shop", Password: "mine", Verifier: "v-mine"},
			secret: []string{"shop", "a", ""}, want: old, isUnwritten: true,
		},
		"a given password, which the other role has": {
			user: withGiven, before: later, observed: ObservedUser{Login: "shop.2", Password: "b", Verifier: "v-b"},
			secret: []string{"shop.2", "b", ""}, want: later, isUnwritten: true,
		},
		"a given password that the Secret has": {
			user: withGiven, before: old, observed: ObservedUser{Login: "shop", Password: "mine", Verifier: "v-mine"},
			secret: []string{"shop", "mine", ""}, want: []contract.User{first("v-mine", since(noon))},
		},
		"an edit": {
			before: old, observed: is("shop", "mine"), secret: []string{"shop", "mine", ""},
			want: []contract.User{first("v-a", begun), second("v-mine")},
		},
		"an edit while a next password waits": {
			before: both, observed: next(is("shop", "mine")), secret: []string{"shop", "mine", "new"},
			want: []contract.User{first("v-a", begun), second("v-mine")},
		},
	} {
		observed, before := empty(), declaredMade(test.before...)
		test.user.Name = "shop"
		if test.secret != nil {
			observed.Children[Ref(db, "Secret", "db-shop")] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{Data: map[string][]byte{
				"username": []byte(test.secret[0]), "password": []byte(test.secret[1]), NextPasswordKey: []byte(test.secret[2]),
			}}}
		}
		got := test.observed.Rotate(test.user, before, noon).OnceWritten(db, observed, test.user, before)
		if !reflect.DeepEqual(got.Users, test.want) || got.IsUnwritten != test.isUnwritten {
			t.Errorf("%s: got %t, %+v, want %+v", name, got.IsUnwritten, got.Users, test.want)
		}
	}
}

// TestSecretIsWrittenFirst: once the Secret of a user was written, the rest follows at once; a
// refusal is not tried again and again. Until then, the status says of the user what it said.
func TestSecretIsWrittenFirst(t *testing.T) {
	db := newDatabase(withUsers)
	db.Status.Users = []databasev1.UserStatus{{Name: "shop", SecretName: "db-shop", Revision: "r1"}}
	observed, ref := running(db, 1), Ref(db, "Secret", "db-shop")
	for _, name := range []string{"db-metrics", "db-shop"} {
		observed.Children[Ref(db, "Secret", name)] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte("a")},
		}}
	}
	observed.Provisions = []byte("{}")
	observed = says(observed, 0, contract.Report{
		Role: contract.Primary, State: "Leading", Provisions: contract.ProvisionsRevision(observed.Provisions),
	})
	observed.Users = map[string]ObservedUser{"shop": {Login: "shop", Password: "b", IsUnwritten: true}}
	for want, result := range map[time.Duration]plan.Result{
		time.Second: {Changes: []plan.Change{{Ref: ref, Operation: plan.Updated}}}, 0: {Refusals: map[plan.Ref]string{ref: "immutable"}},
	} {
		status, after := Status(db, observed, Decision{Replicas: 1}, result)
		if (after == time.Second) != (want == time.Second) {
			t.Errorf("it is looked again after %s, want %s", after, want)
		}
		if one := status.Users[0]; one.Revision != "r1" || one.Blocked != (want == 0) {
			t.Errorf("the status says %+v", one)
		}
	}
}

// TestRotationIsDue: by time, and by each new time of the spec, once; never while the former
// password still works.
func TestRotationIsDue(t *testing.T) {
	user := func(every string, at *metav1.Time) databasev1.User {
		return databasev1.User{Name: "shop", RotateEvery: every, RotatedAt: at}
	}
	before := func(turn contract.Turn) Logins {
		return Logins{First: contract.User{Name: "shop", Verifier: "v", Turn: turn}, AreMade: true}
	}
	ago, asked := noon.Add(-24*time.Hour), metav1.NewTime(noon)
	for name, test := range map[string]struct {
		user   databasev1.User
		before Logins
		want   bool
	}{
		"nothing asked":            {user("", nil), before(contract.Turn{Since: ago}), false},
		"too early":                {user("25h", nil), before(contract.Turn{Since: ago}), false},
		"it is time":               {user("24h", nil), before(contract.Turn{Since: ago}), true},
		"since when is not known":  {user("24h", nil), before(contract.Turn{}), false},
		"asked":                    {user("", &asked), before(contract.Turn{Since: ago}), true},
		"asked and done":           {user("", &asked), before(contract.Turn{Since: ago, RotatedAt: noon}), false},
		"asked again":              {user("", &asked), before(contract.Turn{Since: ago, RotatedAt: ago}), true},
		"within the overlap":       {user("24h", &asked), before(contract.Turn{Since: ago, Until: noon}), false},
		"a user that is not there": {user("24h", &asked), Logins{AreMade: true}, false},
		"not made yet":             {user("24h", &asked), Logins{First: before(contract.Turn{Since: ago}).First}, false},
		"a given password": {databasev1.User{Name: "shop", RotatedAt: &asked, PasswordSecret: &corev1.SecretKeySelector{}},
			before(contract.Turn{Since: ago}), false},
	} {
		if got := IsDue(test.user, test.before, noon); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestRotationDue: the primary is told when the first user gets its next password, or loses its
// former one.
func TestRotationDue(t *testing.T) {
	db := newDatabase(func(spec *databasev1.PostgreSQLSpec) {
		spec.Users = []databasev1.User{{Name: "a", RotateEvery: "2h"}, {Name: "b", RotateEvery: "24h"}, {Name: "c"}}
	})
	for name, test := range map[string]struct {
		turns []contract.Turn
		want  time.Time
	}{
		"nothing is known":            {nil, time.Time{}},
		"one gets its next":           {[]contract.Turn{since(noon), since(noon), since(hourAgo)}, noon.Add(2 * time.Hour)},
		"it is overdue":               {[]contract.Turn{since(noon), since(noon.Add(-48 * time.Hour))}, noon.Add(-24 * time.Hour)},
		"one loses its former":        {[]contract.Turn{since(noon), since(noon), begun}, begun.Until},
		"it has to before it rotates": {[]contract.Turn{{Since: hourAgo, Until: noon}}, noon},
		"since when is not known":     {[]contract.Turn{{}}, time.Time{}},
	} {
		users := map[string]ObservedUser{}
		for i, turn := range test.turns {
			users[db.Spec.Users[i].Name] = ObservedUser{Users: []contract.User{{Name: db.Spec.Users[i].Name, Turn: turn}}}
		}
		if got := NextProvisions(db, Before{}, users, nil).RotationDue; !got.Equal(test.want) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// TestRotationIsReported: the status says whose turn it is, since when, and until when the former
// password works; the object is looked at when that is over, and when the next one is due.
func TestRotationIsReported(t *testing.T) {
	db := newDatabase(withUsers)
	db.Spec.Users[0].RotateEvery = "24h"
	observed := empty()
	of := func(turn contract.Turn, waitsFor string) (databasev1.UserStatus, time.Duration) {
		one := databasev1.UserStatus{Name: "shop", FormerLogin: "old", WaitsFor: "old"}
		user := ObservedUser{Users: []contract.User{{Name: "shop", Turn: turn}}, WaitsFor: waitsFor}
		observed.Users = map[string]ObservedUser{"shop": user}
		rotationStatus(&one, user)
		return one, nextRotation(db, observed)
	}
	until := metav1.NewTime(noon.Add(time.Hour))
	got, after := of(contract.Turn{Login: "shop.2", Since: noon, Until: until.Time}, "web")
	want := databasev1.UserStatus{
		Name: "shop", Login: "shop.2", Since: new(metav1.NewTime(noon)), FormerLogin: "shop", FormerUntil: &until, WaitsFor: "web",
	}
	if !reflect.DeepEqual(got, want) || after != time.Hour+time.Second {
		t.Errorf("within the overlap: got %+v, after %s", got, after)
	}
	if _, after := of(contract.Turn{Login: "shop.2", Since: noon, Until: noon}, "web"); after != waitsAgain {
		t.Errorf("while an application has the former one: after %s", after)
	}
	got, after = of(contract.Turn{Since: noon}, "")
	if want := (databasev1.UserStatus{Name: "shop", Login: "shop", Since: new(metav1.NewTime(noon))}); !reflect.DeepEqual(got, want) ||
		after != 24*time.Hour+time.Second {
		t.Errorf("after it: got %+v, after %s", got, after)
	}
	if got, after := of(contract.Turn{}, ""); got.Since != nil || after != 0 {
		t.Errorf("not known since when: got %+v, after %s", got, after)
	}
}

// TestEndWaits: the status says what the end of a former password waits for, also while the primary
// has not made what was last declared.
func TestEndWaits(t *testing.T) {
	db, observed := newDatabase(withUsers), empty()
	observed.Now, observed.Provisions = noon, []byte("not made")
	until := func(at time.Time, waitsFor string) string {
		former := metav1.NewTime(at)
		db.Status.Users = []databasev1.UserStatus{{Name: "shop", Revision: "r1", FormerLogin: "shop", FormerUntil: &former, WaitsFor: "old"}}
		observed.Users = map[string]ObservedUser{"shop": {WaitsFor: waitsFor}}
		return madeUsers(db, observed, plan.Result{})[0].WaitsFor
	}
	if got := until(noon, ""); got != "the primary" {
		t.Errorf("when it is over: got %q", got)
	}
	if got := until(noon, "web"); got != "web" {
		t.Errorf("while an application has it: got %q", got)
	}
	if got := until(noon.Add(time.Second), ""); got != "old" {
		t.Errorf("before: got %q", got)
	}
}

// TestNextPasswordInSecret: it is there only while it waits for the primary.
func TestNextPasswordInSecret(t *testing.T) {
	db, observed := newDatabase(withUsers), empty()
	observed.Users = map[string]ObservedUser{"shop": {Login: "shop.2", Password: "a", Next: "b"}}
	secret := userSecret(db, observed, db.Spec.Users[0])
	if string(secret.Data[NextPasswordKey]) != "b" || string(secret.Data["username"]) != "shop.2" ||
		!strings.HasPrefix(string(secret.Data["uri"]), "postgresql://shop.2:a@") {
		t.Errorf("got %s", secret.Data)
	}
	observed.Users["shop"] = ObservedUser{Login: "shop", Password: "b"}
	if data := userSecret(db, observed, db.Spec.Users[0]).Data; data[NextPasswordKey] != nil || string(data["username"]) != "shop" {
		t.Errorf("got %s", data)
	}
}
