package instances

import (
	"crypto/rand"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// dataFile returns the path of a file of a Cache's data, as this test sees it.
func (p *Pod) dataFile(name string) string { return p.Volume() + "/data/server/" + name }

// has reports whether a file of a Cache's data exists.
func (p *Pod) has(name string) bool {
	_, err := os.Stat(p.dataFile(name))
	return err == nil
}

// TestCacheHandoverBeforeStored: a replica whose volume has no room for its append-only file is not
// ready, says why, and gets no handover. Once there is room, it is ready without a restart.
func TestCacheHandoverBeforeStored(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, stored, 2)
	leader, term := d.Published(t.Context()), d.Record(t.Context()).Term
	const count, size, volume = 18, 1 << 20, 32 // The snapshot has room, and no second copy of the data.
	remove := []string{"DEL"}
	for number := range count {
		value := make([]byte, size)
		_, _ = rand.Read(value) // It never fails.
		remove = append(remove, "large-"+strconv.Itoa(number))
		_, err := leader.ask("SET", remove[number+1], string(value))
		d.must(err)
	}
	replica := d.others(leader)[0]
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
	d.configure(func(s *contract.Settings) { s.SwitchFrom = term })
	begun := time.Now()
	d.Await("a time in which the primary would hand over", func() bool { return time.Since(begun) > 5*time.Second })
	if now := d.Record(t.Context()); now.Term != term || now.Released() {
		t.Errorf("the primary has handed over: %+v", now)
	}
	_, err := leader.ask(append(remove, "none")...)
	d.must(err)
	_, err = leader.ask("SET", "kept", "yes")
	d.must(err)
	took := d.Await("the handover, once there is room", func() bool {
		return d.Published(t.Context()) == replica && d.Record(t.Context()).Term > term && d.IsWhole(t.Context())
	})
	t.Logf("once there was room, it took %s", took.Round(time.Millisecond))
	if value, err := replica.ask("GET", "kept"); value != "yes" || !replica.has("appendonlydir/appendonly.aof.manifest") {
		t.Errorf("got %q, %v, and the append-only file is missing, or the write", value, err)
	}
}

// TestCacheTellsOfALoss: a primary that goes on with a snapshot, because its server has ended
// without an append-only file, says that writes are lost.
func TestCacheTellsOfALoss(t *testing.T) {
	t.Parallel()
	d := cacheOf(t, with(stored, "save", "1 1"), 1)
	pod := d.Pods[0]
	d.Await("a snapshot beside the append-only file", func() bool {
		_, err := pod.ask("SET", "kept", "yes")
		return err == nil && pod.has("dump.rdb") && pod.has("appendonlydir/appendonly.aof.manifest")
	})
	if problem := pod.Report(t.Context()).Problem; problem != "" {
		t.Errorf("while nothing is lost, it says %q", problem)
	}
	pod.Kill()
	d.must(os.RemoveAll(pod.dataFile("appendonlydir")))
	pod.Start()
	d.Await("word of the loss", func() bool {
		report := pod.Report(t.Context())
		return report.Role == contract.Primary && strings.Contains(report.Problem, "its server ended before it had an append-only file")
	})
	if value, err := pod.ask("GET", "kept"); value != "yes" {
		t.Errorf("of the snapshot there is %q, %v", value, err)
	}
}
