package election

import (
	"testing"
	"time"
)

// TestDurabilityChanges: when the user changes the durability, a leader changes to a new rule,
// which is recorded beside the former one.
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

// TestStandsAsynchronously checks that a candidate's own rule has the durability of its settings.
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

// TestStandsAfterACandidate: while an election goes on, others stand soon. With an asynchronous
// rule, they wait for as long as after any leader: the candidate may lead already, and accept
// writes until its clock says that it must not.
func TestStandsAfterACandidate(t *testing.T) {
	for isAsync, want := range map[bool]time.Duration{false: electionTime, true: 11 * time.Second} {
		o := following()
		record := &o.Record.Record
		record.Open, record.Rules = false, []Rule{{Leader: a, Set: []Member{b, c}, Acks: 1, Async: isAsync}}
		if got := o.mayStandAt() - o.Record.Since; got != want {
			t.Errorf("asynchronous %t: it stands after %s, want %s", isAsync, got, want)
		}
	}
}

// TestHungDiskKeepsOtherRules: a leader whose own disk hangs before its term is open keeps the
// rules by which the others can go on without it.
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

// silenceCase are times: until when, and from when on again, a leader's server answers, until when
// it names the members as receivers, and until when the members answer pings. beats is true if
// heartbeats are completed.
type silenceCase struct {
	answersUntil, answersAgain, streamsUntil, pongsUntil time.Duration

	beats bool
}

// TestSilence: members that, by the leader's own server, no longer receive are removed from the
// rule. While the server does not answer, they are not: they can go on without this leader.
func TestSilence(t *testing.T) {
	const always, again, sick = time.Hour, 8 * time.Second, 10500 * time.Millisecond
	for name, test := range map[string]struct {
		silenceCase
		// shrinks is when the rule no longer names the members, and dies is when the server is killed; 0
		// is never.
		shrinks, dies time.Duration
	}{
		"all is well":                          {silenceCase{always, 0, always, always, true}, 0, 0},
		"the server names no member":           {silenceCase{always, 0, 0, always, true}, degradeAfter, 0},
		"the server answers nothing":           {silenceCase{0, always, 0, always, false}, 0, sick},
		"it runs a script, and answers busy":   {silenceCase{0, always, 0, always, true}, 0, 0},
		"its disk hangs, and it names them":    {silenceCase{always, 0, always, always, false}, 0, sick},
		"its disk hangs, and it names nobody":  {silenceCase{always, 0, 0, always, false}, degradeAfter, 0},
		"the members answer no ping":           {silenceCase{always, 0, 0, 0, true}, degradeAfter, 0},
		"neither do, and it answers nothing":   {silenceCase{0, always, 0, 0, false}, 0, 0},
		"nor do they, until it answers again":  {silenceCase{0, again, 0, 0, true}, again, 0},
		"it answers again, with the members":   {silenceCase{0, again, always, always, true}, 0, 0},
		"it answers again, without any member": {silenceCase{0, again, 0, always, true}, again + degradeAfter, 0},
	} {
		for _, durability := range []Durability{Asynchronous, Preferred} {
			shrinks, dies := test.try(durability)
			if shrinks != test.shrinks || dies != test.dies {
				t.Errorf("%s (%d): the rule shrinks after %s, and the server is killed after %s; want %s and %s",
					name, durability, shrinks, dies, test.shrinks, test.dies)
			}
		}
	}
}

// try returns after how long a leader of three removes both members from the rule, and kills its
// server; 0 if it does not.
func (c silenceCase) try(durability Durability) (shrinks, dies time.Duration) {
	o := leading()
	start := o.Now
	o.Config.Durability = durability
	o.Held.Record.Rules[0].Async = durability == Asynchronous
	o.Record.Record.Rules, o.Server.Rule = o.Held.Record.Rules, o.Held.Record.Rules[0]
	server := o.Server
	for at := time.Duration(0); at <= 14*time.Second && shrinks+dies == 0; at += 100 * time.Millisecond {
		o.Now = start + at
		o.Held.RenewedAt, o.PingedAt = o.Now, o.Now
		answers := at <= c.answersUntil || at >= c.answersAgain
		if answers {
			server.ReceiversAt = o.Now
		}
		if !c.beats {
			server.UnflushedSince = start
		}
		o.Heartbeat(server)
		for i := range o.Peers {
			if answers && at <= c.streamsUntil {
				o.Streams(o.Peers[i].Member, true)
			}
			if at <= c.pongsUntil {
				o.Peers[i].PongSent = o.Now
			}
		}
		switch action := Decide(o).(type) {
		case WriteRecord:
			if action.Record.newest().alone() {
				shrinks = at
			}
		case Kill:
			dies = at
		}
	}
	return shrinks, dies
}

// TestWaking: after all instances were stopped, a replica that is back first waits for the former
// leader, which alone may have the last writes, but no longer than for a silent one.
func TestWaking(t *testing.T) {
	for name, test := range map[string]struct {
		now        time.Duration
		durability Durability
		answers    bool
		peers      []Peer
		want       string
	}{
		"the former leader is not back":             {5 * time.Second, Asynchronous, false, nil, "Wait"},
		"it is back, and has no more":               {5 * time.Second, Asynchronous, true, nil, "WriteRecord"},
		"it is back, and a third one is not":        {5 * time.Second, Asynchronous, true, []Peer{{Name: c.Name, Member: c}}, "WriteRecord"},
		"it has not been back for long":             {11 * time.Second, Asynchronous, false, nil, "WriteRecord"},
		"each commit was acknowledged by one of us": {5 * time.Second, Required, false, nil, "WriteRecord"},
	} {
		o := following()
		o.Now, o.Config.Durability = test.now, test.durability
		o.Peers = append([]Peer{{Name: a.Name, Member: a}}, test.peers...)
		rule := Rule{Leader: a, Set: []Member{b}, Acks: 1, Async: test.durability == Asynchronous}
		o.Record.Record.Rules, o.Record.Record.Holder = []Rule{rule}, Holder{}
		o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
		o.Asked, o.AskedAt = 3, o.Now-time.Second
		if test.answers {
			o.Peers[0].AskReply = AskReply{Term: 3, Member: a, Would: true, Position: "20"}
		}
		if got := kindOf(Decide(o)); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
