//go:build instances

package server

import (
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// statistics returns a server's statistics. Before PostgreSQL 15, those of databases are collected
// by a process that needs the name localhost, which pods have, but not the root of a test.
func (i *instance) statistics() (s postgres.Statistics, isWhole bool) {
	i.t.Helper()
	answer := i.do(Call{Do: "statistics", Within: waitLimit})
	var version int
	check(i.t, i.session().QueryRow(i.t.Context(), "SELECT current_setting('server_version_num')::int", pgx.QueryExecModeSimpleProtocol).
		Scan(&version))
	const collected = 150000
	if answer.Missing != "" && version >= collected {
		i.t.Error(answer.Missing)
	}
	return answer.Statistics, answer.Missing == ""
}

// TestStatistics: the statistics of a leader and of a standby are read with the rights of a role
// that may only read, even if a schema has objects with names of pg_catalog.
func TestStatistics(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	session := a.session()
	for _, statement := range []string{
		`CREATE DATABASE "d'b"`, "CREATE SCHEMA evil", "CREATE FUNCTION evil.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT 1/0 = 0'",
		"ALTER ROLE postgres SET search_path = evil, pg_catalog", "BEGIN",
	} {
		_, err := session.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		check(t, err)
	}
	led, isWhole := a.statistics()
	names := []string{}
	for _, one := range led.Databases {
		names = append(names, one.Name)
		if one.Size < 1<<20 {
			t.Errorf("%s has %.0f bytes", one.Name, one.Size)
		}
	}
	if isWhole && (!slices.Equal(names, []string{"postgres", "d'b"}) || led.Databases[0].Commits < 1) {
		t.Errorf("the leader has %+v", led.Databases)
	}
	if led.Connections < 2 || led.MaxConnections < 10 || led.OldestTransaction <= 0 || led.TransactionIDAge < 1 {
		t.Errorf("the leader: got %+v", led)
	}
	isB := func(r postgres.ReceiverStatistics) bool { return r.Pod == b.member().Name }
	if len(led.Receivers) != 2 || !slices.ContainsFunc(led.Receivers, isB) {
		t.Errorf("the leader sends to %+v", led.Receivers)
	}
	follows, isWhole := b.statistics()
	for end := time.Now().Add(waitLimit); isWhole && len(follows.Databases) < 2 && time.Now().Before(end); {
		follows, isWhole = b.statistics() // It replays what was written a moment ago.
	}
	if isWhole && len(follows.Databases) != 2 || len(follows.Receivers) != 0 || follows.MaxConnections != led.MaxConnections {
		t.Errorf("a standby: got %+v", follows)
	}
	d.do(Call{Do: "kill"})
	if answer, err := d.try(Call{Do: "statistics"}); err == nil {
		t.Errorf("a server that does not run says %+v", answer.Statistics)
	}
}
