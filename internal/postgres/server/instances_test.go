//go:build instances

package server

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onsi/gomega"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

func isLeading(o engine.Observation) bool {
	return o.Server.State == election.Leading && o.Server.Settled && o.Server.Committed
}

// begin makes the first instance a leader on that timeline, and the others its standbys.
func (c *cluster) begin(timeline uint32) (a, b, d *instance) {
	t := c.t
	t.Helper()
	a, b, d = c.instances[0], c.instances[1], c.instances[2]
	a.do(Call{Do: "initialise"})
	a.start()
	a.do(Call{Do: "rule", Rule: election.Rule{Leader: a.member()}})
	if answer := a.do(Call{Do: "promote", Timeline: timeline}); answer.Observed.Server.Timeline != timeline {
		t.Fatalf("got timeline %d", answer.Observed.Server.Timeline)
	}
	a.wait("leading", isLeading)
	_, err := a.session().Exec(t.Context(), "CREATE TABLE written (number int PRIMARY KEY)")
	check(t, err)
	check(t, a.write(1, waitLimit))
	for _, i := range []*instance{b, d} {
		i.do(Call{Do: "clone", From: a.upstream(1)})
		i.following(a, 1)
	}
	a.wait("sending", func(o engine.Observation) bool {
		return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
	})
	a.do(Call{Do: "rule", Rule: rule(a, b, d)})
	a.wait("leading under the rule", isLeading)
	return a, b, d
}

// rule returns a rule that waits for one of the others.
func rule(leader *instance, others ...*instance) election.Rule {
	made := election.Rule{Leader: leader.member(), Acks: 1}
	for _, other := range others {
		made.Set = append(made.Set, other.member())
	}
	return made
}

// start starts a server and returns its position.
func (i *instance) start() election.Position {
	i.t.Helper()
	i.do(Call{Do: "start"})
	i.wait("final", func(o engine.Observation) bool { return o.Server.Final })
	return i.observe().Server.Position
}

// following starts a server and makes it receive from the leader.
func (i *instance) following(leader *instance, term uint64) {
	i.t.Helper()
	i.start()
	i.follow(leader, term)
}

// follow makes a server receive from the leader.
func (i *instance) follow(leader *instance, term uint64) {
	i.t.Helper()
	leader.do(Call{Do: "know", From: i.upstream(0)})
	i.do(Call{Do: "follow", From: leader.upstream(term)})
}

// final removes the source and returns the final position.
func (i *instance) final() election.Position {
	i.t.Helper()
	answer := i.do(Call{Do: "unfollow"})
	if !answer.Observed.Server.Final || answer.Observed.Server.Source != (election.Source{}) {
		i.t.Fatalf("got %+v", answer.Observed.Server)
	}
	return answer.Observed.Server.Position
}

// has fails the test if a number that was acknowledged is missing.
func (i *instance) has(count int) {
	i.t.Helper()
	found := i.numbers()
	for number := 1; number <= count; number++ {
		if !slices.Contains(found, int32(number)) {
			i.t.Errorf("%s: %d was acknowledged and is not there: %v", i.name, number, found)
		}
	}
}

// TestWriting: commits wait for the rule's members, and only for them.
func TestWriting(t *testing.T) {
	a, b, d := newCluster(t).begin(7)
	check(t, a.write(2, waitLimit))
	b.do(Call{Do: "kill"})
	check(t, a.write(3, waitLimit))
	d.do(Call{Do: "kill"})
	b.start()
	b.do(Call{Do: "follow", From: engine.Upstream{Leader: a.member(), Term: 1, Host: "127.0.0.9"}})
	b.wait("receiving nothing", func(o engine.Observation) bool {
		return strings.Contains(o.Problem, "receives nothing from db-0: could not connect to the primary server") &&
			strings.Contains(o.Problem, "Connection refused")
	})
	b.do(Call{Do: "kill"})
	if err := a.write(4, 2*time.Second); err == nil {
		t.Error("a commit was acknowledged that no member has")
	}
	a.wait("short of members, with a disk that works", func(o engine.Observation) bool {
		return strings.Contains(o.Problem, "commits wait: 0 of 1") && o.UnflushedSince.IsZero()
	})
	a.do(Call{Do: "rule", Rule: election.Rule{Leader: a.member()}})
	a.wait("leading alone", isLeading)
	check(t, a.write(5, waitLimit))
	a.session("replication=database") // a foreign one, which never sends, as during a copy of a table
	a.do(Call{Do: "rule", Rule: rule(a, b)})
	if err := a.write(6, 2*time.Second); err == nil {
		t.Error("a commit was acknowledged under the new rule that no member has")
	}
	if o := a.observe(); o.Server.Settled || o.Server.Committed {
		t.Errorf("got %+v", o.Server)
	}
	b.following(a, 1)
	a.wait("leading with one", isLeading)
	check(t, a.write(7, waitLimit))
	end := a.observe().Server.Position
	b.wait("at the leader's end", func(o engine.Observation) bool {
		return postgres.Positions{}.Compare(o.Server.Position, end) != election.Behind
	})
	if position := b.final(); (postgres.Positions{}).Compare(position, end) == election.Behind {
		t.Errorf("got %s, behind %s", position, end)
	}
	if err := a.write(8, 2*time.Second); err == nil {
		t.Error("a commit was acknowledged after its member left")
	}
}

// TestHandingOver: a clean stop, a crash and a restart as the leader lose nothing, and promotions
// are on the claimed timelines.
func TestHandingOver(t *testing.T) {
	a, b, d := newCluster(t).begin(7)
	check(t, a.write(2, waitLimit))
	check(t, syscall.Kill(a.pid(), syscall.SIGKILL))
	a.wait("stopped", func(o engine.Observation) bool { return o.Server.State == election.Stopped })
	if o := a.observe(); !strings.Contains(o.Problem, "the server ended (signal: killed)") {
		t.Errorf("got %q", o.Problem)
	}
	a.do(Call{Do: "resume", Rule: rule(a, b, d)})
	a.wait("leading again", isLeading)
	check(t, a.write(3, waitLimit))
	a.has(3)
	a.wait("sending to both", func(o engine.Observation) bool { return len(o.Receivers) == 2 })

	stopped := a.do(Call{Do: "stop"}).Observed.Server
	if !stopped.Clean || stopped.State != election.Stopped {
		t.Fatalf("got %+v", stopped)
	}
	for _, i := range []*instance{b, d} {
		if position := i.final(); (postgres.Positions{}).Compare(position, stopped.Position) != election.Equal {
			t.Errorf("%s has %s after a clean stop at %s", i.name, position, stopped.Position)
		}
	}
	b.do(Call{Do: "rule", Rule: rule(b, a, d)})
	b.do(Call{Do: "promote", Timeline: 12})
	history := b.observe().Server.History
	if position := a.start(); !(postgres.Positions{}).Holds(history, position) {
		t.Errorf("%s is no part of %s", position, history)
	}
	a.follow(b, 2)
	d.follow(b, 2)
	b.wait("leading", isLeading)
	b.wait("sending to both", func(o engine.Observation) bool { return len(o.Receivers) == 2 })
	check(t, b.write(4, waitLimit))
	a.has(3)

	b.do(Call{Do: "kill"})
	first, second := a.final(), d.final()
	next, other := a, d
	if (postgres.Positions{}).Compare(first, second) == election.Behind {
		next, other = d, a
	}
	next.do(Call{Do: "rule", Rule: rule(next, other, b)})
	next.do(Call{Do: "promote", Timeline: 13})
	other.follow(next, 3)
	next.wait("leading", isLeading)
	check(t, next.write(5, waitLimit))
	next.has(5)
}

// TestDyingInBetween: a server that is killed during a promotion or a change of timelines starts
// again and follows.
func TestDyingInBetween(t *testing.T) {
	a, b, d := newCluster(t).begin(3)
	leader, standby, timeline, term, written := a, b, uint32(3), uint64(1), 1
	others := func(leader *instance) []*instance {
		return slices.DeleteFunc([]*instance{a, b, d}, func(i *instance) bool { return i == leader })
	}
	for round := range 4 {
		leader.do(Call{Do: "stop"})
		standby.final()
		third := others(leader)[0]
		if third == standby {
			third = others(leader)[1]
		}
		third.final()
		timeline += 3
		standby.do(Call{Do: "rule", Rule: rule(standby, others(standby)...)})
		killed := make(chan error, 1)
		go func() {
			_, err := standby.try(Call{Do: "promote", Timeline: timeline})
			killed <- err
		}()
		<-time.After(time.Duration(round*7) * time.Millisecond)
		standby.do(Call{Do: "kill"})
		t.Logf("round %d: the promotion ended with %v", round, <-killed)
		standby.start()

		timeline, term = timeline+3, term+1
		third.do(Call{Do: "rule", Rule: rule(third, others(third)...)})
		history := third.do(Call{Do: "promote", Timeline: timeline}).Observed.Server.History
		for _, i := range others(third) {
			if position := i.start(); !(postgres.Positions{}).Holds(history, position) {
				t.Logf("%s: %s is no part of %s", i.name, position, history)
				i.do(Call{Do: "clone", From: third.upstream(term)})
				i.start()
			}
			i.follow(third, term)
			<-time.After(time.Duration(round*40) * time.Millisecond)
			i.do(Call{Do: "kill"})
			i.following(third, term)
		}
		third.do(Call{Do: "rule", Rule: rule(third, others(third)...)})
		third.wait("leading", isLeading)
		third.wait("sending to both", func(o engine.Observation) bool {
			return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
		})
		written++
		check(t, third.write(written, waitLimit))
		third.has(written)
		leader, standby = third, others(third)[round%2]
	}
}

// TestLogOfItsOwn: data whose log is elsewhere are initialised, cloned, promoted and followed like
// any others.
func TestLogOfItsOwn(t *testing.T) {
	c := newCluster(t)
	for _, i := range c.instances[:2] {
		i.do(Call{Do: "apart"})
	}
	a, b, d := c.begin(2)
	for _, i := range c.instances {
		log, err := os.Readlink(filepath.Join(filepath.Dir(i.run), "volume", "data", "pg_wal"))
		if isApart := err == nil && strings.Contains(log, "/volume/logs/log-"); isApart != (i != d) {
			t.Errorf("%s has its log in %q, %v", i.name, log, err)
		}
	}
	a.do(Call{Do: "stop"})
	b.final()
	d.final()
	b.do(Call{Do: "rule", Rule: rule(b, a, d)})
	b.do(Call{Do: "promote", Timeline: 5})
	a.start()
	for _, i := range []*instance{a, d} {
		i.follow(b, 2)
	}
	b.wait("leading", isLeading)
	check(t, b.write(2, waitLimit))
	for _, i := range []*instance{a, d} {
		i.wait("on the new timeline", func(o engine.Observation) bool { return strings.HasPrefix(string(o.Server.Position), "5:") })
	}
	b.do(Call{Do: "kill"})
	b.do(Call{Do: "inspect"})
	b.do(Call{Do: "resume", Rule: rule(b, a, d)})
	b.has(2)
}

// counts waits until a query at an instance counts that many.
func (i *instance) counts(want, query string) {
	i.t.Helper()
	gomega.NewWithT(i.t).Eventually(func() string { return i.value(i.t, "postgres", "SELECT count(*)::text "+query) }).
		WithTimeout(waitLimit).WithPolling(50*time.Millisecond).Should(gomega.Equal(want), query)
}

// TestCloneOfABusyLeader: what the leader writes until a clone receives is kept for it, however
// much that is, and no longer.
func TestCloneOfABusyLeader(t *testing.T) {
	c := newCluster(t)
	c.instances[0].do(Call{Do: "keep least"})
	a, b, _ := c.begin(2)
	b.do(Call{Do: "clone", From: a.upstream(1)})
	for range 2 {
		for _, statement := range []string{
			"SELECT pg_logical_emit_message(false, 'test', repeat('x', 10000000)) FROM generate_series(1, 9)", "CHECKPOINT",
		} {
			_, err := a.session().Exec(t.Context(), statement)
			check(t, err)
		}
	}
	// Nothing but the clone's session keeps the log: the slot of the former data was dropped.
	a.counts("0", "FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL")
	a.wait("sending to the other", func(o engine.Observation) bool { return len(o.Receivers) == 1 && o.Receivers[0].Near })
	_, err := a.session().Exec(t.Context(), "CHECKPOINT")
	check(t, err)
	b.following(a, 1)
	a.wait("sending to both", func(o engine.Observation) bool {
		return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
	})
	a.counts("0", "FROM pg_replication_slots WHERE temporary")
}

// TestTimelineWithoutData: a standby whose promotion was killed when it had written its history
// file, and nothing else, can follow the member that was promoted instead.
func TestTimelineWithoutData(t *testing.T) {
	a, b, d := newCluster(t).begin(3)
	a.do(Call{Do: "stop"})
	position := b.final()
	d.final()
	b.do(Call{Do: "kill"})
	_, fork, _ := strings.Cut(string(position), ":")
	content := "1\t0/1740000\tno recovery target specified\n\n3\t" + fork + "\tno recovery target specified\n"
	log := filepath.Join(filepath.Dir(b.run), "volume", "data", "pg_wal")
	for name, content := range map[string]string{"00000004.history": postgres.Planted(), "00000005.history": content} {
		check(t, os.WriteFile(filepath.Join(log, name), []byte(content), 0o600))
		check(t, os.Chown(filepath.Join(log, name), testUser, testUser))
	}
	d.do(Call{Do: "rule", Rule: rule(d, a, b)})
	d.do(Call{Do: "promote", Timeline: 8})
	if found := b.start(); found != position {
		t.Errorf("got %s, want %s", found, position)
	}
	b.follow(d, 2)
	d.wait("leading", isLeading)
	check(t, d.write(2, waitLimit))
	b.wait("on the new timeline", func(o engine.Observation) bool { return strings.HasPrefix(string(o.Server.Position), "8:") })
}

// TestPartOfATimeline: a standby that was killed while it received the first file of a new
// timeline, a copy of one that it has, still has everything that it had before. What it has of the
// copy stays if it is more than it has of the original, and what it has of the new timeline does.
func TestPartOfATimeline(t *testing.T) {
	a, b, d := newCluster(t).begin(3)
	for number := 2; number < 10; number++ {
		check(t, a.write(number, waitLimit))
	}
	a.do(Call{Do: "stop"})
	position := b.final()
	d.final()
	b.do(Call{Do: "kill"})
	_, fork, _ := strings.Cut(string(position), ":")
	end, err := postgres.ParseLSN(fork)
	check(t, err)
	log := filepath.Join(filepath.Dir(b.run), "volume", "data", "pg_wal")
	number, offset := uint64(end)/postgres.SegmentBytes, uint64(end)%postgres.SegmentBytes
	read := func(timeline uint32) []byte {
		content, err := os.ReadFile(filepath.Join(log, postgres.SegmentName(timeline, number)))
		check(t, err)
		return content
	}
	whole := read(3)
	// startsWith returns the position with so much of the file and of its copy.
	startsWith := func(original, copied uint64) postgres.LSN {
		for name, content := range map[string][]byte{
			"00000004.history": []byte(postgres.Planted()), "00000005.history": []byte("1\t0/1740000\tx\n\n3\t" + fork + "\tx\n"),
			postgres.SegmentName(3, number): upTo(whole, original), postgres.SegmentName(5, number): upTo(whole, copied),
		} {
			check(t, os.WriteFile(filepath.Join(log, name), content, 0o600))
			check(t, os.Chown(filepath.Join(log, name), testUser, testUser))
		}
		_, found, _ := strings.Cut(string(b.start()), ":")
		at, err := postgres.ParseLSN(found)
		check(t, err)
		b.do(Call{Do: "kill"})
		return at
	}
	if b.major() >= 13 { // Unfollow stops a 12: then it needs all that it had.
		if at := startsWith(offset/4, offset/2); uint64(at)%postgres.SegmentBytes <= offset/4 || at >= end || len(read(5)) == 0 {
			t.Errorf("with more of the copy: got %s", at)
		}
	}
	for _, copied := range []uint64{0, 100, offset / 2, offset} {
		if at := startsWith(offset, copied); at != end {
			t.Errorf("with %d of %d bytes of the copy: got %s, want %s", copied, offset, at, end)
		}
	}
	d.do(Call{Do: "rule", Rule: rule(d, a, b)})
	d.do(Call{Do: "promote", Timeline: 8})
	b.following(d, 2)
	d.wait("leading", isLeading)
	check(t, d.write(10, waitLimit))
	b.wait("on the new timeline", func(o engine.Observation) bool { return strings.HasPrefix(string(o.Server.Position), "8:") })
	b.do(Call{Do: "kill"})
	before := read(8)
	if at := b.start(); !strings.HasPrefix(string(at), "8:") || !bytes.Equal(read(8), before) {
		t.Errorf("after it had received on the new timeline: got %s", at)
	}
	b.has(10)
}

// upTo returns the beginning of a file, and zeros for the rest.
func upTo(content []byte, end uint64) []byte {
	begun := slices.Clone(content)
	clear(begun[end:])
	return begun
}
