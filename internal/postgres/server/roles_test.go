//go:build instances

package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestTurns: the second role of a user acts as the user, with the user's settings, and what it owns
// becomes the user's. When either role may no longer log in, its sessions are ended. Roles of
// others are not used.
func TestTurns(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	own := filepath.Join(filepath.Dir(a.run), "certificates")
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	first := contract.User{Name: "shop", Verifier: verifierOf(t, "one"), ConnectionLimit: -1, Roles: []string{"pg_monitor"}}
	second := contract.User{Name: "shop.2", As: "shop", Verifier: verifierOf(t, "two"), ConnectionLimit: -1, Roles: []string{"shop"}}
	declare := func(users ...contract.User) error {
		_, err := a.try(Call{Do: "declared", Application: app, Provisions: contract.Provisions{
			Users: users, Databases: []contract.Database{{Name: "orders", Owner: "shop"}},
		}})
		return err
	}
	check(t, declare(first))
	for _, setting := range []string{
		`search_path = '$user', 'a "b"', public`, "statement_timeout = '77s'", "synchronous_commit = on", `"my.own" = 'x''y'`,
	} {
		_, err := a.session().Exec(t.Context(), "ALTER ROLE shop IN DATABASE orders SET "+setting)
		check(t, err)
	}
	check(t, declare(first, second))
	session, err := a.dial(t, own, "user=shop.2 dbname=orders password=two")
	check(t, err)
	says := func(query, want string) {
		t.Helper()
		rows, err := session.Exec(t.Context(), query).ReadAll()
		check(t, err)
		if got := string(rows[0].Rows[0][0]); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	says("SELECT current_user || ' ' || session_user", "shop shop.2")
	says("SHOW search_path", `"$user", "a ""b""", public`)
	says("SHOW my.own", "x'y")
	says("SHOW statement_timeout", "77s")
	for _, statement := range []string{
		"CREATE TABLE one (id int)", "DISCARD ALL", "SET ROLE NONE", "CREATE TABLE two (id int)", "RESET ROLE",
	} {
		_, err := session.Exec(t.Context(), statement).ReadAll()
		check(t, err)
	}
	says("SELECT current_user", "shop")
	_, err = a.session().Exec(t.Context(), "ALTER ROLE shop IN DATABASE orders RESET statement_timeout")
	check(t, err)
	check(t, declare(first, second))
	owners := "SELECT string_agg(tableowner, ' ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"
	if got := a.value(t, "orders", owners); got != "shop shop" {
		t.Errorf("the tables belong to %s", got)
	}
	if got := a.value(t, "orders", "SELECT count(*)::text FROM pg_db_role_setting, unnest(setconfig) c WHERE c LIKE 'statement_timeout=%'"); got != "0" {
		t.Errorf("a setting that was removed is there %s times", got)
	}
	before := a.value(t, "postgres", "SELECT pg_current_wal_insert_lsn()::text")
	check(t, declare(first, second))
	if after := a.value(t, "postgres", "SELECT pg_current_wal_insert_lsn()::text"); after != before {
		t.Errorf("a second time writes: from %s to %s", before, after)
	}
	a.turnsEnd(t, session, declare, first, second)
	a.turnsGoOnWhateverIsSet(t, declare, first, second)
	a.turnsAreEdited(t, declare, first, second)
	a.turnsOfOthers(t, declare, first, second)
}

// turnsEnd checks that the second role keeps its rights when the first one may no longer log in,
// and that a second role which is not listed can't log in, and its sessions are ended.
func (i *instance) turnsEnd(t *testing.T, session *pgconn.PgConn, declare func(...contract.User) error, first, second contract.User) {
	t.Helper()
	own := filepath.Join(filepath.Dir(i.run), "certificates")
	ended := first
	ended.Verifier = ""
	check(t, declare(ended, second))
	logsIn := func(user, password string) error {
		_, err := i.dial(t, own, "user="+user+" dbname=orders password="+password)
		return err
	}
	if logsIn("shop", "one") == nil {
		t.Error("a password that has ended is accepted")
	}
	_, err := session.Exec(t.Context(), "INSERT INTO one VALUES (1)").ReadAll()
	check(t, err)
	unknown := ended
	unknown.IsUnknown = true
	check(t, declare(first, second))
	check(t, declare(unknown, second))
	check(t, logsIn("shop", "one"))

	check(t, declare(first))
	if logsIn("shop.2", "two") == nil || session.Exec(t.Context(), "SELECT 1").Close() == nil {
		t.Error("a role that is not listed is still in use")
	}
	check(t, declare(first, second))
	check(t, logsIn("shop.2", "two"))
}

// turnsGoOnWhateverIsSet checks that second roles are created whatever a user has set for itself or
// locks, and that settings which can't be copied are reported. A user that acts as yet another role
// does so with both roles.
func (i *instance) turnsGoOnWhateverIsSet(t *testing.T, declare func(...contract.User) error, first, second contract.User) {
	t.Helper()
	own := filepath.Join(filepath.Dir(i.run), "certificates")
	do := func(statement string) {
		t.Helper()
		_, err := i.session().Exec(t.Context(), statement)
		check(t, err)
	}
	check(t, declare(first, second))
	owner := contract.User{Name: "owner", Verifier: first.Verifier, ConnectionLimit: -1}
	first.Roles = append(first.Roles, "owner")
	check(t, declare(owner, first, second))
	for _, setting := range []string{
		"transaction_read_only = on", "default_transaction_read_only = on", "statement_timeout = '1ms'", "lock_timeout = '1ms'",
		"default_tablespace = nowhere", "default_text_search_config = nothing", "temp_tablespaces = nowhere", "role = owner",
		"application_name = '" + strings.Repeat("x", 9<<10) + "'", `work_mem = '5MB'`,
	} {
		do("ALTER ROLE shop SET " + setting)
	}
	do("ALTER ROLE shop IN DATABASE orders SET my.big = '" + strings.Repeat("0123456789abcdef", 64<<10) + "'")
	locker, err := i.dial(t, own, "user=shop.2 dbname=orders password=two")
	check(t, err)
	for _, statement := range []string{"SET ROLE NONE", "CREATE TABLE locked (id int)", "BEGIN", "LOCK TABLE locked"} {
		_, err := locker.Exec(t.Context(), statement).ReadAll()
		check(t, err)
	}
	other := contract.User{Name: "other", Verifier: first.Verifier, ConnectionLimit: -1, Turn: contract.Turn{Login: "other.2"}}
	check(t, declare(owner, first, second, other))
	problem := i.observe().Problem
	for _, says := range []string{`"shop.2": giving "shop" what it owns in the database "orders"`, `setting "application_name" is not copied`, "temp_tablespaces"} {
		if !strings.Contains(problem, says) {
			t.Errorf("the problem does not say %s: %s", says, problem)
		}
	}
	settings := `SELECT string_agg(split_part(c, '=', 1), ' ' ORDER BY c) FROM pg_db_role_setting, unnest(setconfig) c
		WHERE setrole = '"shop.2"'::regrole AND setdatabase = 0`
	if got := i.value(t, "orders", settings); got != "default_tablespace default_text_search_config default_transaction_read_only lock_timeout role statement_timeout work_mem" {
		t.Errorf("the second role has %s", got)
	}
	if got := i.value(t, "orders", `SELECT c FROM pg_db_role_setting, unnest(setconfig) c WHERE setrole = '"shop.2"'::regrole AND c LIKE 'role=%'`); got != "role=owner" {
		t.Errorf("the second role acts as %s", got)
	}
	check(t, locker.Close(t.Context()))
	do("ALTER ROLE shop RESET ALL")
	do("ALTER ROLE shop IN DATABASE orders RESET ALL")
	do(`ALTER ROLE "shop.2" SET application_name = '` + strings.Repeat("0123456789abcdef", 512<<10) + "'")
	first.Roles = first.Roles[:1]
	check(t, declare(owner, first, second))
	if got := i.value(t, "orders", settings); got != "role" {
		t.Errorf("without any, the second role has %s", got)
	}
	if problem := i.observe().Problem; problem != "" {
		t.Errorf("the problem stays: %s", problem)
	}
}

// turnsAreEdited checks that sessions with a former password end when either role gets another one,
// and that others go on.
func (i *instance) turnsAreEdited(t *testing.T, declare func(...contract.User) error, first, second contract.User) {
	t.Helper()
	own := filepath.Join(filepath.Dir(i.run), "certificates")
	session := func(user, password string) *pgconn.PgConn {
		t.Helper()
		session, err := i.dial(t, own, "user="+user+" dbname=orders password="+password)
		check(t, err)
		return session
	}
	goesOn := func(session *pgconn.PgConn) bool { return session.Exec(t.Context(), "SELECT 1").Close() == nil }
	check(t, declare(first, second))
	leaked, other := session("shop", "one"), session("shop.2", "two")
	second.Verifier, first.Turn = verifierOf(t, "three"), contract.Turn{Login: "shop.2", Until: time.Now().Add(time.Hour)}
	check(t, declare(first, second))
	if goesOn(other) || !goesOn(leaked) {
		t.Error("after one edit: the former session of shop.2 goes on, or that of shop does not")
	}
	other = session("shop.2", "three")
	first.Verifier, first.Turn.Login = verifierOf(t, "four"), ""
	check(t, declare(first, second))
	if goesOn(leaked) || !goesOn(other) {
		t.Error("after two edits: the leaked session of shop goes on, or that of shop.2 does not")
	}
	session("shop", "four")
}

// turnsOfOthers checks that a role which others have created is left as it is.
func (i *instance) turnsOfOthers(t *testing.T, declare func(...contract.User) error, first, second contract.User) {
	t.Helper()
	_, err := i.session().Exec(t.Context(), `CREATE ROLE "other.2" LOGIN`)
	check(t, err)
	other := contract.User{Name: "other", Verifier: first.Verifier, ConnectionLimit: -1}
	check(t, declare(first, second, other))
	err = declare(first, second, other, contract.User{Name: "other.2", As: "other", Verifier: first.Verifier, Roles: []string{"other"}})
	if err == nil || !strings.Contains(err.Error(), `user "other.2": is a role of its own`) {
		t.Errorf("a role of others: got %v", err)
	}
	if got := i.value(t, "postgres", `SELECT rolcanlogin || coalesce(rolpassword, '') FROM pg_authid WHERE rolname = 'other.2'`); got != "true" {
		t.Errorf("a role of others was changed: %s", got)
	}
	if got := i.value(t, "postgres", `SELECT count(*)::text FROM pg_auth_members WHERE member = '"other.2"'::regrole`); got != "0" {
		t.Error("a role of others has become a member of a user")
	}
}

// holds opens a session, and executes statements in it, which may leave a transaction open.
func (i *instance) holds(t *testing.T, login string, statements ...string) *pgconn.PgConn {
	t.Helper()
	session, err := i.dial(t, filepath.Join(filepath.Dir(i.run), "certificates"), login)
	check(t, err)
	for _, statement := range statements {
		_, err := session.Exec(t.Context(), statement).ReadAll()
		check(t, err)
	}
	return session
}

// isConnected reports whether a session was not ended.
func isConnected(t *testing.T, session *pgconn.PgConn) bool {
	t.Helper()
	return session.Exec(t.Context(), "SELECT 1").Close() == nil
}

// TestChangesPastLocks: a role that was changed in a transaction which is left open, by itself or
// by a member that acts as it, can be changed nevertheless, and so can others. Only the sessions
// that block are ended, and none of a superuser's.
func TestChangesPastLocks(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	users := []contract.User{
		{Name: "shop", Verifier: verifierOf(t, "one"), ConnectionLimit: -1},
		{Name: "shop.2", As: "shop", Verifier: verifierOf(t, "two"), ConnectionLimit: -1, Roles: []string{"shop"}},
		{Name: "deputy", Verifier: verifierOf(t, "three"), ConnectionLimit: -1, Roles: []string{"shop"}},
		{Name: "other", Verifier: verifierOf(t, "four"), ConnectionLimit: -1, Turn: contract.Turn{Login: "other.2"}},
	}
	declared := Call{Do: "declared", Application: app, Provisions: contract.Provisions{Users: users}}
	a.do(declared)
	bystanders := []*pgconn.PgConn{
		a.holds(t, "user=app dbname=app password=first"), a.holds(t, "user=deputy dbname=app password=three", "SET ROLE shop", "BEGIN"),
	}
	lockers := []*pgconn.PgConn{
		a.holds(t, "user=app dbname=app password=first", "BEGIN", "ALTER ROLE app PASSWORD 'x'"),
		a.holds(t, "user=deputy dbname=app password=three", "SET ROLE shop", "BEGIN", "ALTER ROLE shop PASSWORD 'x'"),
		a.holds(t, "user=shop.2 dbname=app password=two", "SET ROLE NONE", "BEGIN", `ALTER ROLE "shop.2" PASSWORD 'x'`),
	}
	app.Password, declared.Application.Password = "second", "second"
	a.do(Call{Do: "provide", Application: app})
	for i, password := range []string{"five", "six", "three", "seven"} {
		if i != 2 {
			users[i].Verifier = verifierOf(t, password)
		}
	}
	a.do(declared)
	for _, login := range []string{"app password=second", "shop password=five", "shop.2 password=six", "other password=seven"} {
		a.holds(t, "dbname=app user="+login)
	}
	_, err := a.session().Exec(t.Context(), "ALTER ROLE shop SET work_mem = '6MB'")
	check(t, err)
	lockers = append(lockers, a.holds(t, "user=shop.2 dbname=app password=six",
		"SET ROLE NONE", "BEGIN", `ALTER ROLE "shop.2" SET work_mem = '5MB'`))
	a.do(declared)
	if problem := a.observe().Problem; problem != "" {
		t.Errorf("the problem is %s", problem)
	}
	for i, locker := range lockers {
		if isConnected(t, locker) {
			t.Errorf("locker %d is still connected", i)
		}
	}
	for i, bystander := range bystanders {
		if !isConnected(t, bystander) {
			t.Errorf("bystander %d is no longer connected", i)
		}
	}
	a.superuserBlocks(t, declared)
}

// superuserBlocks checks that a superuser's open transaction is not ended: the role that it has
// changed is reported, and others are changed.
func (i *instance) superuserBlocks(t *testing.T, declared Call) {
	t.Helper()
	superuser, users := i.session(), declared.Provisions.Users
	for _, statement := range []string{"BEGIN", "ALTER ROLE shop CONNECTION LIMIT 3"} {
		_, err := superuser.Exec(t.Context(), statement)
		check(t, err)
	}
	users[0].Verifier, users[3].Verifier = verifierOf(t, "eight"), verifierOf(t, "nine")
	_, err := i.try(declared)
	const want = `user "shop": is blocked by other transactions`
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
	i.holds(t, "user=other dbname=app password=nine")
	_, err = superuser.Exec(t.Context(), "COMMIT")
	check(t, err)
	i.do(declared)
	i.holds(t, "user=shop dbname=app password=eight")
}

// TestActsAsTheApplication: a user that is a member of app and acts as it, as the page about
// rotation says, does so with both of its roles, and may do what app may.
func TestActsAsTheApplication(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	own := filepath.Join(filepath.Dir(a.run), "certificates")
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	first := contract.User{Name: "shop", Verifier: verifierOf(t, "one"), ConnectionLimit: -1, Roles: []string{"app"}}
	second := contract.User{Name: "shop.2", As: "shop", Verifier: verifierOf(t, "two"), ConnectionLimit: -1, Roles: []string{"shop"}}
	declare := func(users ...contract.User) {
		t.Helper()
		a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{Users: users}})
	}
	does := func(login, statements string) {
		t.Helper()
		session, err := a.dial(t, own, "dbname=app "+login)
		check(t, err)
		_, err = session.Exec(t.Context(), statements).ReadAll()
		check(t, err)
	}
	does("user=app password=first", "CREATE TABLE old (id int)")
	declare(first)
	_, err := a.session().Exec(t.Context(), "ALTER ROLE shop SET role = app")
	check(t, err)
	does("user=shop password=one", "CREATE TABLE one (id int); ALTER TABLE old ADD COLUMN one int")
	declare(first, second)
	does("user=shop.2 password=two", "CREATE TABLE two (id int); ALTER TABLE old ADD COLUMN two int; DROP TABLE one")
	first.Verifier = ""
	declare(first, second)
	does("user=shop.2 password=two", "CREATE TABLE three (id int); ALTER TABLE two ADD COLUMN three int")
	owners := "SELECT string_agg(tablename || ' ' || tableowner, ', ' ORDER BY tablename) FROM pg_tables WHERE schemaname = 'public'"
	if got := a.value(t, "app", owners); got != "old app, three app, two app" {
		t.Errorf("the tables belong to %s", got)
	}
}
