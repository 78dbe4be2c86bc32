package instance

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// TestStaysForClients: a leader that was asked to end goes on without a server until clients are
// routed to the next one, and is gone for the other members. An instance that does not lead, or has
// no successor, ends at once.
func TestStaysForClients(t *testing.T) {
	itself := func(_ *database, leader string) string { return leader }
	next := func(_ *database, leader string) string { return pods[(slices.Index(pods, leader)+1)%3] }
	for name, test := range map[string]struct {
		prepare func(t *testing.T, d *database, leader string)
		stops   func(d *database, leader string) string
		stays   bool
	}{
		"the leader": {nothing, itself, true},
		"one that failed": {func(_ *testing.T, d *database, leader string) {
			d.engines[leader].Fail("StopCleanly", errors.New("no"))
		}, itself, true},
		"a replica": {nothing, next, false},
		"the last one": {func(_ *testing.T, d *database, leader string) {
			for _, pod := range pods {
				if pod != leader {
					d.crash(pod)
				}
			}
		}, itself, false},
		"one without which nobody takes writes": {func(_ *testing.T, d *database, leader string) {
			d.crash(pods[(slices.Index(pods, leader)+1)%3])
			d.await("rule without the one that is gone", time.Minute, func() bool { return d.waitsFor() == 1 })
		}, itself, false},
		"one that has handed over to the only other": {func(_ *testing.T, d *database, leader string) {
			config := d.config(leader)
			config.Election.Durability = election.Preferred
			d.tell(config, pods...)
			d.pass(time.Second)
			d.crash(pods[(slices.Index(pods, leader)+1)%3])
			d.pass(10 * time.Second)
		}, itself, true},
		"one that led before": {func(_ *testing.T, d *database, leader string) {
			d.switchover(leader)
			d.await("another leader of which all say so", time.Minute, func() bool { return d.leader() != leader && d.isWhole() })
		}, itself, false},
		"one to which no client was sent yet": {func(_ *testing.T, d *database, leader string) {
			d.switchover(leader)
			d.await("promotion", time.Minute, func() bool { return d.promotes(leader) != "" })
		}, (*database).promotes, false},
		"one that nobody can succeed": {func(_ *testing.T, d *database, leader string) {
			others := slices.DeleteFunc(slices.Clone(pods), func(pod string) bool { return pod == leader })
			config := d.config(leader)
			config.Election.Durability = election.Preferred
			d.tell(config, pods...)
			for _, pod := range others {
				d.crash(pod)
			}
			d.await("leader that waits for nobody", time.Minute, func() bool { return d.waitsFor() == 0 })
			for _, pod := range others {
				d.start(pod)
				d.engines[pod].Fail("Follow", errors.New("no"))
			}
			d.pass(10 * time.Second) // They answer, and lack what the leader writes.
		}, itself, false},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, d *database) {
				leader := d.leader()
				test.prepare(t, d, leader)
				d.stays(test.stops(d, leader), test.stays)
			})
		})
	}
}

func nothing(*testing.T, *database, string) {}

// stays checks whether an instance that is asked to end stays.
func (d *database) stays(pod string, wanted bool) {
	d.t.Helper()
	const soon = time.Second
	p, err := d.program(pod, pod)
	if err != nil {
		d.t.Fatal(err)
	}
	term, begun := d.term(), time.Now()
	p.instance.Stop(context.Background())
	if wanted {
		d.await("another leader", time.Minute, func() bool { return d.term() > term && d.leader() != "" && d.leader() != pod })
		begun = time.Now()
		if _, err := d.program(pod, pod); err != nil {
			d.t.Error("it is gone when the next one leads")
		}
		if _, answers := p.instance.HandlePing(context.Background(), d.ping()); answers {
			d.t.Error("it answers the next leader")
		}
		if state := d.engines[pod].Observe().Server.State; state != election.Stopped {
			d.t.Errorf("its server is %v", state)
		}
	}
	if err := <-p.ended; err != nil {
		d.t.Error(err)
	}
	limit := soon
	if wanted {
		limit = 2 * soon
	}
	if took := time.Since(begun); took > limit {
		d.t.Errorf("it ended after %s", took)
	}
	if done := d.engines[pod].Operations(); wanted && slices.Contains(done[slices.Index(done, "StopCleanly"):], "Start") {
		d.t.Errorf("its server was started again: %q", done)
	}
}

// switchover asks the leader of the first term to hand over.
func (d *database) switchover(leader string) {
	config := d.config(leader)
	config.SwitchFrom = 1
	d.tell(config, pods...)
}

// promotes returns the first pod, other than before, whose server begins to be promoted.
func (d *database) promotes(before string) string {
	for _, pod := range pods {
		if pod != before && slices.Contains(d.engines[pod].Operations(), "Promote") {
			return pod
		}
	}
	return ""
}

// waitsFor returns how many members the only rule has; -1 if there are several.
func (d *database) waitsFor() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.record.Rules) != 1 {
		return -1
	}
	return len(d.record.Rules[0].Set)
}

// ping returns a ping of the leader.
func (d *database) ping() election.Ping {
	d.mu.Lock()
	defer d.mu.Unlock()
	return election.Ping{System: d.record.System, Leader: d.record.Holder.Member, Term: d.record.Term}
}

// TestKeepsItsRole: during a change of the leader, replicas are still reported as replicas, so that
// the endpoints of the read Service do not change before those of the write Service. A replica that
// has had no leader for longer is not.
func TestKeepsItsRole(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		leader := d.leader()
		replicas := slices.DeleteFunc(slices.Clone(pods), func(pod string) bool { return pod == leader })
		hasRole := func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return !slices.ContainsFunc(replicas, func(pod string) bool { return d.reports[pod].Role == contract.NoRole })
		}
		// First a short interruption, after which the same instance leads.
		d.servers.Cut(replicas[0], true)
		d.pass(keepRoleFor / 2)
		d.servers.Cut(replicas[0], false)
		d.await("three instances that serve again", time.Minute, d.isWhole)
		d.pass(10 * keepRoleFor)
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
