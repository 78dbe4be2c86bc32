package instances

import (
	"strconv"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestAtRest: once the databases and users of a spec are made, and as long as the spec stays, the
// primary is not asked for any change. What an instance does beside, it reads, or writes into the
// log only.
func TestAtRest(t *testing.T) {
	t.Parallel()
	d := New(t, server, contract.Settings{FailoverAfter: longAfter, Parameters: map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "all", "autovacuum": "off",
	}}, 1)
	d.mount(map[string]string{"username": "app", "password": "secret", "dbname": "shop"})
	d.Await("an instance that serves", func() bool { return d.IsWhole(t.Context()) })
	primary := d.Published(t.Context())
	ask := func(query string) string {
		t.Helper()
		text, err := primary.SQL(query)
		d.must(err)
		return text
	}
	ask("CREATE EXTENSION pg_stat_statements")
	verifier, err := postgres.Verifier("secret")
	d.must(err)
	provisions := contract.Provisions{
		Pooler: true,
		Users: []contract.User{
			{Name: "orders", Verifier: verifier, ConnectionLimit: -1, Roles: []string{"pg_monitor"}},
			{Name: "orders.2", As: "orders", Verifier: verifier, ConnectionLimit: -1, Roles: []string{"orders"}},
		},
		Databases: []contract.Database{{Name: "orders", Owner: "orders", Extensions: []string{"citext"}, Schemas: []string{"sales"}}},
	}
	primary.makes(provisions)
	// Sessions in which users are made are not counted by statement, but the rows that they change
	// are, of whatever database, and of those that all databases share; and they are logged.
	const changed = "SELECT sum(tup_inserted + tup_updated + tup_deleted) FROM pg_stat_database"
	const beats = "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query LIKE '%pg_logical_emit_message%'"
	const others = "SELECT coalesce(string_agg(query, '; '), '') FROM pg_stat_statements WHERE query !~* '^\\s*(SELECT|SHOW|SET|RESET)\\M'"
	made := func() int { return strings.Count(primary.log(), "the databases and users of the spec exist") }
	beaten := func() int {
		t.Helper()
		count, err := strconv.Atoi(ask(beats))
		d.must(err)
		return count
	}
	waitForBeats := func(count int) {
		t.Helper()
		from := beaten()
		d.Await("heartbeats", func() bool { return beaten() >= from+count })
	}
	waitForBeats(2) // Until then, what was made is counted.
	ask("SELECT pg_stat_statements_reset()")
	before, times := ask(changed), made()
	waitForBeats(5)
	if after := ask(changed); after != before || made() != times || times != 1 {
		t.Errorf("%s rows were changed, and at rest %s; the users were made %d times, and then %d", before, after, times, made())
	}
	if found := ask(others); found != "" {
		t.Errorf("statements at rest: %s", found)
	}
	// The counters see a change, such as a user that is declared otherwise.
	provisions.Users[0].ConnectionLimit = 7
	primary.makes(provisions)
	d.Await("rows that change", func() bool { return ask(changed) != before })
	if made() != 2 {
		t.Errorf("the users were made %d times", made())
	}
}

// makes declares databases and users, and waits until the primary, which this is, has made them.
func (p *Pod) makes(provisions contract.Provisions) {
	p.d.t.Helper()
	p.d.declare(provisions)
	p.d.Await("the databases and users", func() bool {
		return p.Report(p.d.t.Context()).Provisions == contract.ProvisionsRevision(provisions.Encode())
	})
}
