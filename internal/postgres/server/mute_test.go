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
	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// subtransactions opens a transaction with more subtransactions than a snapshot has room for, and
// returns its session.
func (i *instance) subtransactions(first int) *pgx.Conn {
	i.t.Helper()
	session := i.session()
	_, err := session.Exec(i.t.Context(), "BEGIN")
	check(i.t, err)
	for number := range 70 {
		_, err := session.Exec(i.t.Context(), fmt.Sprintf("SAVEPOINT s%d; INSERT INTO written VALUES (%d)", number, first+number))
		check(i.t, err)
	}
	return session
}

// restartPoint makes a standby begin, at its next start, with a checkpoint that its leader makes
// now.
func (i *instance) restartPoint(leader *instance) {
	i.t.Helper()
	_, err := leader.session().Exec(i.t.Context(), "CHECKPOINT")
	check(i.t, err)
	end := leader.value(i.t, "postgres", "SELECT pg_current_wal_insert_lsn()::text")
	gomega.NewWithT(i.t).Eventually(func() string {
		return i.value(i.t, "postgres", "SELECT (pg_last_wal_replay_lsn() >= '"+end+"')::text")
	}).WithTimeout(waitLimit).WithPolling(50 * time.Millisecond).Should(gomega.Equal("true"))
	_, err = i.session().Exec(i.t.Context(), "CHECKPOINT")
	check(i.t, err)
}

// writesNothing adds to the log of a leader what no restart point of its standbys makes them note:
// a record that changes no page and belongs to no transaction. One of them has it.
func (i *instance) writesNothing() {
	i.t.Helper()
	_, err := i.session().Exec(i.t.Context(), "CHECKPOINT")
	check(i.t, err)
	end := i.value(i.t, "postgres", "SELECT pg_logical_emit_message(false, 'test', 'x')::text")
	i.counts("1", "FROM pg_stat_replication WHERE flush_lsn >= '"+end+"'")
}

// mute fails the test if a standby without a source accepts sessions, or does not say why not.
func (i *instance) mute() {
	i.t.Helper()
	if o := i.observe(); o.Connected || !o.Server.Final || !strings.HasPrefix(o.Problem, "accepts no sessions yet: ") {
		i.t.Fatalf("%s: got %+v", i.name, o)
	}
	if _, err := pgx.Connect(i.t.Context(), fmt.Sprintf("host=%s port=%d user=postgres", i.socket, testPort)); !isStarting(err) {
		i.t.Fatalf("%s: got %v", i.name, err)
	}
}

// reaches waits until a mute standby has received up to a place of its leader's log.
func (i *instance) reaches(end election.Position) {
	i.t.Helper()
	i.wait("at the leader's end", func(o engine.Observation) bool {
		return postgres.Positions{}.Compare(o.Server.Position, end) != election.Behind
	})
}

// preallocates adds empty files to the log of an instance, as a checkpoint may.
func (i *instance) preallocates(timeline uint32) {
	i.t.Helper()
	directory := filepath.Join(filepath.Dir(i.run), "volume", "data", "pg_wal")
	for number := range uint64(32) {
		path := filepath.Join(directory, postgres.SegmentName(timeline, number))
		if _, err := os.Stat(path); err == nil {
			continue
		}
		check(i.t, os.WriteFile(path, nil, 0o600))
		check(i.t, os.Truncate(path, postgres.SegmentBytes))
		check(i.t, os.Chown(path, testUser, testUser))
	}
}

// followsAnew lets a mute standby follow after it was restarted because of a timeline without data.
// It says all the time up to where it has the log.
func (i *instance) followsAnew(leader *instance) {
	i.t.Helper()
	before, pid := i.observe().Server.Position, i.pid()
	history := filepath.Join(filepath.Dir(i.run), "volume", "data", "pg_wal", "00000008.history")
	check(i.t, os.WriteFile(history, []byte("3\tF/0\tno reason\n"), 0o644)) //nolint:gosec // The server must read it.
	i.follow(leader, 1)
	after := i.observe().Server.Position
	if after == "" || (postgres.Positions{}).Compare(after, before) == election.Behind || i.pid() == pid {
		i.t.Errorf("%s had %s, and now %q", i.name, before, after)
	}
	i.reaches(leader.observe().Server.Position)
}

// TestStandbyStartsDuringManySubtransactions: a standby whose log begins during a transaction with
// more than 64 subtransactions accepts no sessions. It is started, acknowledges, and answers once
// that transaction has ended. If it is the only member, it becomes the leader, and its position was
// exactly what it had. A clone is started, too.
func TestStandbyStartsDuringManySubtransactions(t *testing.T) {
	a, b, d := newCluster(t).needsWaldump(saysIdle).begin(3)
	many := a.subtransactions(1000)
	b.restartPoint(a)
	b.do(Call{Do: "kill"})
	b.start()
	b.mute()
	b.follow(a, 1)
	d.do(Call{Do: "kill"})
	check(t, a.write(2, waitLimit))
	b.reaches(a.observe().Server.Position)
	if o := b.observe(); o.Connected || !strings.HasPrefix(o.Problem, "accepts no sessions yet: ") {
		t.Errorf("as long as the transaction runs: got %+v", o)
	}
	if _, err := b.try(Call{Do: "parameters"}); err == nil || !strings.Contains(err.Error(), "the parameters can't be checked yet") {
		t.Errorf("a mute server's parameters: got %v", err)
	}
	_, err := many.Exec(t.Context(), "COMMIT")
	check(t, err)
	b.wait("answering", func(o engine.Observation) bool { return o.Connected && o.Problem == "" })
	b.counts("72", "FROM written")

	a.subtransactions(2000)
	b.restartPoint(a)
	b.do(Call{Do: "kill"})
	b.start()
	b.follow(a, 1)
	check(t, a.write(3, waitLimit))
	d.do(Call{Do: "clone", From: a.upstream(1)})
	d.start()
	d.mute()
	b.final()
	b.mute()
	b.followsAnew(a)
	a.writesNothing()
	a.do(Call{Do: "kill"})
	b.do(Call{Do: "kill"})
	b.preallocates(3)
	position := b.start()
	b.mute()
	b.do(Call{Do: "rule", Rule: election.Rule{Leader: b.member()}})
	history := b.do(Call{Do: "promote", Timeline: 9}).Observed.Server.History
	b.wait("leading", isLeading)
	if !strings.HasSuffix(string(history), " "+string(position)+" 9") {
		t.Errorf("the position was %s, and the history is %s", position, history)
	}
	b.has(3)
	b.counts("73", "FROM written")
	check(t, b.write(4, waitLimit))
}
