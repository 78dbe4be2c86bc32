package election

import (
	"strings"
	"testing"
	"time"
)

// adopted returns an instance without data, of a database that never had a leader and may be
// initialised by none: its volumes were there before it.
func adopted(name string) *Observed {
	o := empty(name)
	o.Config.Durability, o.Config.Ephemeral = Required, false
	o.Local, o.Saved = Local{}, Local{}
	o.Record.Record = Record{}
	return o
}

// TestBeginsOnEmptyVolumes: where data are stored, the instance with the lowest name initialises a
// database that never had a leader, and only when all others have answered that they have no data.
func TestBeginsOnEmptyVolumes(t *testing.T) {
	none := func(name string) Member { return Member{Name: name} }
	all := func() *Observed { return answered(adopted(a.Name), none(b.Name), none(c.Name)) }
	for _, test := range []struct {
		name   string
		state  *Observed
		change func(*Observed)
		want   string
	}{
		{"nobody was asked", adopted(a.Name), func(*Observed) {}, "SendAsk"},
		{"none has data", all(), func(*Observed) {}, "WriteRecord"},
		{"it is the only instance", answered(adopted(a.Name)), func(o *Observed) {
			o.Config.Instances, o.Others, o.Peers = 1, nil, nil
		}, "WriteRecord"},
		{"one does not answer", answered(adopted(a.Name), none(b.Name)), func(*Observed) {}, "Wait"},
		{"one has data", answered(adopted(a.Name), none(b.Name), c), func(*Observed) {}, "Wait"},
		{"one that has no data has seen a term", all(), func(o *Observed) { o.Peers[0].AskReply.Seen.Term = 1 }, "Wait"},
		{"one that has no data has promised", all(), func(o *Observed) { o.Peers[0].AskReply.Promised.Term = 1 }, "Wait"},
		{"another is the first", answered(adopted(b.Name), none(a.Name), none(c.Name)), func(*Observed) {}, "Wait"},
		{"one that should exist was not asked", all(), func(o *Observed) { o.Others = append(o.Others, "db-3") }, "Wait"},
		{"one that should no longer exist does not answer", all(), func(o *Observed) {
			o.Peers = append(o.Peers, Peer{Name: "db-3"})
		}, "Wait"},
		{"more instances than are known", all(), func(o *Observed) { o.Config.Instances = 4 }, "Wait"},
		{"the record is newer than the answers", all(), func(o *Observed) { o.Record.Since, o.Now = o.Now+1, o.Now+1 }, "Wait"},
		{"the answers are too old", all(), func(o *Observed) {
			o.Now += o.beginEvery()
			o.Record.TriedAt = o.Now
		}, "SendAsk"},
		{"the record may have changed", all(), func(o *Observed) { o.Record.Stale, o.Record.TriedAt = true, o.Now-readEvery }, "ReadRecord"},
		{"it has seen a term", all(), func(o *Observed) { o.see(Seen{Term: 1}); o.Saved = o.Local }, "Wait"},
		{"it has promised", all(), func(o *Observed) { o.Local.Promised = Promised{1, b}; o.Saved = o.Local }, "Wait"},
		{"another may initialise", all(), func(o *Observed) { o.Record.Record.Initialise = b.Name }, "Wait"},
		{"there was a leader", all(), func(o *Observed) {
			o.Record.Record.Term, o.Record.Record.System, o.Record.Record.Rules = 1, "s", []Rule{{Leader: c}}
		}, "Wait"},
		{"there is no Lease", all(), func(o *Observed) { o.Record.Version = "" }, "Wait"},
		{"the record is damaged", all(), func(o *Observed) { o.Record.Damaged = true }, "Wait"},
		{"its volume has former data", all(), func(o *Observed) { o.HasRemains = true }, "Wait"},
		{"it has data that the server has lost", all(), func(o *Observed) { o.Me = a }, "Wait"},
		{"the settings may be old", all(), func(o *Observed) { o.Config.Stale = true }, "Wait"},
		{"a leader lives", all(), func(o *Observed) {
			o.Peers[0].Ping, o.Peers[0].PingAt = Ping{System: "s", Leader: b, Term: 3, History: "99"}, o.Now
		}, "Save"},
	} {
		test.change(test.state)
		if got := kindOf(Decide(test.state)); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestInitialisesOnEmptyVolumes: what follows is an initialisation as with new volumes, at whatever
// point the program ends.
func TestInitialisesOnEmptyVolumes(t *testing.T) {
	o := answered(adopted(a.Name), Member{Name: b.Name}, Member{Name: c.Name})
	write, _ := Decide(o).(WriteRecord)
	if write.Record.Initialise != a.Name || write.Record.Term != 0 || write.Record.Seq != 1 || write.Version != o.Record.Version {
		t.Fatalf("got %+v", write)
	}
	for _, outcome := range []Outcome{Conflict, Unanswered} {
		o.Writing(write)
		o.HeardWrite(write, o.Now, outcome, "")
		o.Record.TriedAt = o.Now - readEvery
		if got := kindOf(Decide(o)); got != "ReadRecord" {
			t.Errorf("outcome %d: got %s", outcome, got)
		}
	}
	// The write was done, and the program has begun again.
	o = adopted(a.Name)
	o.HeardRecord(ReadResult{Sent: o.Now, Version: "8", Record: write.Record})
	o.Saved = o.Local
	if got := kindOf(Decide(o)); got != "Initialise" {
		t.Fatalf("got %s", got)
	}
	o.Became(a, "s", 1)
	o.Server, o.Saved = Server{State: Standby, Final: true, Position: "0"}, o.Local
	claim, _ := Decide(o).(WriteRecord)
	if claim.Record.System != "s" || claim.Record.Term != 1 || claim.Record.Seq != 2 || claim.Record.Holder.Member != a {
		t.Errorf("got %+v", claim)
	}
}

// TestFormerAnswers: an answer to an earlier question does not count, and no question is asked
// twice. Answers that an instance got before it had data do not count afterwards.
func TestFormerAnswers(t *testing.T) {
	o := adopted(a.Name)
	first, _ := Decide(o).(SendAsk)
	o.Asking(first.Ask.Term, 0)
	o.Now += o.beginEvery()
	o.Record.TriedAt = o.Now
	second, _ := Decide(o).(SendAsk)
	o.Asking(second.Ask.Term, 0)
	for _, name := range []string{b.Name, c.Name} {
		o.HeardAskReply(AskReply{Term: first.Ask.Term, Member: Member{Name: name}})
	}
	if got := kindOf(Decide(o)); got != "Wait" {
		t.Errorf("with the answers to the first question: got %s", got)
	}
	for _, name := range []string{b.Name, c.Name} {
		o.HeardAskReply(AskReply{Term: second.Ask.Term, Member: Member{Name: name}})
	}
	if got := kindOf(Decide(o)); got != "WriteRecord" {
		t.Errorf("with the answers to the second: got %s", got)
	}
	if o.Became(a, "s", 1); o.Asked != 0 || o.AskedAt != 0 {
		t.Errorf("it has asked as another member: %d", o.Asked)
	}
}

// TestSaysEmpty: an instance without data says so to another one without data, unless it may have
// data soon, or had some.
func TestSaysEmpty(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Observed, *Ask)
		want   bool
	}{
		{"it has none", func(*Observed, *Ask) {}, true},
		{"it has just started", func(o *Observed, _ *Ask) { o.Now = time.Second }, true},
		{"the other has data", func(_ *Observed, ask *Ask) { ask.System, ask.Member = "s", a }, false},
		{"the other has data that can't be read", func(_ *Observed, ask *Ask) { ask.Member = a }, false},
		{"data are being made", func(o *Observed, _ *Ask) { o.Server.Busy = true }, false},
		{"its volume has former data", func(o *Observed, _ *Ask) { o.HasRemains = true }, false},
		{"it hears a leader", func(o *Observed, _ *Ask) {
			o.HeardPing(Ping{System: "s", Leader: c, Term: 1, History: "99"})
		}, false},
		{"it has data", func(o *Observed, _ *Ask) { o.Me, o.System = b, "s" }, false},
	} {
		o, ask := adopted(b.Name), Ask{Term: 1, Member: Member{Name: a.Name}, Vacant: true}
		test.change(o, &ask)
		reply, answers := o.HeardAsk(ask)
		if answers != test.want || answers && (reply.Member.HasData() || reply.Would) {
			t.Errorf("%s: answers: %t, %+v", test.name, answers, reply)
		}
	}
	// Data that are damaged count as data.
	o := adopted(b.Name)
	o.Me = b
	if reply, answers := o.HeardAsk(Ask{Term: 1, Member: Member{Name: a.Name}}); !answers || !reply.Member.HasData() {
		t.Errorf("damaged: %t, %+v", answers, reply)
	}
}

// TestLackingToBegin: the instance that would initialise the database says what it waits for.
func TestLackingToBegin(t *testing.T) {
	for want, o := range map[string]*Observed{
		"": adopted(a.Name),
		"has no data, and initialises the database only after an answer that there are none on db-1, db-2": answered(adopted(a.Name)),
		"has no data, and does not initialise the database, because there are data on db-2": func() *Observed {
			o := answered(adopted(a.Name))
			o.HeardAskReply(AskReply{Term: 3, Member: Member{Name: b.Name}})
			o.HeardAskReply(AskReply{Term: 3, Member: c})
			return o
		}(),
	} {
		if got := o.Lacking(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	knowing := answered(adopted(a.Name))
	knowing.HeardAskReply(AskReply{Term: 3, Member: Member{Name: b.Name}, Seen: Seen{Term: 2}})
	if got := knowing.Doubt(); !strings.Contains(got, "never had a primary, but there was one") {
		t.Errorf("got %q", got)
	}
	o := answered(adopted(a.Name))
	o.Record.Record.Initialise = a.Name
	if got := o.Lacking(); got != "" {
		t.Errorf("it initialises: got %q", got)
	}
}

// TestBeforeTheFirstTerm: a new database of the name begins with a record that has a lower Seq than
// an attempt on the same volumes that never had data.
func TestBeforeTheFirstTerm(t *testing.T) {
	o := adopted(a.Name)
	o.see(Seen{Seq: 4})
	o.Saved = o.Local
	if got := kindOf(Decide(o)); got != "SendAsk" || strings.Contains(o.Doubt(), "older") {
		t.Errorf("got %s, %q", got, o.Doubt())
	}
	answered(o, Member{Name: b.Name}, Member{Name: c.Name})
	if write, _ := Decide(o).(WriteRecord); write.Record.Seq <= 4 {
		t.Errorf("got %+v", write)
	}
}
