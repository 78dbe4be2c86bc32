//go:build instances

package server

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// clusterQuery returns all objects of a server outside of its databases, sorted.
const clusterQuery = `SELECT json_agg(o ORDER BY o COLLATE "C")::text FROM (
	SELECT concat_ws(' ', 'role', rolname, rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit) o
		FROM pg_roles
	UNION ALL SELECT concat_ws(' ', 'member', m.rolname, 'of', g.rolname) FROM pg_auth_members a
		JOIN pg_roles m ON m.oid = a.member JOIN pg_roles g ON g.oid = a.roleid
	UNION ALL SELECT concat_ws(' ', 'database', datname, 'of', pg_get_userbyid(datdba), datacl::text) FROM pg_database
	UNION ALL SELECT concat_ws(' ', 'setting', setdatabase, setrole, setconfig::text) FROM pg_db_role_setting
	UNION ALL SELECT concat_ws(' ', 'tablespace', spcname) FROM pg_tablespace) all_of_it`

// insideQuery returns the schemas and tables of a database, without the server's own, sorted.
const insideQuery = `SELECT coalesce(json_agg(o ORDER BY o COLLATE "C"), '[]')::text FROM (
	SELECT concat_ws(' ', 'schema', nspname, 'of', pg_get_userbyid(nspowner)) o FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema$)'
	UNION ALL SELECT concat_ws(' ', 'table', relname, 'of', pg_get_userbyid(relowner)) FROM pg_class
		WHERE relnamespace = 'public'::regnamespace AND relkind = 'r') all_of_it`

// rulesQuery returns the lines of pg_hba.conf as the server reads them, in their order.
const rulesQuery = `SELECT json_agg(concat_ws(' ', type, array_to_string(database, ','), array_to_string(user_name, ','), auth_method, error)
	ORDER BY line_number)::text FROM pg_hba_file_rules`

// lines returns what a query returns as a list.
func (i *instance) lines(t *testing.T, database, query string) []string {
	t.Helper()
	var all []string
	check(t, json.Unmarshal([]byte(i.value(t, database, query)), &all))
	return all
}

// changes returns the differences of two lists: removed items with -, and added ones with +.
func changes(before, after []string) []string {
	var all []string
	for _, one := range before {
		if !slices.Contains(after, one) {
			all = append(all, "-"+one)
		}
	}
	for _, one := range after {
		if !slices.Contains(before, one) {
			all = append(all, "+"+one)
		}
	}
	slices.Sort(all)
	return all
}

// anyText returns a text of random pieces of a list, of at most most bytes.
func anyText(random *rand.Rand, pieces []string, most int) string {
	var text strings.Builder
	for length := 1 + random.IntN(most); text.Len() < length; {
		piece := pieces[random.IntN(len(pieces))]
		if text.Len()+len(piece) > most {
			break
		}
		text.WriteString(piece)
	}
	return text.String()
}

// anyInput is what the parts of TestAnyInput share.
type anyInput struct {
	*instance
	random *rand.Rand
	app    postgres.Application
	// session is a session of the superuser's. before are the objects that the server has before a
	// part of the test.
	session *pgx.Conn
	before  []string
}

// TestAnyInput: whatever names, lines of pg_hba.conf and statements contain, they change exactly
// the intended objects, and refused ones change nothing.
func TestAnyInput(t *testing.T) {
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{DropDatabases: []string{"none"}}})
	i := anyInput{instance: a, app: app, session: a.session()}
	for seed := range cases.Seeds(t, 5, 40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			i.random = rand.New(rand.NewPCG(seed, 19)) //nolint:gosec // a test must be repeatable
			i.before = a.lines(t, "postgres", clusterQuery)
			inside := a.lines(t, "app", insideQuery)
			i.takesNames(t)
			i.takesAccess(t)
			i.takesSQL(t)
			if changed := changes(i.before, a.lines(t, "postgres", clusterQuery)); len(changed) > 0 {
				t.Errorf("in the end the server has other objects: %q", changed)
			}
			if changed := changes(inside, a.lines(t, "app", insideQuery)); len(changed) > 0 {
				t.Errorf("in the end the database of the application has other objects: %q", changed)
			}
		})
	}
}

var namePieces = []string{
	`"`, `""`, "'", `\`, ";", "--", "$$", "$1", "%s", " ", ".", ",", "{", "}", "(", ")", "/*", "*/", "E'", "U&", "*", "+", "@", "#", "=", ":a", "&", "?",
	"é", "€", "\u2028", "\u00a0", "\u202e", "NULL", "all", "public", "app", `"; DROP ROLE app; --`, "'; DROP DATABASE app; --", "x", "Y", "7", ".2",
}

// badNames are names that no user and no database may have.
var badNames = []string{
	"", "postgres", "pg_x", "mainstay_x", "pgbouncer", "a\nb", "a\x00b", "a\x7f", "\xff", strings.Repeat("x", 64), strings.Repeat("é", 32),
}

func anyName(random *rand.Rand) string {
	if random.IntN(6) == 0 {
		return badNames[random.IntN(len(badNames))]
	}
	return anyText(random, namePieces, 63)
}

// takesNames creates users and a database with random names, and drops them.
func (i anyInput) takesNames(t *testing.T) {
	t.Helper()
	user, role, database := anyName(i.random), anyName(i.random), anyName(i.random)
	schema := anyText(i.random, namePieces, 63)
	if user == role || user == "app" || role == "app" || database == "app" || strings.HasPrefix(schema, "pg_") {
		return
	}
	made := contract.User{Name: user, Verifier: verifierOf(t, "one"), ConnectionLimit: 3, Roles: []string{}}
	group := contract.User{Name: role, Verifier: verifierOf(t, "two"), ConnectionLimit: -1, Roles: []string{}}
	declared := contract.Provisions{
		Users: []contract.User{made, group}, Databases: []contract.Database{{Name: database, Schemas: []string{schema}}},
	}
	var want []string
	isRefused, isMade := false, postgres.CheckDatabase(database) == nil
	for name, limit := range map[string]int{user: 3, role: -1} {
		if isRefused = isRefused || postgres.CheckUser(name) != nil; postgres.CheckUser(name) == nil {
			want = append(want, fmt.Sprintf("+role %s f f f t f f %d", name, limit))
		}
	}
	if postgres.CheckUser(user) == nil && postgres.CheckUser(role) == nil {
		declared.Users[0].Roles, declared.Databases[0].Owner = []string{role}, user
		want = append(want, fmt.Sprintf("+member %s of %s", user, role))
	}
	owner := declared.Databases[0].Owner
	if owner == "" {
		owner = "app"
	}
	if isMade {
		want = append(want, fmt.Sprintf("+database %s of %s", database, owner))
	}
	slices.Sort(want)
	if _, err := i.try(Call{Do: "declared", Application: i.app, Provisions: declared}); (err != nil) != (isRefused || !isMade) {
		t.Errorf("users %q and %q, database %q, schema %q: got %v", user, role, database, schema, err)
	}
	if got := changes(i.before, i.lines(t, "postgres", clusterQuery)); !slices.Equal(got, want) {
		t.Errorf("users %q and %q, database %q: these are changed:\n%q\nwant\n%q", user, role, database, got, want)
	}
	if has := "schema " + schema + " of " + owner; isMade && !slices.Contains(i.lines(t, database, insideQuery), has) && schema != "public" {
		t.Errorf("%q has no %q", database, has)
	}
	_, _ = i.try(Call{Do: "declared", Application: i.app, Provisions: contract.Provisions{
		FormerUsers: []contract.FormerUser{{Name: user}, {Name: role}}, DropDatabases: []string{database},
	}})
	for _, name := range []string{user, role} {
		if postgres.CheckUser(name) == nil {
			_, err := i.session.Exec(t.Context(), "DROP ROLE "+postgres.QuoteName(name))
			check(t, err)
		}
	}
}

// accessPieces are valid and invalid values of the fields of a line of pg_hba.conf.
var accessPieces = [][]string{
	{"hostssl", "hostssl", "hostssl", "hostssl", "host", "local", "hostnossl", "#hostssl", "include"},
	{"all", "app", "app,orders", "ALL", "sameuser", "replication", "@file", "/^a", `"all"`, "a-b", "+x"},
	{"all", "shop", "shop,+readers", "+readers", "postgres", "mainstay_pooler", "@f", `"x"`, "Shop-1,all", "shop,,x", "/.*"},
	{"all", "10.0.0.0/8", "10.0.0.1/8", "::/0", "fd00::/8", "samehost", "10.0.0.0/33", "localhost", "10.0.0.1", "::ffff:10.0.0.0/104"},
	{"reject", "cert", "scram-sha-256", "trust", "md5", "password", "peer", "reject#"},
	{"", "", "", "", "clientcert=verify-full", "clientcert=verify-ca", "map=x", `\`, "# all", "\thost all all all trust", "\nhost all all all trust"},
}

// takesAccess gives the server random lines of pg_hba.conf.
func (i anyInput) takesAccess(t *testing.T) {
	t.Helper()
	before := i.lines(t, "postgres", rulesQuery)
	var given []string
	for range 12 {
		var fields []string
		for _, pieces := range accessPieces {
			// Most of the lines should be accepted, so valid pieces, which are first, are more frequent.
			fields = append(fields, pieces[min(i.random.IntN(len(pieces)), i.random.IntN(len(pieces)))])
		}
		given = append(given, strings.TrimRight(strings.Join(fields, " "), " "))
	}
	text := strings.Join(given, "\n")
	var want []string
	for line := range strings.SplitSeq(text, "\n") {
		if postgres.CheckAccess(line) != nil {
			continue
		}
		fields := strings.Fields(line)
		var users []string
		for user := range strings.SplitSeq(fields[2], ",") {
			if users = append(users, user); user != "all" && !strings.HasPrefix(user, "+") {
				users = append(users, postgres.SecondLogin(user))
			}
		}
		want = append(want, strings.Join([]string{"hostssl", fields[1], strings.Join(users, ","), fields[4]}, " "))
	}
	i.sets(map[string]string{postgres.AccessParameter: text})
	// Our own lines are before them, and the last one, which lets clients in, is after them.
	last := len(before) - 1
	want = slices.Concat(before[:last], want, before[last:])
	if got := i.lines(t, "postgres", rulesQuery); !slices.Equal(got, want) {
		t.Errorf("%q: the server has the rules\n%q\nwant\n%q", text, got, want)
	}
	i.sets(nil)
	if got := i.lines(t, "postgres", rulesQuery); !slices.Equal(got, before) {
		t.Errorf("the server keeps rules: %q", changes(before, got))
	}
}

var sqlPieces = []string{
	"'", "''", `\`, `\'`, "$$", "$a$", ";", "--", "/*", "*/", "E'", " ", "\n", "(", ")", `"`, "%", "$1", "SELECT 1", "BEGIN", "END", "END;", "COMMIT", "ROLLBACK",
	"EXECUTE", "RETURN;", "RESET ROLE;", "SET ROLE postgres;", "RESET SESSION AUTHORIZATION;", "DROP DATABASE app;", "DROP TABLE one;",
	"CREATE ROLE evil SUPERUSER;", "ALTER ROLE app SUPERUSER;", "CREATE DATABASE evil;", "CREATE SCHEMA more;", "INSERT INTO one VALUES ('x');",
	"SET standard_conforming_strings = off;", "é", "\u2028", "null",
}

// takesSQL gives a new database random first statements: all of them are executed, or none, and
// nothing outside of the database changes.
func (i anyInput) takesSQL(t *testing.T) {
	t.Helper()
	its := postgres.Application{User: i.app.User, Password: i.app.Password, Database: "initialised", Initialise: true}
	i.do(Call{Do: "provide", Application: its})
	text, literal := anyText(i.random, sqlPieces, 120), anyText(i.random, sqlPieces, 120)
	table := contract.Statement{SQL: "CREATE TABLE one (name text)"}
	insert := contract.Statement{SQL: "INSERT INTO one VALUES ('" + strings.ReplaceAll(literal, "'", "''") + "')"}
	first := contract.Provisions{InitSQL: []contract.Statement{table, insert, {SQL: text}}}
	_, err := i.try(Call{Do: "declared", Application: its, Provisions: first})
	if err != nil {
		if !strings.Contains(err.Error(), "nothing of initSQL was done") {
			t.Errorf("%q: got %v", text, err)
		}
		if has := i.lines(t, its.Database, insideQuery); slices.Contains(has, "table one of app") || slices.Contains(has, "schema more of app") {
			t.Errorf("%q is refused, and something was made: %q", text, has)
		}
		i.do(Call{Do: "declared", Application: its, Provisions: contract.Provisions{InitSQL: []contract.Statement{table, insert}}})
		if got := i.value(t, its.Database, "SELECT string_agg(name, '|') FROM one"); got != literal {
			t.Errorf("%q became %q", literal, got)
		}
	}
	want := []string{"+database " + its.Database + " of app"}
	if got := changes(i.before, i.lines(t, "postgres", clusterQuery)); !slices.Equal(got, want) {
		t.Errorf("%q: these are changed: %q", text, got)
	}
	i.do(Call{Do: "declared", Application: i.app, Provisions: contract.Provisions{DropDatabases: []string{its.Database}}})
}
