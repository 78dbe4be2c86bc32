package instances

import (
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// onSmallVolumes starts three instances, each on a file system of so many MiB, with clients.
func onSmallVolumes(t *testing.T, size int64) (*Database, *Clients) {
	t.Helper()
	d := Make(t, server, contract.Settings{FailoverAfter: longAfter}, 3)
	for _, pod := range d.Pods {
		d.must(pod.Limit(size))
		pod.Start()
	}
	d.Await("three instances that serve", func() bool { return d.IsWhole(t.Context()) })
	clients := NewClients(t, d, *pause)
	d.Await("acknowledged writes", func() bool { return clients.acknowledged() > 10 })
	return d, clients
}

// TestLeftBehind: a replica that was away for longer than the log is kept is made anew, and the log
// that waits for it does not fill the volume of the leader.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	d, clients := onSmallVolumes(t, 400)
	leader := d.Published(t.Context())
	replica := d.Pods[(slices.Index(d.Pods, leader)+1)%len(d.Pods)]
	before := replica.Report(t.Context()).Incarnation
	replica.Kill()
	for range 30 { // files of 16 MB each
		d.Await("another file of the log", func() bool {
			pod := d.Published(t.Context())
			if pod == nil {
				return false
			}
			_, err := pod.SQL("SELECT pg_switch_wal(); CHECKPOINT")
			return err == nil
		})
		acknowledged := clients.acknowledged()
		d.Await("writes between", func() bool { return clients.acknowledged() > acknowledged })
	}
	replica.Start()
	d.Await("whole database with a replica that was made anew", func() bool {
		return replica.Report(t.Context()).Incarnation != before && d.IsWhole(t.Context())
	})
	for _, wrong := range clients.Check() {
		t.Error(wrong)
	}
}

// TestFullDisk: a leader whose disk is full makes way for one that can write, and a replica whose
// disk is full keeps nobody from writing. Both come back when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	d, clients := onSmallVolumes(t, 500)
	for _, leads := range []bool{true, false} {
		term, leader := d.Record(t.Context()).Term, d.Published(t.Context())
		pod := leader
		if !leads {
			pod = d.Pods[(slices.Index(d.Pods, leader)+1)%len(d.Pods)]
		}
		begun := time.Now()
		empty, err := pod.Fill()
		d.must(err)
		for range 8 { // Each needs another file of the log; without a checkpoint none is used again.
			_, _ = leader.SQL("SELECT pg_logical_emit_message(true, 'test', 'x'); SELECT pg_switch_wal()")
		}
		if leads {
			d.Await("another leader", func() bool { return d.Record(t.Context()).Term > term })
		}
		before := clients.acknowledged()
		d.Await("acknowledged writes with a full disk", func() bool { return clients.acknowledged() > before+20 })
		d.Await("word about the full disk", func() bool { return pod.Report(t.Context()).Full >= 95 })
		gap := clients.Ledger.LongestGap(begun).Round(time.Millisecond)
		t.Logf("the leader: %t; it says %+v; no write for %s", leads, pod.Report(t.Context()), gap)
		if elected := d.Record(t.Context()).Term > term; elected != leads && !d.stoodStill(begun) {
			t.Errorf("the full disk is the leader's: %t; another was elected: %t", leads, elected)
		}
		d.must(empty())
		d.Await("whole database once there is room", func() bool { return d.IsWhole(t.Context()) })
		for _, wrong := range clients.Check() {
			t.Error(wrong)
		}
	}
}
