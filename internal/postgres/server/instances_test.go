//go:build instances

package server

import (
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

func isLeading(o engine.Observation) bool {
	return o.Server.State == election.Leading && o.Server.Settled && o.Server.Committed
}

// begin makes the first a leader on that timeline, and the others its standbys.
func (c *cluster) begin(timeline uint32) (a, b, d *instance) {
	t := c.t
	t.Helper()
	a, b, d = c.instances[0], c.instances[1], c.instances[2]
	a.do(Call{Do: "initialise"})
	a.do(Call{Do: "start"})
	a.wait("final", func(o engine.Observation) bool { return o.Server.Final })
	a.do(Call{Do: "rule", Rule: election.Rule{Leader: a.member()}})
	if answer := a.do(Call{Do: "promote", Timeline: timeline}); answer.Observed.Server.Timeline != timeline {
		t.Fatalf("got timeline %d", answer.Observed.Server.Timeline)
	}
	a.wait("leading", isLeading)
	_, err := a.session().Exec(t.Context(), "CREATE TABLE written (number int PRIMARY KEY)")
	check(t, err)
	check(t, a.write(1, 5*time.Second))
	for _, i := range []*instance{b, d} {
		i.do(Call{Do: "clone", From: a.upstream(1)})
		i.do(Call{Do: "start"})
		i.do(Call{Do: "follow", From: a.upstream(1)})
	}
	a.wait("sending", func(o engine.Observation) bool {
		return len(o.Receivers) == 2 && o.Receivers[0].Near && o.Receivers[1].Near
	})
	a.do(Call{Do: "rule", Rule: rule(a, b, d)})
	a.wait("leading under the rule", isLeading)
	return a, b, d
}

// rule waits for one of the others.
func rule(leader *instance, others ...*instance) election.Rule {
	made := election.Rule{Leader: leader.member(), Acks: 1}
	for _, other := range others {
		made.Set = append(made.Set, other.member())
	}
	return made
}

func TestServers(t *testing.T) {
	a, _, _ := newCluster(t).begin(7)
	check(t, a.write(2, 5*time.Second))
	if got := a.numbers(); len(got) != 2 {
		t.Errorf("got %v", got)
	}
}
