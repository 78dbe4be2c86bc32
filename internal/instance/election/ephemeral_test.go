package election

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// kindOf returns the type of an action.
func kindOf(action Action) string { return strings.TrimPrefix(fmt.Sprintf("%T", action), "election.") }

// inMemory changes the state to that of a database with ephemeral data.
func inMemory(o *Observed) *Observed {
	rule := Rule{Leader: a, Set: []Member{b, c}, Acks: 1, Async: true}
	o.Config.Durability, o.Config.Ephemeral = Asynchronous, true
	o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = rule, []Rule{rule}, []Rule{rule}
	for i := range o.Peers {
		o.Others = append(o.Others, o.Peers[i].Name)
	}
	return o
}

// empty returns an instance of that database that has lost its data.
func empty(name string) *Observed {
	o := inMemory(following())
	o.Me, o.System, o.Server = Member{Name: name}, "", Server{State: NoData}
	o.Peers, o.Others = nil, nil
	for _, other := range []string{a.Name, b.Name, c.Name} {
		if other != name {
			o.Peers, o.Others = append(o.Peers, Peer{Name: other}), append(o.Others, other)
		}
	}
	o.Record.TriedAt = o.Now
	return o
}

// answered makes peers answer the last Ask, as those members.
func answered(o *Observed, members ...Member) *Observed {
	o.Asked, o.AskedAt = 3, o.Now
	for _, member := range members {
		o.peer(member.Name).AskReply = AskReply{Term: 3, Member: member, Would: member.HasData(), Position: "20"}
	}
	return o
}

// TestBeginsAnew: the instance with the lowest name makes new data, and only when all have answered
// that they have none, or the user accepts the loss.
func TestBeginsAnew(t *testing.T) {
	none := func(name string) Member { return Member{Name: name} }
	for _, test := range []struct {
		name  string
		state *Observed
		want  string
	}{
		{"nobody was asked", empty(a.Name), "SendAsk"},
		{"one does not answer", answered(empty(a.Name), none(b.Name)), "Wait"},
		{"one has data", answered(empty(a.Name), none(b.Name), c), "Wait"},
		{"none has data", answered(empty(a.Name), none(b.Name), none(c.Name)), "WriteRecord"},
		{"another is the first", answered(empty(b.Name), none(a.Name), none(c.Name)), "Wait"},
		{"the user accepts the loss", func() *Observed {
			o := answered(empty(a.Name), none(b.Name))
			o.Config.AcceptLoss = o.Record.Record.Term
			return o
		}(), "WriteRecord"},
		{"the user accepts the loss, but one has data", func() *Observed {
			o := answered(empty(a.Name), c)
			o.Config.AcceptLoss = o.Record.Record.Term
			return o
		}(), "Wait"},
		{"the data are stored", func() *Observed {
			o := answered(empty(a.Name), none(b.Name), none(c.Name))
			o.Config.Ephemeral = false
			return o
		}(), "Wait"},
		{"a leader lives", func() *Observed {
			o := answered(empty(a.Name), none(b.Name), none(c.Name))
			o.Peers[0].Ping, o.Peers[0].PingAt = Ping{System: "s", Leader: b, Term: 3, History: "99"}, o.Now
			return o
		}(), "Save"},
	} {
		if got := kindOf(Decide(test.state)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	o := answered(empty(a.Name), none(b.Name), none(c.Name))
	write, _ := Decide(o).(WriteRecord)
	if write.Record.Initialise != a.Name || write.Record.System != "" || write.Record.Term != 2 || len(write.Record.Rules) != 0 ||
		!write.Record.Released() {
		t.Fatalf("got %+v", write)
	}
	o.Writing(write)
	o.HeardWrite(write, o.Now, Done, "8")
	o.Saved = o.Local
	if got := kindOf(Decide(o)); got != "Initialise" {
		t.Fatalf("got %s", got)
	}
	o.Became(Member{Name: a.Name, Incarnation: "new"}, "another", 0)
	o.Server, o.Saved = Server{State: Standby, Final: true, Position: "0"}, o.Local
	if got := kindOf(Decide(o)); got != "Kill" {
		t.Fatalf("data that another process has made: got %s", got)
	}
	o.Began()
	claim, _ := Decide(o).(WriteRecord)
	if claim.Record.System != "another" || claim.Record.Term != 3 || claim.Record.Timeline != 3 || claim.Record.Holder.Member != o.Me {
		t.Errorf("got %+v", claim)
	}
}

// TestEmptyHolder: an instance that restarts without data releases the record that its last process
// held.
func TestEmptyHolder(t *testing.T) {
	o := empty(a.Name)
	o.PodUID = "uid"
	write, isWrite := Decide(o).(WriteRecord)
	if !isWrite || !write.Record.Released() || write.Record.Term != 2 || len(write.Record.Rules) != 1 {
		t.Errorf("got %+v", write)
	}
	o.PodUID = "another pod's"
	if _, isWrite := Decide(o).(WriteRecord); isWrite {
		t.Error("another pod's term was released")
	}
}

// TestLostLeader: a leader whose server has ended releases the record. Once all have answered, the
// others go on, even if its rule names no other member.
func TestLostLeader(t *testing.T) {
	o := inMemory(leading())
	o.Server = Server{State: NoData}
	if write, isWrite := Decide(o).(WriteRecord); !isWrite || !write.Record.Released() {
		t.Errorf("got %+v", write)
	}
	alone := func(members ...Member) *Observed {
		o := inMemory(following())
		o.Peers[0].PingAt = 0
		o.Record.Record.Holder, o.Record.Record.Rules = Holder{}, []Rule{{Leader: a}}
		o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
		o.Server.Source, o.Server.Final = Source{}, true
		return answered(o, members...)
	}
	for _, test := range []struct {
		name    string
		members []Member
		claims  bool
	}{
		{"the leader does not answer", []Member{c}, false},
		{"the leader has its data", []Member{a, c}, true}, // It would promise: that is enough.
		{"the leader has none", []Member{{Name: a.Name}, c}, true},
		{"the leader has others", []Member{{Name: a.Name, Incarnation: "new"}, c}, true},
		{"another does not answer", []Member{{Name: a.Name}}, false},
	} {
		write, claims := Decide(alone(test.members...)).(WriteRecord)
		if claims != test.claims {
			t.Errorf("%s: claims: %t", test.name, claims)
		}
		if claims && len(write.Record.Rules) != 2 {
			t.Errorf("%s: the rules are %+v", test.name, write.Record.Rules)
		}
	}
	stored := alone(Member{Name: a.Name}, c)
	stored.Config.Ephemeral = false
	if _, claims := Decide(stored).(WriteRecord); claims {
		t.Error("data that are stored are not waited for")
	}
	if _, answers := empty(c.Name).HeardAsk(Ask{System: "s", Term: 3, Member: b}); !answers {
		t.Error("an instance without data does not say so")
	}
	if promised := empty(c.Name); promised != nil {
		promised.Peers[0].Request = &PromiseRequest{System: "s", Term: 9, Candidate: a}
		promised.Saved.Seen.Term, promised.Local.Seen.Term = 9, 9
		if reply, is := Decide(promised).(Reply); !is || reply.Promise.Given {
			t.Errorf("an instance without data promises: %+v", reply)
		}
	}
}

// TestEmptiedReplica: a leader whose only replica has lost its data has as much time to renew the
// Lease as with a silent replica, and no more.
func TestEmptiedReplica(t *testing.T) {
	for after, want := range map[time.Duration]string{time.Second: "WriteRecord", 7 * time.Second: "WriteRecord", 10 * time.Second: "Kill"} {
		o := leading()
		o.Config.Instances, o.Peers = 2, o.Peers[:1]
		rule := Rule{Leader: a, Set: []Member{b}, Acks: 1, Async: true}
		o.Config.Durability, o.Config.Ephemeral = Asynchronous, true
		o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = rule, []Rule{rule}, []Rule{rule}
		o.Now += after
		o.HeardPong(Pong{Member: Member{Name: b.Name, Incarnation: "new"}}, o.Now)
		o.PingedAt = o.Now
		if got := kindOf(Decide(o)); got != want {
			t.Errorf("after %s: got %s, want %s", after, got, want)
		}
		if o.othersCover() || o.successor().HasData() {
			t.Errorf("after %s: the emptied replica counts for more than that", after)
		}
	}
}

// TestStoredDataAreNotLost: without Ephemeral, the answer of a member that has lost its data does
// not count, and a leader without data does not release the record.
func TestStoredDataAreNotLost(t *testing.T) {
	o := leading()
	o.Now += 7 * time.Second
	o.HeardPong(Pong{Member: Member{Name: b.Name, Incarnation: "new"}}, o.Now)
	o.Now, o.PingedAt = o.Now+3*time.Second, o.Now+3*time.Second
	if got := kindOf(Decide(o)); got != "Kill" {
		t.Errorf("got %s", got)
	}
	o = leading()
	o.Server.State, o.Peers = NoData, nil
	o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = Rule{Leader: a}, []Rule{{Leader: a}}, []Rule{{Leader: a}}
	if write, is := Decide(o).(WriteRecord); is && write.Record.Released() {
		t.Errorf("got %+v", write)
	}
}

// alone returns a leader with ephemeral data whose rule names no other member, and that has had no
// answer for longer than it may accept writes without one.
func alone(instances int) *Observed {
	o := inMemory(leading())
	rule := Rule{Leader: a, Async: instances > 1}
	o.Config.Instances = instances
	o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = rule, []Rule{rule}, []Rule{rule}
	for i := range o.Peers {
		o.Peers[i].PongSent, o.Peers[i].StreamedAt, o.Peers[i].Near = 0, 0, false
	}
	return o
}

// scaled returns alone(1) that heard some time ago that two more instances should exist.
func scaled(ago time.Duration) *Observed {
	o := alone(1)
	config := o.Config
	config.Instances = 3
	o.Now -= ago
	o.Configured(config, []string{b.Name, c.Name})
	o.Now += ago
	return o
}

// TestLonelyLeader: a leader of several instances that gets no answer from them renews the Lease,
// and accepts no writes if it can't. A single instance does, and so does a leader that gets an
// answer.
func TestLonelyLeader(t *testing.T) {
	for _, test := range []struct {
		name  string
		state *Observed
		want  string
	}{
		{"it hears nobody, and has not renewed", alone(3), "Kill"},
		{"it hears nobody, and renewed", func() *Observed {
			o := alone(3)
			o.Held.RenewedAt = o.Now - 3500*time.Millisecond
			return o
		}(), "WriteRecord"},
		{"it hears nobody, and has just renewed", func() *Observed {
			o := alone(3)
			o.Held.RenewedAt = o.Now - time.Second
			return o
		}(), "Wait"},
		{"it hears one that has no data", func() *Observed {
			o := alone(3)
			o.Peers[0].Member = Member{Name: b.Name}
			o.Peers[0].Pong, o.Peers[0].PongSent = Pong{Member: o.Peers[0].Member, Promised: Promised{2, a}}, o.Now
			return o
		}(), "Wait"},
		{"it is the only instance", alone(1), "Wait"},
		{"it was the only instance until now", scaled(0), "WriteRecord"},
		{"it was the only instance, and could not renew since", scaled(9 * time.Second), "Kill"},
		{"the data are stored", func() *Observed {
			o := alone(3)
			o.Config.Ephemeral = false
			return o
		}(), "Wait"},
	} {
		if got := kindOf(Decide(test.state)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestFormerLeaderEndsFirst: no instance begins anew while a former leader may still accept writes.
func TestFormerLeaderEndsFirst(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Observed)
		want   string
	}{
		{"the record was just written", func(o *Observed) { o.Record.Since = o.Now - o.Config.After + time.Second }, "Wait"},
		{"its holder has fenced itself", func(o *Observed) { o.Record.Since = o.Now - o.Config.After }, "WriteRecord"},
		{"the record is released", func(o *Observed) { o.Record.Record.Holder, o.Record.Since = Holder{}, o.Now }, "WriteRecord"},
		{"the user accepts the loss too early", func(o *Observed) {
			o.Record.Since, o.Config.AcceptLoss = o.Now, o.Record.Record.Term
		}, "Wait"},
		{"a member of a rule that should not exist any more", func(o *Observed) {
			o.Record.Record.Rules[0].Set = append(o.Record.Record.Rules[0].Set, Member{"db-3", "d"})
		}, "Wait"},
	} {
		o := answered(empty(a.Name), Member{Name: b.Name}, Member{Name: c.Name})
		test.change(o)
		if got := kindOf(Decide(o)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	// The other members of a lost leader wait as long.
	o := inMemory(following())
	o.Record.Since = o.Now - o.Config.After + time.Second
	rule := Rule{Leader: a}
	o.Record.Record.Rules = []Rule{rule}
	answered(o, Member{Name: a.Name}, c)
	if got := o.withoutLost(o.Record.Record); len(got.Rules) != 1 || !got.Rules[0].Equal(rule) {
		t.Errorf("got %+v", got)
	}
	o.Record.Since -= time.Second
	if got := o.withoutLost(o.Record.Record); got.Rules[0].Equal(rule) {
		t.Errorf("got %+v", got)
	}
}

// TestKnowsTheRecordsMembers: an instance that only the record names is asked, too.
func TestKnowsTheRecordsMembers(t *testing.T) {
	for ephemeral, want := range map[bool]bool{true: true, false: false} {
		o := empty(b.Name)
		o.Config.Ephemeral = ephemeral
		record := o.Record.Record
		record.Seq, record.Rules = 9, append(record.Rules, Rule{Leader: Member{"db-7", "g"}, Set: []Member{b}, Acks: 1})
		o.HeardRecord(ReadResult{Sent: o.Now, Version: "9", Record: record})
		if known := o.peer("db-7") != nil; known != want || o.peer(b.Name) != nil {
			t.Errorf("%t: known: %t", ephemeral, known)
		}
	}
}

// TestEmptyInstanceAnswers: an instance without data answers an Ask only when it could promise.
func TestEmptyInstanceAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		now    time.Duration
		ask    Ask
		hears  bool
		answer bool
	}{
		{"it has just started", time.Second, Ask{Term: 3}, false, false},
		{"it hears a leader", time.Minute, Ask{Term: 3}, true, false},
		{"it hears none", time.Minute, Ask{Term: 3}, false, true},
		{"the record is released", time.Second, Ask{Term: 3, Vacant: true}, false, true},
	} {
		o := empty(c.Name)
		o.Now = test.now
		if test.hears {
			o.HeardPing(Ping{System: "s", Leader: a, Term: 2, History: "99"})
		}
		test.ask.System, test.ask.Member = "s", b
		if _, answers := o.HeardAsk(test.ask); answers != test.answer {
			t.Errorf("%s: answers: %t", test.name, answers)
		}
	}
}

// TestReplacedLeader: a leader that finds a record of newer data stops leading; if data are stored,
// it writes its own record again.
func TestReplacedLeader(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"begun anew by another": func(r *Record) { r.System, r.Holder, r.Rules, r.Initialise = "", Holder{}, nil, b.Name },
		"begun anew by the next pod of the name": func(r *Record) {
			r.System, r.Holder, r.Rules, r.Initialise = "", Holder{}, nil, a.Name
		},
		"led by another": func(r *Record) {
			r.System, r.Term, r.Holder = "another", 3, Holder{Member{a.Name, "new"}, "uid-2"}
		},
	} {
		for ephemeral, want := range map[bool]string{true: "Kill", false: "Wait"} {
			o := inMemory(leading())
			o.Config.Ephemeral = ephemeral
			record := o.Record.Record
			record.Seq++
			change(&record)
			o.HeardRecord(ReadResult{Sent: o.Now, Version: "8", Record: record})
			if got := kindOf(Decide(o)); got != want {
				t.Errorf("%s, ephemeral %t: got %s, want %s", name, ephemeral, got, want)
			}
		}
	}
	o := inMemory(leading())
	older := o.Record.Record
	older.System, older.Seq = "another", older.Seq-1
	o.HeardRecord(ReadResult{Sent: o.Now, Version: "8", Record: older})
	if got := kindOf(Decide(o)); got == "Kill" {
		t.Errorf("a record that was set back: got %s", got)
	}
	standby := inMemory(following())
	record := standby.Record.Record
	record.System, record.Term, record.Seq = "another", 4, 9
	standby.Peers[0].PingAt = 0
	standby.HeardRecord(ReadResult{Sent: standby.Now, Version: "8", Record: record})
	if got := kindOf(Decide(standby)); got != "Kill" {
		t.Errorf("a standby of the former data: got %s", got)
	}
}

// TestSucceeded: an instance that learns of a later pod of its name does not begin anew.
func TestSucceeded(t *testing.T) {
	for name, change := range map[string]func(*Record){
		"led": func(r *Record) { r.Term, r.Holder = 7, Holder{Member{a.Name, "new"}, "uid-2"} },
		"followed": func(r *Record) {
			r.Rules = []Rule{{Leader: b, Set: []Member{{a.Name, "new"}}, Acks: 1, Async: true}}
		},
		"begun anew": func(r *Record) { r.System, r.Holder, r.Rules, r.Initialise = "", Holder{}, nil, a.Name },
		"":           func(*Record) {},
	} {
		o := empty(a.Name)
		o.Record.Known = false
		o.HeardRecord(ReadResult{Sent: o.Now, Version: "7", Record: o.Record.Record})
		next := o.Record.Record
		next.Seq++
		change(&next)
		o.HeardRecord(ReadResult{Sent: o.Now, Version: "8", Record: next})
		if o.Succeeded != (name != "") {
			t.Errorf("%q: got %t", name, o.Succeeded)
		}
		o.Record.Record.Holder, o.Record.Since, o.Saved = Holder{}, o.Now, o.Local
		answered(o, Member{Name: b.Name}, Member{Name: c.Name})
		if got := kindOf(Decide(o)); (got == "WriteRecord") != (name == "") || got == "Initialise" {
			t.Errorf("%q: got %s", name, got)
		}
	}
}
