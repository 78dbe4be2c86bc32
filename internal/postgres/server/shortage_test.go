package server

import (
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// TestShortage: commits wait for what the rule says that the server has, whatever is to become of
// it: a rule of the leader alone waits for nobody, and a member that was made anew is none of those
// that the rule names.
func TestShortage(t *testing.T) {
	const waits = "commits wait: 0 of 1 required members are receiving"
	at := time.Unix(1_000, 0)
	former, present := election.Member{Name: "db-1", Incarnation: "old"}, election.Member{Name: "db-1", Incarnation: "new"}
	other := election.Member{Name: "db-2", Incarnation: "x"}
	receives := func(members ...election.Member) (all []engine.Receiver) {
		for _, member := range members {
			all = append(all, engine.Receiver{Member: member, FlushedAt: at})
		}
		return all
	}
	silent := receives(other)
	silent[0].FlushedAt = at.Add(-2 * maxReportAge)
	for name, test := range map[string]struct {
		rule      election.Rule
		receivers []engine.Receiver
		want      string
	}{
		"the leader alone":         {election.Rule{}, nil, ""},
		"enough receive":           {election.Rule{Set: []election.Member{former, other}, Acks: 1}, receives(other), ""},
		"one that was made anew":   {election.Rule{Set: []election.Member{former, other}, Acks: 1}, receives(present), waits},
		"one that has gone silent": {election.Rule{Set: []election.Member{former, other}, Acks: 1}, silent, waits},
	} {
		if got := shortage(test.rule, test.receivers, at); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
