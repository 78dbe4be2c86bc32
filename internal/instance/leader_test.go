package instance

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// TestLeavingLeader: a leader that is to be removed can hand over to the remaining instance, even
// if that is away for a while, as long as the settings of both name each other. A leader whose
// settings name only one instance would no longer wait for another.
func TestLeavingLeader(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		leader, stays := d.leader(), pods[0]
		if stays == leader {
			stays = pods[1]
		}
		d.crash(stays)
		two := Config{Election: election.Config{Instances: 2, Durability: election.Required, After: 5 * time.Second}}
		d.tell(two, leader, stays)
		time.Sleep(time.Minute)
		d.mu.Lock()
		delete(d.reports, stays)
		d.mu.Unlock()
		d.start(stays)
		d.await("replica that stays", time.Minute, func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.reports[stays].Role == contract.Replica
		})
		time.Sleep(5 * time.Second) // It joins those that commits wait for.
		two.SwitchFrom, two.SwitchTo = d.term(), stays
		d.tell(two, leader, stays)
		d.await("leader that stays", time.Minute, func() bool { return d.leader() == stays })
	})
}

// TestUnpublished: a leader that can't publish its address reports that, and why.
func TestUnpublished(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		refuse := func(err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.unpublishable = err
		}
		said := func() contract.Report {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.reports[d.record.Holder.Member.Name]
		}
		refuse(errors.New("it is forbidden"))
		first := d.leader()
		d.crash(first)
		const want = "the write Service does not route to this instance: it is forbidden"
		d.await("leader that says what is wrong", time.Minute, func() bool {
			return d.leader() != first && said().Problem == want && said().Role == contract.NoRole
		})
		refuse(nil)
		d.await("primary that complains of nothing", time.Minute, func() bool {
			return said().Role == contract.Primary && said().Problem == ""
		})
	})
}

// TestAtRest: instances that have nothing to do send one request a minute to the API server: the
// leader checks the EndpointSlice.
func TestAtRest(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		time.Sleep(10 * time.Second)
		checked := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.checks
		}
		before, checks := d.count(), checked()
		time.Sleep(10 * time.Minute)
		if calls, checks := d.count()-before, checked()-checks; calls != 0 || checks != 10 {
			t.Errorf("%d calls of the API server in 10 minutes, and %d checks", calls, checks)
		}
	})
}

// TestRepublished: an address that is lost from the EndpointSlice is published again, within a
// minute if nothing else shows that it is lost, and at once after a backup was restored.
func TestRepublished(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		isPublished := func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.published == d.record.Holder.Member.Name
		}
		lose := func(seqs uint64) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.published = ""
			d.record.Seq -= seqs
			d.version++
			for _, p := range d.programs {
				go p.instance.RecordChanged(context.Background(), strconv.Itoa(d.version))
			}
		}
		lose(0)
		d.mu.Lock()
		d.unpublishable = errors.New("the API server is busy")
		d.mu.Unlock()
		d.pass(time.Minute + 2*time.Second) // the check fails, and is repeated soon
		d.mu.Lock()
		d.unpublishable = nil
		d.mu.Unlock()
		d.await("address that is published again", 5*time.Second, isPublished)
		lose(1)
		d.await("address that is published at once", 5*time.Second, isPublished)
		d.settle()
	})
}

// pass sleeps in the bubble's time.
func (d *database) pass(of time.Duration) {
	time.Sleep(of)
	synctest.Wait()
}

// tell passes the settings, and the names of the desired pods, to all running programs.
func (d *database) tell(config Config, named ...string) {
	for _, pod := range pods {
		p, err := d.program(pod, pod)
		if err != nil {
			continue
		}
		config.Others = nil
		for _, other := range named {
			if other != pod {
				config.Others = append(config.Others, other)
			}
		}
		p.instance.Configure(context.Background(), config)
	}
	synctest.Wait()
}
