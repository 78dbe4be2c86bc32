package instances

import (
	"crypto/rand"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// dataFile returns the path of a file of a Cache's data, as this test sees it.
func (p *Pod) dataFile(name string) string { return p.Volume() + "/data/server/" + name }

// has reports whether a file of a Cache's data exists.
func (p *Pod) has(name string) bool {
	_, err := os.Stat(p.dataFile(name))
	return err == nil
}

// unstoredReplica starts two instances, of which the replica has no room for its append-only file.
// remove is a command that makes room.
func unstoredReplica(t *testing.T) (d *Database, leader, replica *Pod, remove []string) {
	t.Helper()
	d = cacheOf(t, stored, 2)
	leader = d.Published(t.Context())
	replica = d.others(leader)[0]
	const count, size, volume = 18, 1 << 20, 32 // The snapshot has room, and no second copy of the data.
	remove = []string{"DEL"}
	for number := range count {
		value := make([]byte, size)
		_, _ = rand.Read(value) // It never fails.
		remove = append(remove, "large-"+strconv.Itoa(number))
		_, err := leader.ask("SET", remove[number+1], string(value))
		d.must(err)
	}
	replica.Kill()
	d.must(replica.Wipe())
	d.must(replica.Limit(volume))
	replica.Start()
	d.Await("word of a replica that it does not store its data", func() bool {
		report := replica.Report(t.Context())
		return report.State == "Following" && strings.Contains(report.Problem, "not stored yet: the last rewrite of the append-only file failed")
	})
	if report := replica.Report(t.Context()); report.Role != contract.NoRole {
		t.Errorf("it counts as a replica: %+v", report)
	}
	return d, leader, replica, remove
}

// writeKept sets the key "kept" on a pod.
func (p *Pod) writeKept() {
	p.d.t.Helper()
	_, err := p.ask("SET", "kept", "yes")
	p.d.must(err)
}

// hasKept reports whether that key is set on a pod.
func (p *Pod) hasKept() bool {
	value, err := p.ask("GET", "kept")
	return err == nil && value == "yes"
}

// TestCacheHandoverBeforeStored: a replica whose volume has no room for its append-only file is not
// ready, says why, and gets no handover. Once there is room, it is ready without a restart.
func TestCacheHandoverBeforeStored(t *testing.T) {
	t.Parallel()
	d, leader, replica, remove := unstoredReplica(t)
	term := d.Record(t.Context()).Term
	d.configure(func(s *contract.Settings) { s.SwitchFrom = term })
	begun := time.Now()
	d.Await("a time in which the primary would hand over", func() bool { return time.Since(begun) > 5*time.Second })
	if now := d.Record(t.Context()); now.Term != term || now.Released() {
		t.Fatalf("the primary has handed over: %+v", now)
	}
	_, err := leader.ask(remove...)
	d.must(err)
	leader.writeKept()
	took := d.Await("the handover, once there is room", func() bool { return d.Published(t.Context()) == replica && d.IsWhole(t.Context()) })
	t.Logf("once there was room, it took %s", took.Round(time.Millisecond))
	if !replica.hasKept() || !replica.has("appendonlydir/appendonly.aof.manifest") {
		t.Error("the append-only file is missing, or the write")
	}
}

// TestCacheFailoverBeforeStored: if the primary is lost, a replica that does not store its data yet
// takes over, with all of them. If that ends too, the former primary leads with what it has stored,
// which is more than the copy of the other.
func TestCacheFailoverBeforeStored(t *testing.T) {
	t.Parallel()
	d, leader, replica, _ := unstoredReplica(t)
	leader.writeKept()
	d.Await("a replica that has the write, and may take over", func() bool {
		rules := d.Record(t.Context()).Rules
		named := election.Member{Name: replica.Name, Incarnation: replica.Report(t.Context()).Incarnation}
		return replica.hasKept() && len(rules) == 1 && slices.Contains(rules[0].Set, named)
	})
	d.Await("data that the primary has stored", func() bool {
		text, err := leader.ask("INFO", "persistence")
		return err == nil && strings.Contains(text, "aof_buffer_length:0\r") && strings.Contains(text, "aof_pending_bio_fsync:0\r")
	})
	leader.Kill()
	d.Await("the replica as the primary, alone", func() bool {
		record := d.Record(t.Context())
		return d.Published(t.Context()) == replica && record.Open && len(record.Rules) == 1 && len(record.Rules[0].Set) == 0
	})
	if !replica.hasKept() {
		t.Error("the replica took over without a write that it had")
	}
	replica.Kill()
	leader.Start()
	d.Await("the former primary as a standby", func() bool { return leader.Report(t.Context()).State == "Standby" })
	replica.Start()
	d.Await("the former primary again", func() bool { return d.Published(t.Context()) == leader && leader.hasKept() })
}

// TestCacheTellsOfALoss: a primary that goes on with a snapshot, because its server has ended
// without an append-only file, says that writes are lost.
func TestCacheTellsOfALoss(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(stored, "save", "1 1"), 1)
	pod := d.Pods[0]
	d.Await("a snapshot beside the append-only file", func() bool {
		pod.writeKept()
		return pod.has("dump.rdb") && pod.has("appendonlydir/appendonly.aof.manifest")
	})
	if problem := pod.Report(t.Context()).Problem; problem != "" {
		t.Errorf("while nothing is lost, it says %q", problem)
	}
	pod.Kill()
	d.must(os.RemoveAll(pod.dataFile("appendonlydir")))
	pod.Start()
	d.Await("word of the loss", func() bool {
		report := pod.Report(t.Context())
		return report.Role == contract.Primary && strings.Contains(report.Problem, "its server had no append-only file")
	})
	if !pod.hasKept() {
		t.Error("the snapshot was not loaded")
	}
}
