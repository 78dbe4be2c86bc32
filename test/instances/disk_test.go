package instances

import (
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/program"
)

// TestFullDisk: a leader whose disk is full makes way for one that can write, and a replica whose
// disk is full keeps nobody from writing. Both come back when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const size = 500 // MiB
	d := Make(t, server, program.Settings{FailoverAfter: after}, 3)
	for _, pod := range d.Pods {
		d.must(pod.Limit(size))
		pod.Start()
	}
	d.Await("three instances that serve", 2*time.Minute, func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", 20*time.Second, func() bool { return clients.acknowledged() > 10 })
	for _, leads := range []bool{true, false} {
		term, leader := d.Record(t.Context()).Term, d.Published(t.Context())
		pod := leader
		if !leads {
			pod = d.Pods[(slices.Index(d.Pods, leader)+1)%len(d.Pods)]
		}
		begun := time.Now()
		empty, err := pod.Fill()
		d.must(err)
		d.Await("sign that the disk is full", time.Minute, func() bool {
			_, _ = leader.SQL("CHECKPOINT; SELECT pg_switch_wal()") // Each needs another file of the log, until one fails.
			return pod.process.Postmaster() == 0 || pod.Report(t.Context()).Problem != "" || d.Record(t.Context()).Term > term
		})
		before := clients.acknowledged()
		d.Await("acknowledged writes with a full disk", time.Minute, func() bool { return clients.acknowledged() > before+20 })
		gap := clients.Ledger.LongestGap(begun).Round(time.Millisecond)
		t.Logf("the leader: %t; it says %+v; no write for %s", leads, pod.Report(t.Context()), gap)
		if elected := d.Record(t.Context()).Term > term; elected != leads {
			t.Errorf("the full disk is the leader's: %t; another was elected: %t", leads, elected)
		}
		d.must(empty())
		d.Await("whole database once there is room", 2*time.Minute, func() bool { return d.IsWhole(t.Context()) })
		for _, wrong := range clients.Check() {
			t.Error(wrong)
		}
	}
}
