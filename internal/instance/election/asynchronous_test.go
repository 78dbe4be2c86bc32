package election

import (
	"testing"
	"time"
)

// TestDurabilityChanges: a leader follows what the user decides, by a rule of its own that is
// recorded beside the one before.
func TestDurabilityChanges(t *testing.T) {
	for name, test := range map[string]struct {
		is, becomes Durability
	}{
		"commits wait for no other member any more": {Required, Asynchronous},
		"members are waited for again":              {Asynchronous, Required},
		"as long as they are there":                 {Asynchronous, Preferred},
	} {
		o := leading()
		rule := Rule{Leader: a, Set: []Member{b, c}, Acks: 1, Async: test.is == Asynchronous}
		o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = rule, []Rule{rule}, []Rule{rule}
		o.Configured(Config{Instances: 3, Durability: test.becomes, After: o.Config.After, Positions: inOrder{}}, nil)
		write, isWrite := Decide(o).(WriteRecord)
		want := rule
		want.Async = test.becomes == Asynchronous
		if !isWrite || len(write.Record.Rules) != 2 || !write.Record.Rules[0].Equal(rule) || !write.Record.newest().Equal(want) {
			t.Errorf("%s: %+v", name, write)
		}
	}
}

// TestStandsAsynchronously checks that a candidate claims with a rule of the durability that it
// knows.
func TestStandsAsynchronously(t *testing.T) {
	for durability, want := range map[Durability]bool{Asynchronous: true, Preferred: false} {
		o := following()
		o.Config.Durability, o.Asked = durability, 3
		o.Peers[1].AskReply = AskReply{Term: 3, Member: c, Would: true}
		if rule := o.firstRule(o.Record.Record); rule.Async != want || rule.WaitsForNobody() != want || len(rule.Set) != 1 {
			t.Errorf("%d: %+v", durability, rule)
		}
	}
}

// TestHungDiskKeepsOtherRules: a leader whose own disk hangs before it has opened its term leaves
// the rules by which the others can go on without it.
func TestHungDiskKeepsOtherRules(t *testing.T) {
	for pause, drops := range map[time.Duration]bool{0: true, 2 * time.Second: false} {
		o := leading()
		o.Held.Record.Open, o.Record.Record.Open = false, false
		o.Held.Record.Rules = append([]Rule{{Leader: b, Set: []Member{a, c}, Acks: 1}}, o.Held.Record.Rules...)
		o.Record.Record.Rules = o.Held.Record.Rules
		o.Server.Committed, o.Server.Settled = false, false
		o.Peers[0].Pong.Diverged, o.Peers[1].PongSent = true, o.Now-time.Minute
		o.Held.RenewedAt = o.Now
		if o.Server.UnflushedSince = o.Now; pause > 0 {
			o.Server.UnflushedSince = o.Now - pause
		}
		write, isWrite := Decide(o).(WriteRecord)
		if got := isWrite && len(write.Record.Rules) == 1; got != drops {
			t.Errorf("its heartbeat waits for %s: %+v", pause, Decide(o))
		}
	}
}
