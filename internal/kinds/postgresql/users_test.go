package postgresql

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// withUsers is a shop's user and database, and a reader.
func withUsers(spec *databasev1.PostgreSQLSpec) {
	spec.Users = []databasev1.User{
		{Name: "shop", ConnectionLimit: new(int32(20))}, {Name: "Reader", SecretName: "reader", Roles: []string{"shop", "pg_read_all_data"}},
	}
	spec.Databases = []databasev1.Database{{Name: "orders", Owner: "shop", Extensions: []string{"citext"}}, {Name: "app", Schemas: []string{"sales"}}}
}

// TestUsersAreChecked: what the schema does not see, or did not.
func TestUsersAreChecked(t *testing.T) {
	user := func(name string, change func(*databasev1.User)) func(*databasev1.PostgreSQLSpec) {
		return func(spec *databasev1.PostgreSQLSpec) {
			withUsers(spec)
			one := databasev1.User{Name: name}
			if change != nil {
				change(&one)
			}
			spec.Users = append(spec.Users, one)
		}
	}
	database := func(one databasev1.Database) func(*databasev1.PostgreSQLSpec) {
		return func(spec *databasev1.PostgreSQLSpec) {
			withUsers(spec)
			spec.Databases = append(spec.Databases, one)
		}
	}
	for want, change := range map[string]func(*databasev1.PostgreSQLSpec){
		"": withUsers,
		`spec.users[2].name: Invalid value: "a\"b": must be letters`: user(`a"b`, func(u *databasev1.User) {
			u.SecretName = "s"
		}),
		`spec.users[2].name: Invalid value: "a\nb": must be letters`: user("a\nb", func(u *databasev1.User) {
			u.SecretName = "s"
		}),
		`spec.users[2].name: Invalid value: "postgres": is the server's or Mainstay's own`: user("postgres", nil),
		`spec.users[2].name: Invalid value: "pg_x": is the server's or Mainstay's own`: user("pg_x", func(u *databasev1.User) {
			u.SecretName = "s"
		}),
		`spec.users[2].name: Invalid value: "app": always exists`: user("app", func(u *databasev1.User) {
			u.SecretName = "s"
		}),
		`spec.users[2].name: Duplicate value: "shop"`: user("shop", func(u *databasev1.User) {
			u.SecretName = "s"
		}),
		`spec.users[2].secretName: Invalid value: "db-shop": is the name of another Secret`: user("b", func(u *databasev1.User) {
			u.SecretName = "db-shop"
		}),
		`spec.users[2].secretName: Invalid value: "db-app": is the name of another Secret`: user("b", func(u *databasev1.User) {
			u.SecretName = "db-app"
		}),
		`spec.users[2].secretName: Required value: the default, db-b_c, is not a valid name of a Secret`: user("b_c", nil),
		`spec.users[2].secretName: Invalid value: "B c": must be the name of a Secret`: user("b", func(u *databasev1.User) {
			u.SecretName = "B c"
		}),
		`spec.users[2].connectionLimit: Invalid value: -1: must be from 0 to 10000`: user("b", func(u *databasev1.User) {
			u.ConnectionLimit = new(int32(-1))
		}),
		`spec.users[2].roles[0]: Invalid value: "pg_write_server_files": must be app, one of`: user("b", func(u *databasev1.User) {
			u.Roles = []string{"pg_write_server_files"}
		}),
		`spec.users[2].roles[0]: Invalid value: "pg_maintain": exists since PostgreSQL 17, and spec.version is 16`: func(spec *databasev1.PostgreSQLSpec) {
			spec.Version = "16"
			user("b", func(u *databasev1.User) { u.Roles = []string{"pg_maintain"} })(spec)
		},
		`spec.users[2].roles[0]: Invalid value: "b": a user can't be a member of itself`: user("b", func(u *databasev1.User) {
			u.Roles = []string{"b"}
		}),
		`spec.users[2].passwordSecret.key: Invalid value: "": must be a key of a Secret`: user("b", func(u *databasev1.User) {
			u.PasswordSecret = &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}
		}),
		`spec.databases[2].name: Invalid value: "template0": is the server's or Mainstay's own`: database(databasev1.Database{Name: "template0"}),
		`spec.databases[2].name: Invalid value: "1a": must be letters`:                          database(databasev1.Database{Name: "1a"}),
		`spec.databases[2].name: Duplicate value: "orders"`:                                     database(databasev1.Database{Name: "orders"}),
		`spec.databases[2].owner: Invalid value: "nobody": must be app or one of spec.users`:    database(databasev1.Database{Name: "b", Owner: "nobody"}),
		`spec.databases[2].extensions[0]: Invalid value: "a;b": must be letters`:                database(databasev1.Database{Name: "b", Extensions: []string{"a;b"}}),
		`spec.databases[2].schemas[0]: Invalid value: "pg_temp": is the server's own`:           database(databasev1.Database{Name: "b", Schemas: []string{"pg_temp"}}),
		`spec.databases[1].owner: Invalid value: "shop": the database app belongs to the user app`: func(spec *databasev1.PostgreSQLSpec) {
			withUsers(spec)
			spec.Databases[1].Owner = "shop"
		},
		`spec.databases[1].reclaim: Invalid value: "Delete": the database app always exists`: func(spec *databasev1.PostgreSQLSpec) {
			withUsers(spec)
			spec.Databases[1].Reclaim = databasev1.DeletionDelete
		},
		`spec.users: Too many: 1001: must have at most 1000 items`: func(spec *databasev1.PostgreSQLSpec) {
			spec.Users = make([]databasev1.User, 1001)
		},
		`spec.users: Invalid value: "1000 users": must be at most 850 KiB with their roles and spec.databases`: func(spec *databasev1.PostgreSQLSpec) {
			spec.Users = many(1000, 32)
		},
		`spec.databases: Too many: 101: must have at most 100 items`: func(spec *databasev1.PostgreSQLSpec) {
			spec.Databases = make([]databasev1.Database, 101)
		},
	} {
		got := ""
		if problems := Validate(newDatabase(change)); len(problems) > 0 {
			got = problems.ToAggregate().Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// many are so many users, each of which has so many roles.
func many(users, roles int) []databasev1.User {
	var all []databasev1.User
	for i := range users {
		user := databasev1.User{Name: fmt.Sprintf("%s_%d", strings.Repeat("u", 40), i), SecretName: fmt.Sprintf("s-%d", i)}
		for role := range min(roles, i) {
			user.Roles = append(user.Roles, all[role].Name)
		}
		all = append(all, user)
	}
	return all
}

// TestManyUsers: a thousand users with long names are accepted, and what the primary reads of them
// and of a hundred databases is as small as it may be, in the middle of the rotation of all.
func TestManyUsers(t *testing.T) {
	db := newDatabase()
	db.Spec.Users = many(1000, 1)
	users := map[string]ObservedUser{}
	verifier, err := postgres.Verifier("x")
	if err != nil {
		t.Fatal(err)
	}
	for i, user := range db.Spec.Users {
		if i < 100 {
			db.Spec.Databases = append(db.Spec.Databases, databasev1.Database{Name: user.Name, Owner: user.Name, Extensions: []string{"citext"}})
		}
		turn := contract.Turn{Login: postgres.SecondLogin(user.Name), Since: noon, Until: noon, RotatedAt: noon}
		users[user.Name] = ObservedUser{Users: []contract.User{
			{Name: user.Name, Verifier: verifier, Turn: turn}, {Name: turn.Login, As: user.Name, Verifier: verifier},
		}}
	}
	if problems := Validate(db); len(problems) > 0 {
		t.Fatal(problems)
	}
	content := NextProvisions(db, Before{}, users, func(string) bool { return false }).Encode()
	if bytes := provisionsBytes(db); len(content) > bytes {
		t.Errorf("they have %d bytes, and were estimated to have %d", len(content), bytes)
	}
	if parsed, err := contract.ParseProvisions(content); err != nil || len(parsed.Users) != 2000 {
		t.Errorf("got %d users, %v", len(parsed.Users), err)
	}
}

// observedUsers are the users of withUsers with passwords.
func observedUsers() map[string]ObservedUser {
	return map[string]ObservedUser{
		"shop":   {Password: `p:a\b`, Users: []contract.User{{Name: "shop", Verifier: "v1"}}},
		"Reader": {Password: "other", Users: []contract.User{{Name: "Reader", Verifier: "v2"}}},
	}
}

// TestNextProvisions: what the primary is to make, from one spec to the next.
func TestNextProvisions(t *testing.T) {
	db, none := newDatabase(withUsers), func(string) bool { return false }
	first := NextProvisions(db, Before{}, observedUsers(), none)
	want := contract.Provisions{
		Users: []contract.User{
			{Name: "shop", Verifier: "v1", ConnectionLimit: 20, Secret: "db-shop"},
			{Name: "Reader", Verifier: "v2", ConnectionLimit: -1, Roles: []string{"shop", "pg_read_all_data"}, Secret: "reader"},
		},
		Databases: []contract.Database{
			{Name: "orders", Owner: "shop", Extensions: []string{"citext"}}, {Name: "app", Schemas: []string{"sales"}},
		},
	}
	if !reflect.DeepEqual(first, want) {
		t.Errorf("got %+v, want %+v", first, want)
	}

	// A password that can't be used makes no user.
	users := observedUsers()
	users["shop"] = ObservedUser{Problem: "gone"}
	if kept := NextProvisions(db, Before{IsMade: true}, users, none); len(kept.Users) != 1 || kept.Users[0].Name != "Reader" {
		t.Errorf("got %+v", kept.Users)
	}

	// Databases are dropped only if that was their reclaim, and all is remembered until it is done.
	first.Databases[0].Delete = true
	first.Databases = append(first.Databases, contract.Database{Name: "kept"})
	empty := newDatabase()
	left := NextProvisions(empty, Before{Provisions: first, IsMade: true, Generation: 2}, nil, none)
	want = contract.Provisions{
		FormerUsers:   []contract.FormerUser{{Name: "shop", Secret: "db-shop"}, {Name: "Reader", Secret: "reader"}},
		DropDatabases: []string{"orders"},
	}
	if !reflect.DeepEqual(left, want) {
		t.Errorf("got %+v, want %+v", left, want)
	}
	// A spec between the two, which was never seen, may have said Retain.
	missed := NextProvisions(empty, Before{Provisions: first, IsMade: true, Generation: 1}, nil, none)
	if missed.DropDatabases != nil || len(missed.FormerUsers) != 2 {
		t.Errorf("after a spec that was not seen: got %+v", missed)
	}
	if again := NextProvisions(empty, Before{Provisions: left, Generation: 3}, nil, none); !reflect.DeepEqual(again, want) {
		t.Errorf("before it is done: got %+v, want %+v", again, want)
	}
	hasReader := func(name string) bool { return name == "reader" }
	again := NextProvisions(empty, Before{Provisions: left, IsMade: true}, nil, hasReader)
	if !reflect.DeepEqual(again.FormerUsers, want.FormerUsers[1:]) || again.DropDatabases != nil {
		t.Errorf("with a Secret left: got %+v", again)
	}
	if again := NextProvisions(empty, Before{Provisions: left, IsMade: true}, nil, none); !again.IsEmpty() {
		t.Errorf("when it is done: got %+v", again)
	}
	if again := NextProvisions(db, Before{Provisions: left}, observedUsers(), none); len(again.FormerUsers)+len(again.DropDatabases) > 0 {
		t.Errorf("back in the spec: got %+v", again)
	}
}

// TestNextProvisionsOfTurns: the second role of a user is a member of it, and has its limit; it is
// that of a former user only with the first.
func TestNextProvisionsOfTurns(t *testing.T) {
	db, none, users := newDatabase(withUsers), func(string) bool { return false }, observedUsers()
	users["shop"] = ObservedUser{Users: []contract.User{{Name: "shop", Verifier: "v1"}, {Name: "shop.2", As: "shop", Verifier: "v3"}}}
	two := NextProvisions(db, Before{}, users, none)
	if got := two.Users[1]; !reflect.DeepEqual(got, contract.User{
		Name: "shop.2", As: "shop", Verifier: "v3", Roles: []string{"shop"}, ConnectionLimit: 20, Secret: "db-shop",
	}) {
		t.Errorf("got %+v", got)
	}
	if again := NextProvisions(db, Before{Provisions: two, IsMade: true}, observedUsers(), none); len(again.FormerUsers) > 0 {
		t.Errorf("got %+v", again.FormerUsers)
	}
	if gone := NextProvisions(newDatabase(), Before{Provisions: two}, nil, none); len(gone.FormerUsers) != 3 {
		t.Errorf("got %+v", gone.FormerUsers)
	}
	// It is removed, and back before its roles are locked: its Secret is there again by then.
	gone := NextProvisions(newDatabase(), Before{Provisions: two}, nil, none)
	hasAll := func(string) bool { return true }
	for _, isMade := range []bool{false, true} {
		back := NextProvisions(db, Before{Provisions: gone, IsMade: isMade}, users, hasAll)
		if len(back.FormerUsers) > 0 || len(back.Users) != 3 {
			t.Errorf("back in the spec: got %+v", back)
		}
		// Without a password that can be used, it is no user yet.
		unusable := map[string]ObservedUser{"shop": {Problem: "gone"}, "Reader": users["Reader"]}
		if back := NextProvisions(db, Before{Provisions: gone, IsMade: isMade}, unusable, hasAll); len(back.FormerUsers) != 2 {
			t.Errorf("back without a password: got %+v", back)
		}
	}
}

// TestFormerSecrets: a Secret that no user has any more stays listed until it is gone: the pass
// that is to delete it may fail before that.
func TestFormerSecrets(t *testing.T) {
	db, renamed, taken, empty := newDatabase(withUsers), newDatabase(withUsers), newDatabase(withUsers), newDatabase()
	renamed.Spec.Users[1].SecretName = "readers"
	taken.Spec.Users[0].SecretName, taken.Spec.Users[1].SecretName = "reader", "readers"
	pooler := newDatabase(withUsers, pooled)
	users, all, none := observedUsers(), func(string) bool { return true }, func(string) bool { return false }
	made := func(provisions contract.Provisions) Before { return Before{Provisions: provisions, IsMade: true} }
	before := NextProvisions(db, Before{}, users, all)
	first := NextProvisions(renamed, made(before), users, all)
	left := NextProvisions(empty, made(before), nil, all)
	for name, test := range map[string]struct {
		db        *databasev1.PostgreSQL
		before    contract.Provisions
		hasSecret func(string) bool
		want      []string
	}{
		"nothing has changed":             {db, before, all, nil},
		"it has another name":             {renamed, before, all, []string{"reader"}},
		"the pass has failed":             {renamed, first, all, []string{"reader"}},
		"it is gone":                      {renamed, first, none, nil},
		"it has the former name again":    {db, first, all, []string{"readers"}},
		"another user has it":             {taken, first, all, []string{"db-shop"}},
		"its user is gone, too":           {empty, first, all, []string{"reader"}},
		"nothing else is left":            {empty, contract.Provisions{FormerSecrets: []string{"reader"}}, all, []string{"reader"}},
		"its user is a former one":        {empty, before, all, nil},
		"that user is back with another":  {renamed, left, all, []string{"reader"}},
		"it is Mainstay's own by now":     {pooler, contract.Provisions{FormerSecrets: []string{"db-pooler"}}, all, nil},
		"it was Mainstay's own meanwhile": {db, contract.Provisions{FormerSecrets: []string{"db-pooler"}}, all, []string{"db-pooler"}},
	} {
		next := NextProvisions(test.db, made(test.before), users, test.hasSecret)
		if !slices.Equal(next.FormerSecrets, test.want) || next.IsEmpty() {
			t.Errorf("%s: got %q of %+v", name, next.FormerSecrets, next)
		}
	}
}

// TestUserSecret: every form of address leads to the first database that the user owns.
func TestUserSecret(t *testing.T) {
	db := newDatabase(withUsers)
	observed := empty()
	observed.Users = observedUsers()
	secret := userSecret(db, observed, db.Spec.Users[0])
	for key, want := range map[string]string{
		"username": "shop", "password": `p:a\b`, "host": "db-rw.shop.svc", "port": "5432", "dbname": "orders", "ca.crt": "authority",
		"uri":      `postgresql://shop:p%3Aa%5Cb@db-rw.shop.svc:5432/orders?sslmode=require`,
		"jdbc-uri": `jdbc:postgresql://db-rw.shop.svc:5432/orders?password=p%3Aa%5Cb&sslmode=require&user=shop`,
		"pgpass":   "db-rw.shop.svc:5432:orders:shop:p\\:a\\\\b\n",
	} {
		if got := string(secret.Data[key]); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	if reader := userSecret(db, observed, db.Spec.Users[1]); reader.Name != "reader" || string(reader.Data["dbname"]) != "app" {
		t.Errorf("got %s with %s", reader.Name, reader.Data["dbname"])
	}
}

// TestProvisionsInOrder: a user's Secret comes before what the primary reads, and that before the
// settings with its revision; a Secret whose password can't be used is left alone.
func TestProvisionsInOrder(t *testing.T) {
	db := newDatabase(withUsers)
	observed := running(db, 1)
	observed.Users = observedUsers()
	observed.Users["Reader"] = ObservedUser{Problem: "the Secret reader has no key password"}
	observed.Provisions = NextProvisions(db, Before{}, observed.Users, func(string) bool { return false }).Encode()
	wanted := Desired(db, observed, Decide(db, observed))
	at := func(name string) int {
		return slices.IndexFunc(wanted.Children, func(child plan.Child) bool { return child.Object.GetName() == name })
	}
	if order := []int{at("db-shop"), at("db-provisions"), at("db-config")}; order[0] < 0 || !slices.IsSorted(order) {
		t.Errorf("they are at %v", order)
	}
	if at("reader") >= 0 || !slices.Contains(wanted.Keep, Ref(db, "Secret", "reader")) {
		t.Error("the Secret without a usable password is not left alone")
	}
	config := wanted.Children[at("db-config")].Object.(*corev1.ConfigMap) //nolint:forcetypeassert // by its name
	parsed, err := contract.ParseSettings(config.Data[contract.SettingsKey])
	if err != nil || parsed.Provisions != contract.ProvisionsRevision(observed.Provisions) {
		t.Errorf("the settings say %q, %v", parsed.Provisions, err)
	}
}

// TestProvisioningIsReported: Ready waits until the primary has made what the spec says.
func TestProvisioningIsReported(t *testing.T) {
	db := newDatabase(withUsers)
	observed := running(db, 1)
	observed.Users, observed.Provisions = observedUsers(), []byte(`{"users":[]}`)
	observed.Pods[0] = newPod("db-0", contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true})
	ready := func() (string, string) {
		status, _ := Status(db, observed, Decide(db, observed), plan.Result{})
		for _, one := range status.Conditions {
			if one.Type == databasev1.ConditionReady {
				return string(one.Status), one.Reason
			}
		}
		return "", ""
	}
	if status, reason := ready(); status != "False" || reason != databasev1.ReasonProvisioning {
		t.Errorf("before: got %s, %s", status, reason)
	}
	observed.Pods[0] = newPod("db-0", contract.Report{
		Role: contract.Primary, State: "Leading", Term: 4, Provided: true, Provisions: contract.ProvisionsRevision(observed.Provisions),
	})
	if status, reason := ready(); status != "True" || reason != databasev1.ReasonAvailable {
		t.Errorf("after: got %s, %s", status, reason)
	}
	observed.Users["shop"] = ObservedUser{Problem: "the Secret x does not exist"}
	if status, reason := ready(); status != "False" || reason != databasev1.ReasonSecretNotUsable {
		t.Errorf("without a password: got %s, %s", status, reason)
	}
}

// TestProvisionsTooLong: what the API server would refuse is not written, and neither are Secrets
// of users; Ready says why, and the settings keep the revision of before. SQL takes its own length.
func TestProvisionsTooLong(t *testing.T) {
	db, none := newDatabase(withUsers), func(string) bool { return false }
	observed := running(db, 1)
	observed.Pods[0] = newPod("db-0", contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true})
	observed.Users = observedUsers()
	before := Before{Provisions: NextProvisions(db, Before{}, observed.Users, none), IsMade: true}
	stored := before.Encode()
	next := NextProvisions(db, before, observed.Users, none)
	next.InitSQL = []contract.Statement{{SQL: strings.Repeat("<&>", maxInitBytes/3)}}
	if made := observed.Checked(db, next, before, stored); made.ProvisionsProblem != "" || len(made.Provisions) > maxInitBytes+2000 {
		t.Errorf("SQL of %d bytes: got %d bytes, %s", maxInitBytes, len(made.Provisions), made.ProvisionsProblem)
	}
	for range 2000 {
		next.FormerUsers = append(next.FormerUsers, contract.FormerUser{Name: strings.Repeat("u", 63), Secret: strings.Repeat("s", 450)})
	}
	made := observed.Checked(db, next, before, stored)
	if !strings.Contains(made.ProvisionsProblem, "with 2000 former users, are 1") || string(made.Provisions) != string(stored) {
		t.Fatalf("got %q", made.ProvisionsProblem)
	}
	wanted := Desired(db, made, Decide(db, made))
	for _, child := range wanted.Children {
		switch name := child.Object.GetName(); name {
		case "db-provisions", "db-shop", "reader":
			t.Errorf("%s is written", name)
		case "db-config":
			if slices.Contains(child.Needs, Ref(db, "Secret", "db-provisions")) {
				t.Error("the settings wait for a Secret that is not written")
			}
		}
	}
	for _, name := range []string{"db-provisions", "db-shop", "reader"} {
		if !slices.Contains(wanted.Keep, Ref(db, "Secret", name)) {
			t.Errorf("%s is removed", name)
		}
	}
	if users := made.Users["shop"].Users; len(users) != 1 || users[0].Verifier != "v1" {
		t.Errorf("the user shop became %+v", users)
	}
	status, _ := Status(db, made, Decide(db, made), plan.Result{})
	for _, one := range status.Conditions {
		if one.Type == databasev1.ConditionReady && (one.Reason != databasev1.ReasonSecretNotUsable || !strings.Contains(one.Message, "at most 1000 KiB")) {
			t.Errorf("got %+v", one)
		}
	}
	// One that was written longer is not lost.
	before.FormerUsers = next.FormerUsers[:1930]
	long := before.Encode()
	if read, err := contract.ParseProvisions(long); len(long) <= contract.MaxProvisionsBytes || err != nil || len(read.FormerUsers) != 1930 {
		t.Errorf("of %d bytes: %v", len(long), err)
	}
}

// TestLongestProvisions: 1,000 KiB are written, and no byte more.
func TestLongestProvisions(t *testing.T) {
	db := newDatabase(withUsers)
	for length, want := range map[int]bool{1000 << 10: true, 1000<<10 + 1: false} {
		next := contract.Provisions{InitSQL: []contract.Statement{{SQL: "x"}}}
		next.InitSQL[0].SQL += strings.Repeat("x", length-len(next.Encode()))
		made := Observed{}.Checked(db, next, Before{}, []byte("before"))
		if isWritten := len(made.Provisions) == length && made.ProvisionsProblem == ""; isWritten != want {
			t.Errorf("%d bytes are written: %t, %s", length, isWritten, made.ProvisionsProblem)
		}
	}
}
