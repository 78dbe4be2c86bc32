//go:build instances

package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestManyUsers: a thousand users and a hundred databases are made within a minute; a second time
// reads them, and writes nothing; so does the rotation of all of them.
func TestManyUsers(t *testing.T) {
	const users, databases, most = 1000, 100, time.Minute
	a, _, _ := newCluster(t).begin(2)
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	verifier := verifierOf(t, "one")
	var provisions contract.Provisions
	for i := range users {
		user := contract.User{Name: fmt.Sprintf("user-%d", i), Verifier: verifier, ConnectionLimit: -1, Roles: []string{"pg_read_all_data"}}
		provisions.Users = append(provisions.Users, user)
		if i < databases {
			provisions.Databases = append(provisions.Databases, contract.Database{Name: user.Name, Owner: user.Name})
		}
	}
	// Every change of a role or a database makes a new version of its row.
	versions := `SELECT md5(string_agg(v, ' ')) FROM (SELECT xmin || ' ' || ctid AS v FROM pg_authid
		UNION ALL SELECT xmin || ' ' || ctid FROM pg_auth_members UNION ALL SELECT xmin || ' ' || ctid FROM pg_db_role_setting
		UNION ALL SELECT xmin || ' ' || ctid FROM pg_database ORDER BY v) all_rows`
	declare := func(what string) time.Duration {
		t.Helper()
		began := time.Now()
		a.do(Call{Do: "declared", Application: app, Provisions: provisions, Within: 2 * most})
		took := time.Since(began)
		t.Logf("%s: %s", what, took.Round(time.Millisecond))
		if took > most {
			t.Errorf("%s: took %s, want at most %s", what, took, most)
		}
		return took
	}
	first := declare("made")
	made := a.value(t, "postgres", "SELECT (SELECT count(*) FROM pg_roles WHERE rolname LIKE 'user-%') || ' ' || "+
		"(SELECT count(*) FROM pg_database WHERE datname LIKE 'user-%')")
	if made != "1000 100" {
		t.Errorf("made %s", made)
	}
	before := a.value(t, "postgres", versions)
	if again := declare("made again"); again > first {
		t.Errorf("a second time takes %s, and the first %s", again, first)
	}
	if after := a.value(t, "postgres", versions); after != before {
		t.Errorf("a second time writes: from %s to %s", before, after)
	}
	for i := range users {
		second := provisions.Users[i]
		second.As, second.Name, second.Roles = second.Name, postgres.SecondLogin(second.Name), []string{second.Name}
		provisions.Users = append(provisions.Users, second)
	}
	declare("all rotate")
	for i := range users {
		provisions.Users[i].Verifier = ""
	}
	declare("all former passwords end")
	before = a.value(t, "postgres", versions)
	declare("again")
	if after := a.value(t, "postgres", versions); after != before {
		t.Errorf("a second time writes: from %s to %s", before, after)
	}
	logIn := "SELECT string_agg(rolcanlogin::text, ' ' ORDER BY rolname) FROM pg_roles WHERE rolname IN ('user-77', 'user-77.2')"
	if got := a.value(t, "postgres", logIn); got != "false true" {
		t.Errorf("who logs in: %s", got)
	}
}
