//go:build instances

package server

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// writer writes numbers one after the other, as long as they are acknowledged.
type writer struct {
	acknowledged atomic.Int32
	done         chan struct{}
}

// writing starts a writer, after the number that was acknowledged last.
func (i *instance) writing(ctx context.Context, after int32) *writer {
	w := &writer{done: make(chan struct{})}
	w.acknowledged.Store(after)
	session := i.session()
	go func() {
		defer close(w.done)
		for number := after + 1; ; number++ {
			// A number whose write got no answer may be in the data or not, and is not written again.
			if _, err := session.Exec(ctx, fmt.Sprintf("INSERT INTO written VALUES (%d)", number), pgx.QueryExecModeSimpleProtocol); err != nil {
				return
			}
			w.acknowledged.Store(number)
		}
	}()
	return w
}

// TestPromisesUnderLoad: everything that was acknowledged is on a member whose source is removed
// afterwards, before it reports its position.
func TestPromisesUnderLoad(t *testing.T) {
	a, b, d := newCluster(t).begin(2)
	leader, standby, other := a, b, d
	last, timeline := int32(1), uint32(2)
	for round := range uint64(3) {
		leader.do(Call{Do: "rule", Rule: rule(leader, standby)})
		leader.wait("leading with one", isLeading)
		ctx, cancel := context.WithCancel(t.Context())
		w := leader.writing(ctx, last)
		<-time.After(700 * time.Millisecond)
		position := standby.final()
		// The leader does not know: it goes on, and must not acknowledge what no other member has.
		<-time.After(300 * time.Millisecond)
		last = w.acknowledged.Load()
		standby.wait("at its final position", func(o engine.Observation) bool { return o.Server.Position == position })
		leader.do(Call{Do: "kill"})
		cancel()
		<-w.done

		other.final()
		timeline += 2
		standby.do(Call{Do: "rule", Rule: rule(standby, leader, other)})
		standby.do(Call{Do: "promote", Timeline: timeline})
		standby.has(int(last))
		t.Logf("round %d: %d were acknowledged", round, last)
		// A write that waits for members may be in the data.
		last += 10
		history := standby.observe().Server.History
		for _, i := range []*instance{leader, other} {
			if found := i.start(); !(postgres.Positions{}).Holds(history, found) {
				i.do(Call{Do: "clone", From: standby.upstream(round + 2)})
				i.start()
			}
			i.follow(standby, round+2)
		}
		// Their data may be new, and their names with it.
		standby.do(Call{Do: "rule", Rule: rule(standby, leader, other)})
		standby.wait("leading", isLeading)
		for number := last - 9; number <= last; number++ {
			_, err := standby.session().Exec(t.Context(), fmt.Sprintf("INSERT INTO written VALUES (%d) ON CONFLICT DO NOTHING", number))
			check(t, err)
		}
		standby.wait("sending", func(o engine.Observation) bool {
			return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
		})
		leader, standby = standby, leader
	}
}
