package instances

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// accepts is what a standby says when it accepts sessions, and goesOn what it says then, or when it
// receives or is promoted.
const accepts = "ready to accept read-only connections"

var goesOn = regexp.MustCompile(accepts + "|started streaming WAL|received promote request")

// TestManySubtransactions: if all instances are killed at once during a transaction with more than
// 64 subtransactions, none of them accepts a session before there is a primary. They elect one all
// the same, and lose nothing.
func TestManySubtransactions(t *testing.T) {
	t.Parallel()
	if found, _ := filepath.Glob(os.Getenv(engines["postgresql"]) + "/usr/lib/postgresql/1[5-9]/bin/pg_waldump"); len(found) == 0 {
		t.Skip("the image has no pg_waldump of PostgreSQL 15 or later")
	}
	d := New(t, server, contract.Settings{FailoverAfter: after}, 3)
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > 10 })
	leader := d.Published(t.Context())
	asks := func(pod *Pod, statement string) string {
		t.Helper()
		said, err := pod.SQL(statement)
		d.must(err)
		return said
	}
	statements := "BEGIN; CREATE TABLE subtransactions (number int)"
	for number := range 70 {
		statements += fmt.Sprintf("; SAVEPOINT s%d; INSERT INTO subtransactions VALUES (%d)", number, number)
	}
	go func() { _, _ = leader.SQL(statements + "; SELECT pg_sleep(3600)") }() // It ends with the server.
	d.Await("the transaction", func() bool {
		return asks(leader, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") == "1"
	})
	asks(leader, "CHECKPOINT")
	end := asks(leader, "SELECT pg_current_wal_insert_lsn()")
	for _, replica := range d.others(leader) {
		d.Await("replica that has that checkpoint", func() bool {
			return asks(replica, "SELECT pg_last_wal_replay_lsn() >= '"+end+"'") == "t"
		})
		asks(replica, "CHECKPOINT")
	}
	logged := map[string]int{}
	for _, pod := range d.Pods {
		pod.Kill()
		logged[pod.Name] = len(pod.log())
	}
	acknowledged := clients.acknowledged()
	for _, pod := range d.Pods {
		pod.Start()
	}
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > acknowledged+10 })
	d.Await("whole database", func() bool { return d.IsWhole(t.Context()) })
	for _, replica := range d.others(leader) {
		if first := goesOn.FindString(replica.log()[logged[replica.Name]:]); first == accepts || first == "" {
			t.Errorf("%s accepted sessions before there was a primary (%q): the test proves nothing", replica.Name, first)
		}
	}
	for _, wrong := range clients.Check() {
		t.Error(wrong)
	}
}
