package instance

import (
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestStaysForClients: a leader that was asked to end stays until clients are sent to the next one,
// and refuses them meanwhile. One that nobody succeeds, and a replica, end at once.
func TestStaysForClients(t *testing.T) {
	const soon = time.Second
	for name, test := range map[string]struct {
		prepare func(d *database, leader string)
		stops   func(leader string) string
		stays   bool
	}{
		"the leader": {func(*database, string) {}, func(leader string) string { return leader }, true},
		"a replica": {func(*database, string) {},
			func(leader string) string { return pods[(slices.Index(pods, leader)+1)%3] }, false},
		"the last one": {func(d *database, leader string) {
			for _, pod := range pods {
				if pod != leader {
					d.crash(pod)
				}
			}
		}, func(leader string) string { return leader }, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, d *database) {
				leader := d.leader()
				test.prepare(d, leader)
				p, err := d.program(leader, test.stops(leader))
				if err != nil {
					t.Fatal(err)
				}
				begun, least := time.Now(), time.Duration(0)
				p.instance.Stop(t.Context())
				if test.stays {
					d.await("another leader", time.Minute, func() bool { return d.leader() != "" && d.leader() != leader })
					begun, least = time.Now(), soon
				}
				if err := <-p.ended; err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); took < least || took > least+soon {
					t.Errorf("it ended after %s, want at least %s", took, least)
				}
			})
		})
	}
}

// TestKeepsItsRole: with a change of the leader, no replica is reported as being none, so that the
// endpoints of the read Service stay as they are until the write Service leads to the next one. One
// that has no leader for longer is.
func TestKeepsItsRole(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		leader := d.leader()
		replicas := slices.DeleteFunc(slices.Clone(pods), func(pod string) bool { return pod == leader })
		hasRole := func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return !slices.ContainsFunc(replicas, func(pod string) bool { return d.reports[pod].Role == contract.NoRole })
		}
		config := d.config(leader)
		config.SwitchFrom = 1
		p, _ := d.program(leader, leader)
		p.instance.Configure(t.Context(), config)
		d.await("another leader of which all say so", time.Minute, func() bool {
			if !hasRole() {
				t.Error("a replica has lost its role")
				return true
			}
			return d.leader() != leader && d.isWhole()
		})
		d.crash(d.leader())
		d.crash(leader)
		d.await("a replica that nobody leads", time.Minute, func() bool { return !hasRole() })
	})
}
