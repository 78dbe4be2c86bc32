//go:build instances

package server

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// refusedSQL are first statements that a server refuses, and the expected errors.
var refusedSQL = []struct{ sql, want string }{
	{"SELECT 1;\nSELECT hunter2", `initSQL[1], line 2: column "hunter2" does not exist (SQLSTATE 42703)`},
	{"\nSELEC hunter2", `initSQL[1], line 2: syntax error at or near "SELEC" (SQLSTATE 42601)`},
	{"COMMIT", "initSQL[1]: EXECUTE of transaction commands is not implemented (SQLSTATE 0A000)"},
	{"ROLLBACK", "initSQL[1]: EXECUTE of transaction commands is not implemented"},
	{"DO 'BEGIN COMMIT; END'", "initSQL[1]: invalid transaction termination"},
	{"VACUUM", "initSQL[1]: VACUUM cannot run inside a transaction block"},
	{"CREATE ROLE evil SUPERUSER", "initSQL[1]: permission denied to create role"},
	{"SET ROLE postgres", `initSQL[1]: permission denied to set role "postgres"`},
	{"SET SESSION AUTHORIZATION postgres", "initSQL[1]: permission denied to set session authorization"},
	{"RESET SESSION AUTHORIZATION; CREATE ROLE evil SUPERUSER", "initSQL[1]: permission denied to create role"},
	{"COPY evil TO PROGRAM 'id'", "initSQL[1]: "},
	{"CREATE TABLE late (name text UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES ('hunter2'), ('hunter2')",
		"initSQL: the server refuses to commit it (SQLSTATE 23505)"},
	{"'; DROP TABLE one; --", "initSQL[1], line 1: unterminated quoted string"},
	{`SET standard_conforming_strings = off; SELECT '\''; SELECT no_such`, "initSQL[1]"},
}

// TestInitSQL: the first statements are executed once, all or none, as the owner, in a database
// that was created for them. The error names the position of the statement that failed, and
// contains no text of a Secret.
func TestInitSQL(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	a.sets(map[string]string{"log_statement": "all", "log_min_duration_statement": "0"})
	app := postgres.Application{User: "app", Password: "first", Database: "app", Initialise: true}
	declare := func(statements ...contract.Statement) error {
		a.do(Call{Do: "provide", Application: app})
		_, err := a.try(Call{Do: "declared", Application: app, Provisions: contract.Provisions{
			Databases: []contract.Database{{Name: "app", Extensions: []string{"citext"}}}, InitSQL: statements,
		}})
		return err
	}
	// The database that an interrupted attempt has left is replaced.
	_, err := a.session().Exec(t.Context(), "CREATE DATABASE "+initName)
	check(t, err)
	for _, test := range refusedSQL {
		err := declare(contract.Statement{SQL: "CREATE TABLE one (name citext)"}, contract.Statement{SQL: test.sql})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.sql, err, test.want)
		}
		err = declare(contract.Statement{SQL: "CREATE TABLE one (name citext)"}, contract.Statement{SQL: test.sql, IsSecret: true})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "SQLSTATE") {
			t.Errorf("%s: got %v of a Secret", test.sql, err)
		}
	}
	if got := a.value(t, "app", "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"); got != "0" {
		t.Errorf("%s tables are there although a statement failed", got)
	}
	check(t, declare(
		contract.Statement{SQL: "CREATE TABLE one (name citext); INSERT INTO one VALUES ('hunter2'), (E'it''s \\\\ a $1')", IsSecret: true},
		contract.Statement{SQL: "CREATE TABLE activity AS SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()", IsSecret: true},
		contract.Statement{SQL: "CREATE SCHEMA sales; COMMENT ON DATABASE app IS 'shop'; ALTER DATABASE app SET work_mem = '5MB'; SELECT 1"},
	))
	check(t, declare(contract.Statement{SQL: "INSERT INTO one VALUES ('twice')"}))
	for query, want := range map[string]string{
		"SELECT string_agg(name, ' ' ORDER BY name) FROM one":                                              `hunter2 it's \ a $1`,
		"SELECT string_agg(query, ' ') FROM activity":                                                      "",
		"SELECT tableowner FROM pg_tables WHERE tablename = 'one'":                                         "app",
		"SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = 'app'":              "shop",
		"SELECT string_agg(c, ' ') FROM pg_db_role_setting, unnest(setconfig) c WHERE setdatabase <> 0":    "work_mem=5MB",
		"SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate":        "app postgres",
		"SELECT count(*)::text FROM pg_roles WHERE rolname = 'evil' OR rolsuper AND rolname <> 'postgres'": "0",
	} {
		if got := a.value(t, "app", query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	a.settingsStay(t, func() error { return declare(contract.Statement{SQL: "SELECT 1"}) })
	a.initSQLElsewhere(t)
	a.saysNothingOf(t, "hunter2")
}

// TestInitSQLTakesTooLong: statements that take longer than the limit for all fail like any others,
// and leave no settings that hide sessions. Nor does an interrupted attempt, once the statements
// were removed from the spec.
func TestInitSQLTakesTooLong(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app", Initialise: true}
	const hidden = "SELECT count(*)::text FROM pg_db_role_setting WHERE setdatabase <> 0"
	a.do(Call{Do: "provide", Application: app})
	_, err := a.try(Call{Do: "declared", Application: app, InitTotal: 5 * time.Second, Provisions: contract.Provisions{
		InitSQL: []contract.Statement{{SQL: "CREATE TABLE one (name text)"}, {SQL: "SELECT pg_sleep(60)", IsSecret: true}},
	}})
	if err == nil || !strings.HasPrefix(err.Error(), "initSQL[1]: had not ended when all of initSQL had taken 5s") {
		t.Errorf("got %v", err)
	}
	if got := a.value(t, "app", hidden); got != "0" {
		t.Error("what hides sessions is left after that")
	}
	check(t, hide(t.Context(), a.session(), app))
	if got := a.value(t, "app", hidden); got != "1" {
		t.Fatal("nothing hides sessions")
	}
	app.Initialise = false
	a.do(Call{Do: "provide", Application: app})
	if got := a.value(t, "app", hidden); got != "0" {
		t.Error("what hides sessions is left after an interrupted attempt")
	}
	if got := a.value(t, "app", "SELECT count(*)::text FROM pg_tables WHERE tablename = 'one'"); got != "0" {
		t.Error("a part was executed")
	}
}

// TestInitSQLIsDurable: executed statements count as done only when another member has their
// changes, and they are not executed again.
func TestInitSQLIsDurable(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	b.do(Call{Do: "kill"})
	d.do(Call{Do: "kill"})
	app := postgres.Application{User: "app", Password: "first", Database: "app", Initialise: true}
	a.do(Call{Do: "provide", Application: app})
	statements := contract.Provisions{InitSQL: []contract.Statement{{SQL: "CREATE TABLE one (name text); SET synchronous_commit = off"}}}
	for range 2 {
		_, err := a.try(Call{Do: "declared", Application: app, Provisions: statements, Within: 10 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "are not yet on as many instances") {
			t.Errorf("without another member: got %v", err)
		}
		if got := a.value(t, "app", "SELECT count(*)::text FROM pg_tables WHERE tablename = 'one'"); got != "1" {
			t.Errorf("got %s tables", got)
		}
	}
	b.again(a, 2)
	a.do(Call{Do: "declared", Application: app, Provisions: statements})
}

// settingsStay checks that settings which a superuser has made for the owner stay when users are
// provided again, and those that an interrupted attempt has left do not.
func (i *instance) settingsStay(t *testing.T, declare func() error) {
	t.Helper()
	const ofOwner = "SELECT coalesce(string_agg(c, ' '), '') FROM pg_db_role_setting, unnest(setconfig) c WHERE setrole <> 0"
	app := postgres.Application{User: "app", Database: "app"}
	check(t, hide(t.Context(), i.session(), app))
	check(t, declare())
	if got := i.value(t, "app", ofOwner); got != "" {
		t.Errorf("an interrupted attempt has left %s", got)
	}
	_, err := i.session().Exec(t.Context(), "ALTER ROLE app IN DATABASE app SET log_min_duration_statement = 500")
	check(t, err)
	check(t, declare())
	if got := i.value(t, "app", ofOwner); got != "log_min_duration_statement=500" {
		t.Errorf("of what a superuser has set, %q is left", got)
	}
}

// saysNothingOf checks that a text is not in the log.
func (i *instance) saysNothingOf(t *testing.T, text string) {
	t.Helper()
	said, err := os.ReadFile(i.cmd.Stderr.(*os.File).Name()) //nolint:forcetypeassert // It is made by launch.
	check(t, err)
	if strings.Contains(string(said), text) {
		t.Error("the log has a statement of a Secret")
	}
}

// initSQLElsewhere checks that no statements are executed in a database that existed before, or was
// created without any, and that a database whose statements were removed from the spec is like any
// other.
func (i *instance) initSQLElsewhere(t *testing.T) {
	t.Helper()
	statements := []contract.Statement{{SQL: "CREATE TABLE late (id int)"}}
	for name, first := range map[string]bool{"plain": false, "given_up": true} {
		app := postgres.Application{User: "app", Password: "first", Database: name, Initialise: first}
		i.do(Call{Do: "provide", Application: app})
		app.Initialise = false
		i.do(Call{Do: "provide", Application: app})
		app.Initialise = true
		i.do(Call{Do: "provide", Application: app})
		i.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{InitSQL: statements}})
		if got := i.value(t, name, "SELECT count(*)::text FROM pg_tables WHERE tablename = 'late'"); got != "0" {
			t.Errorf("%s: the statements were executed", name)
		}
	}
}

// TestHostileNames: names, lines and statements of any form change only the intended objects.
func TestHostileNames(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	objects := `SELECT coalesce(string_agg(name, '|' ORDER BY name), '') FROM (SELECT rolname::text AS name FROM pg_roles
		WHERE rolname NOT LIKE 'pg\_%' AND rolname NOT LIKE 'mainstay%' UNION ALL SELECT datname FROM pg_database) o`
	before := a.value(t, "postgres", objects)
	// A name with which the query fails does not prevent other users from being created.
	two := []contract.User{{Name: "\xff", Verifier: verifierOf(t, "one")}, {Name: "beside", Verifier: verifierOf(t, "one")}}
	if _, err := a.try(Call{Do: "declared", Application: app, Provisions: contract.Provisions{Users: two}}); err == nil {
		t.Error("a name that is no UTF-8 is not refused")
	}
	_, err := a.session().Exec(t.Context(), "DROP ROLE beside")
	check(t, err)
	for n, name := range []string{
		`a"; CREATE ROLE evil SUPERUSER; --`, `'; DROP DATABASE app; --`, "$$", `\`, "ä€", "a b", `""`, "%s%d", "E'\\'", "{a,b}", `{"a"}`, "NULL", "a.2", "all",
		strings.Repeat("x", 63), "a" + strings.Repeat("é", 31), "select", "a\u2028b", "*", "a,b", "(", "/*",
	} {
		user := contract.User{Name: name, Verifier: verifierOf(t, "one"), ConnectionLimit: -1, Roles: []string{}}
		second := user
		second.Name, second.As, second.Roles = postgres.SecondLogin(fmt.Sprint("u", n)), name, []string{name}
		database := contract.Database{Name: name, Owner: name, Schemas: []string{name}, Delete: true}
		provisions := contract.Provisions{Users: []contract.User{user, second}, Databases: []contract.Database{database}}
		if _, err := a.try(Call{Do: "declared", Application: app, Provisions: provisions}); err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		a.do(Call{Do: "declared", Application: app, Provisions: provisions})
		owner := "SELECT datname || '|' || pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()"
		if got := a.value(t, name, owner); got != name+"|"+name {
			t.Errorf("%q became %q", name, got)
		}
		a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{
			FormerUsers: []contract.FormerUser{{Name: name}, {Name: second.Name}}, DropDatabases: []string{name},
		}})
		_, err := a.session().Exec(t.Context(), "DROP ROLE "+postgres.QuoteName(second.Name)+"; DROP ROLE "+postgres.QuoteName(name))
		check(t, err)
		if after := a.value(t, "postgres", objects); after != before {
			t.Fatalf("%q: there were %s, and are %s", name, before, after)
		}
	}
}
