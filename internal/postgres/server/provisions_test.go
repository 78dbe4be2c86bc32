//go:build instances

package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// verifierOf returns a verifier of a password.
func verifierOf(t *testing.T, password string) string {
	t.Helper()
	made, err := postgres.Verifier(password)
	check(t, err)
	return made
}

// value returns the one value that a query in a database returns, as text.
func (i *instance) value(t *testing.T, database, query string) string {
	t.Helper()
	session, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d sslmode=disable user=postgres dbname=%s", i.socket, testPort,
		connectionValue(database)))
	check(t, err)
	defer disconnect(session)
	var found string
	check(t, session.QueryRow(t.Context(), query).Scan(&found))
	return found
}

// TestProvideDeclared: databases and users are created, changed, locked and dropped as declared,
// and others are left as they are. One that can't be created does not prevent the creation of
// others.
func TestProvideDeclared(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	own := filepath.Join(filepath.Dir(a.run), "certificates")
	a.sets(map[string]string{"log_statement": "all", "log_min_duration_statement": "0"})
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	_, err := a.session().Exec(t.Context(), "CREATE DATABASE theirs")
	check(t, err)
	provisions := contract.Provisions{
		Users: []contract.User{
			{Name: "Shop-1", Verifier: verifierOf(t, "one"), ConnectionLimit: 7, Roles: []string{"reader", "pg_monitor"}},
			{Name: "reader", Verifier: verifierOf(t, "two"), ConnectionLimit: -1},
		},
		Databases: []contract.Database{
			{Name: "Orders", Owner: "Shop-1", Extensions: []string{"no_such", "citext"}, Schemas: []string{"sales"}, Delete: true},
			{Name: "app", Schemas: []string{"more"}},
		},
	}
	_, err = a.try(Call{Do: "declared", Application: app, Provisions: provisions})
	if err == nil || !strings.Contains(err.Error(), `database "Orders": extension "no_such": the image of the server has no such extension`) {
		t.Errorf("an extension that is not there: got %v", err)
	}
	for query, want := range map[string]string{
		"SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'sales'":                                                             "Shop-1",
		"SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'citext'":                                  "public",
		"SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'Orders'":                                                               "Shop-1",
		"SELECT rolconnlimit || ' ' || rolsuper || ' ' || rolcreaterole FROM pg_roles WHERE rolname = 'Shop-1'":                                  "7 false false",
		"SELECT string_agg(roleid::regrole::text, ' ' ORDER BY roleid::regrole::text) FROM pg_auth_members WHERE member = '\"Shop-1\"'::regrole": "pg_monitor reader",
		"SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate":                                              "Orders app postgres theirs",
	} {
		if got := a.value(t, "Orders", query); got != want {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
	logsIn := func(user, password, database string) error {
		_, err := a.dial(t, own, "user="+user+" dbname="+database+" password="+password)
		return err
	}
	check(t, logsIn("Shop-1", "one", "Orders"))

	a.provisionsChange(t, app, provisions, logsIn)
	a.provisionsGoOn(t, app, provisions)
	a.provisionsLeave(t, app, logsIn)
	said, err := os.ReadFile(a.cmd.Stderr.(*os.File).Name()) //nolint:forcetypeassert // It is made by launch.
	check(t, err)
	if strings.Contains(string(said), "SCRAM-SHA-256$") {
		t.Error("the log has a verifier")
	}
}

// TestLockIsDurable: that a former user is locked, and a database dropped, counts as done only when
// another member has it, because it is not done again in the next term.
func TestLockIsDurable(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{
		Users: []contract.User{{Name: "shop", Verifier: verifierOf(t, "one"), ConnectionLimit: -1}},
	}})
	b.do(Call{Do: "kill"})
	d.do(Call{Do: "kill"})
	for _, provisions := range []contract.Provisions{
		{FormerUsers: []contract.FormerUser{{Name: "shop"}}}, {DropDatabases: []string{"never"}},
	} {
		_, err := a.try(Call{Do: "declared", Application: app, Provisions: provisions, Within: 5 * time.Second})
		if err == nil || !strings.Contains(err.Error(), "are not yet on as many instances") {
			t.Errorf("%+v without another member: got %v", provisions, err)
		}
	}
	if got := a.value(t, "postgres", "SELECT rolcanlogin::text FROM pg_roles WHERE rolname = 'shop'"); got != "false" {
		t.Errorf("meanwhile the user can log in: %s", got)
	}
	b.again(a, 1)
	a.wait("sending", func(o engine.Observation) bool { return len(o.Receivers) == 1 && o.Receivers[0].Near })
	a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{FormerUsers: []contract.FormerUser{{Name: "shop"}}}})
}

// TestExtensionThatFailsBlocksNobody: an extension that the server refuses, because the owner of
// the database has dropped what it needs, is reported, and keeps nobody's password from being
// changed. It is an error as long as the first statements, which may need it, were not executed.
func TestExtensionThatFailsBlocksNobody(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app", Initialise: true}
	a.do(Call{Do: "provide", Application: app})
	provisions := contract.Provisions{
		Users: []contract.User{
			{Name: "alice", Verifier: verifierOf(t, "one"), ConnectionLimit: -1}, {Name: "bob", Verifier: verifierOf(t, "one"), ConnectionLimit: -1},
		},
		Databases: []contract.Database{
			{Name: "app", Extensions: []string{"no_such"}}, {Name: "a", Owner: "alice", Extensions: []string{"citext"}},
		},
		InitSQL: []contract.Statement{{SQL: "SELECT 1"}},
	}
	for range 2 {
		_, err := a.try(Call{Do: "declared", Application: app, Provisions: provisions})
		if err == nil || !strings.HasPrefix(err.Error(), `database "app": extension "no_such": `) {
			t.Errorf("before the first statements: got %v", err)
		}
	}
	provisions.Databases[0].Extensions = nil
	a.do(Call{Do: "declared", Application: app, Provisions: provisions})
	inside, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d sslmode=disable user=postgres dbname=a", a.socket, testPort))
	check(t, err)
	defer disconnect(inside)
	_, err = inside.Exec(t.Context(), "DROP SCHEMA public CASCADE")
	check(t, err)
	provisions.Users[1].Verifier = verifierOf(t, "two")
	a.do(Call{Do: "declared", Application: app, Provisions: provisions})
	if problem := a.observe().Problem; !strings.HasPrefix(problem, `database "a": extension "citext": `) {
		t.Errorf("the problem is %q", problem)
	}
	_, err = a.dial(t, filepath.Join(filepath.Dir(a.run), "certificates"), "user=bob dbname=app password=two")
	check(t, err)
	_, err = inside.Exec(t.Context(), "CREATE SCHEMA public")
	check(t, err)
	a.do(Call{Do: "declared", Application: app, Provisions: provisions})
	if problem := a.observe().Problem; problem != "" {
		t.Errorf("once there is the schema, the problem is %q", problem)
	}
	if got := a.value(t, "a", "SELECT count(*)::text FROM pg_extension WHERE extname = 'citext'"); got != "1" {
		t.Error("the extension is not there")
	}
}

// provisionsLeave checks that a former user can't log in, and that a database with reclaim Delete
// is dropped, with its sessions. Neither can be one of Mainstay's own.
func (i *instance) provisionsLeave(t *testing.T, app postgres.Application, logsIn func(user, password, database string) error) {
	t.Helper()
	open, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d sslmode=disable user=postgres dbname=Orders", i.socket, testPort))
	check(t, err)
	defer disconnect(open)
	locker := i.holds(t, "user=Shop-1 dbname=app password=three", "BEGIN", `ALTER ROLE "Shop-1" PASSWORD 'x'`)
	i.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{
		FormerUsers: []contract.FormerUser{{Name: "Shop-1"}, {Name: "never"}, {Name: "app"}}, DropDatabases: []string{"Orders", "app", "never"},
	}})
	if err := logsIn("Shop-1", "three", "app"); err == nil || !strings.Contains(err.Error(), "authentication failed") {
		t.Errorf("a former user: got %v", err)
	}
	if isConnected(t, locker) {
		t.Error("a former user that has changed itself in an open transaction is still connected")
	}
	check(t, logsIn("app", "first", "app"))
	left := i.value(t, "postgres", "SELECT string_agg(datname, ' ' ORDER BY datname) FROM pg_database WHERE NOT datistemplate")
	if left != "app postgres theirs" {
		t.Errorf("the databases are %s", left)
	}
	for name, provisions := range map[string]contract.Provisions{
		"postgres":  {Users: []contract.User{{Name: "postgres", Verifier: verifierOf(t, "x")}}},
		"root":      {Users: []contract.User{{Name: "root", Verifier: verifierOf(t, "x")}}},
		"template1": {DropDatabases: []string{"template1"}, Databases: []contract.Database{{Name: "template1"}}},
	} {
		if name == "root" {
			_, err := i.session().Exec(t.Context(), "CREATE ROLE root SUPERUSER LOGIN")
			check(t, err)
		}
		if _, err := i.try(Call{Do: "declared", Application: app, Provisions: provisions}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// provisionsGoOn checks that a database whose owner refuses connections to it is reported, and
// keeps nothing else from being made.
func (i *instance) provisionsGoOn(t *testing.T, app postgres.Application, provisions contract.Provisions) {
	t.Helper()
	for _, allows := range []bool{false, true} {
		_, err := i.session().Exec(t.Context(), fmt.Sprintf(`ALTER DATABASE "Orders" ALLOW_CONNECTIONS %t`, allows))
		check(t, err)
		i.do(Call{Do: "declared", Application: app, Provisions: provisions})
		const want = `database "Orders": does not allow connections`
		if problem := i.observe().Problem; strings.HasPrefix(problem, want) == allows || allows && problem != "" {
			t.Errorf("with ALLOW_CONNECTIONS %t: the problem is %q", allows, problem)
		}
	}
}

// provisionsChange changes a password, the roles and an owner, and checks that a second call writes
// nothing.
func (i *instance) provisionsChange(
	t *testing.T, app postgres.Application, provisions contract.Provisions, logsIn func(user, password, database string) error,
) {
	t.Helper()
	provisions.Users[0].Verifier, provisions.Users[0].Roles = verifierOf(t, "three"), []string{"reader"}
	provisions.Databases[0].Extensions, provisions.Databases[0].Owner = []string{"citext"}, ""
	declared := Call{Do: "declared", Application: app, Provisions: provisions}
	i.do(declared)
	before := i.value(t, "postgres", "SELECT pg_current_wal_insert_lsn()::text")
	i.do(declared)
	if after := i.value(t, "postgres", "SELECT pg_current_wal_insert_lsn()::text"); after != before {
		t.Errorf("a second time writes: from %s to %s", before, after)
	}
	if err := logsIn("Shop-1", "one", "Orders"); err == nil {
		t.Error("the former password is accepted")
	}
	check(t, logsIn("Shop-1", "three", "Orders"))
	if got := i.owner("Orders"); got != "app UTF8" {
		t.Errorf("the owner is %s", got)
	}
}
