package election

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// inOrder compares positions that are numbers of the same length.
type inOrder struct{}

func (inOrder) Compare(a, b Position) Comparison {
	return []Comparison{Behind, Equal, Ahead}[strings.Compare(string(a), string(b))+1]
}

func (inOrder) Holds(history History, position Position) bool {
	return string(position) <= string(history)
}

// leading returns the leader of three instances, a minute after its start. The other members
// answer.
func leading() *Observed {
	rule := Rule{a, []Member{b, c}, 1, false}
	record := Record{System: "s", Term: 2, Seq: 5, Holder: Holder{a, "uid"}, Open: true, Rules: []Rule{rule}, Timeline: 2}
	local := Local{Promised{2, a}, Seen{2, 5, 2}}
	now := time.Minute
	o := &Observed{
		Now: now, Config: Config{Instances: 3, After: 11 * time.Second, Positions: inOrder{}}, Me: a, PodUID: "uid", System: "s",
		Local: local, Saved: local, PingedAt: now,
		Server: Server{State: Leading, Position: "20", History: "99", Rule: rule, Settled: true, Committed: true},
		Record: View{Version: "7", Record: record, Known: true, Since: time.Second},
		Held: Held{
			Term: 2, FromSeq: 5, Claimed: time.Second, RenewedAt: time.Second, Record: record, Promoted: true, Published: true, PublishAt: now,
		},
	}
	for _, member := range []Member{b, c} {
		o.Peers = append(o.Peers, Peer{
			Name: member.Name, Member: member, StreamedAt: now, Near: true,
			Pong: Pong{Member: member, Promised: Promised{2, a}, Position: "20"}, PongSent: now,
		})
	}
	return o
}

// following returns a standby of the same three.
func following() *Observed {
	o := leading()
	o.Me, o.PodUID, o.Held = b, "uid-b", Held{}
	o.Server = Server{State: Standby, Position: "20", Source: Source{a, 2}}
	o.Peers = []Peer{
		{Name: a.Name, Member: a, Ping: Ping{System: "s", Leader: a, Term: 2, History: "99"}, PingAt: o.Now},
		{Name: c.Name, Member: c},
	}
	return o
}

// forced is following with the claim of term 3, which only an accepted loss allowed, half a second
// ago.
func forced(o *Observed) {
	record := o.Record.Record
	rule := Rule{b, []Member{a, c}, 1, false}
	record.Term, record.Seq, record.Holder, record.Rules = 3, 6, Holder{b, "uid-b"}, append(record.Rules[:1:1], rule)
	o.Local = Local{Promised{3, b}, Seen{3, 6, 3}}
	o.Saved, o.Record.Record = o.Local, record
	o.Server.Rule, o.Server.Source, o.Server.Final = rule, Source{}, true
	o.Held = Held{
		Term: 3, FromSeq: 6, Claimed: o.Now - answerTime, RenewedAt: o.Now - answerTime, Record: record, Forced: true,
		RequestedAt: o.Now - answerTime,
	}
}

// TestDecide shows each kind of decision once. test/simulation tests that they are right together.
func TestDecide(t *testing.T) {
	for _, test := range []struct {
		name   string
		state  *Observed
		change func(*Observed)
		want   string
	}{
		{"at rest nothing is written", leading(), func(*Observed) {}, "Wait"},
		{"pings are due", leading(), func(o *Observed) { o.PingedAt -= time.Second }, "SendPings"},
		{"a higher term was seen", leading(), func(o *Observed) { o.see(Seen{Term: 3}) }, "Kill"},
		{"no member answers and the Lease was not renewed", leading(), func(o *Observed) { o.Now += 10 * time.Second }, "Kill"},
		{"one answers, whose data have diverged", leading(), func(o *Observed) {
			o.Peers[0].Pong.Diverged, o.Peers[1].PongSent = true, 0
		}, "Kill"},
		{"one of those who answer has diverged", leading(), func(o *Observed) { o.Peers[0].Pong.Diverged = true }, "WriteRecord"},
		{"a member is silent", leading(), func(o *Observed) { o.Peers[0].PongSent -= 2 * time.Second }, "WriteRecord"},
		{"the disk hangs", leading(), func(o *Observed) { o.Server.UnflushedSince = o.Now - 11*time.Second }, "Kill"},
		{"the server crashed, and another member can lead", leading(), func(o *Observed) { o.Server.State = Stopped }, "WriteRecord"},
		{"the program shall end", leading(), func(o *Observed) { o.Intent.Stop = true }, "StopCleanly"},
		{"another rule is recorded", leading(), func(o *Observed) { o.Server.Rule = Rule{Leader: a} }, "SetRule"},
		{"the Lease was deleted", leading(), func(o *Observed) { o.Record.Version, o.Now = "", o.Now+time.Millisecond; o.Record.ReadAt = o.Now - 2 }, "Wait"},
		{"the address is not published", leading(), func(o *Observed) { o.Held.Published, o.Held.PublishAt = false, 0 }, "Publish"},
		{"the address was published a minute ago", leading(), func(o *Observed) { o.Held.PublishAt -= republishEvery }, "Publish"},
		{"the Lease was restored, and written anew", leading(), func(o *Observed) {
			record := o.Record.Record
			o.Held.PublishAt -= readEvery
			o.HeardRecord(ReadResult{Sent: o.Now, Version: "8", Record: Record{System: "s", Term: 1, Rules: record.Rules}})
			record.Seq++
			o.HeardWrite(WriteRecord{Record: record}, o.Now, Done, "9")
		}, "Publish"},
		{"the leader is heard", following(), func(*Observed) {}, "Wait"},
		{"the leader is quiet", following(), func(o *Observed) { o.Now += 2 * time.Second }, "ReadRecord"},
		{"the leader is gone, and the record was just read", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
		}, "SendAsk"},
		{"the leader is gone, and a read took long, and was just answered", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt, o.Record.HeardAt = o.Now-2*time.Second, o.Now-2*time.Second, o.Now
		}, "SendAsk"},
		{"there are no data, and a read that took long says to make them", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Me, o.System, o.Local, o.Saved = Member{Name: b.Name}, "", Local{}, Local{}
			o.Server = Server{State: NoData}
			o.Record.Record = Record{Initialise: b.Name}
			o.Record.TriedAt, o.Record.HeardAt = o.Now-2*time.Second, o.Now
		}, "Initialise"},
		{"the leader is gone, and our server is busy", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt, o.Server.Busy = o.Now, o.Now, true
		}, "Wait{Until:1m13s For:the server}"},
		{"the record was released, and our server is busy", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt, o.Server.Busy, o.Record.Record.Holder = o.Now, o.Now, true, Holder{}
		}, "Wait{Until:1m13s For:the server}"},
		{"the loss is accepted, but a member that can't promise has more", following(), func(o *Observed) {
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
			o.Config.AcceptLoss, o.Asked, o.AskedAt = 2, 3, o.Now-10*time.Second
			o.Peers[1].AskReply = AskReply{Term: 3, Member: c, Position: "30"}
		}, "SendAsk"},
		{"the loss is accepted", following(), forced, "Promote"},
		{"the loss is accepted, but a member that has promised has more", following(), func(o *Observed) {
			forced(o)
			o.Peers[1].PromiseReply = PromiseReply{Term: 3, Member: c, Given: true, Position: "30"}
		}, "Wait"},
		{"a candidate asks while the leader lives", following(), func(o *Observed) {
			o.HeardPromiseRequest(PromiseRequest{System: "s", Term: 3, Candidate: c})
		}, "Reply{To:db-2 Promise:{Term:3 Member:{Name:db-1 Incarnation:1} Given:false"},
		{"a candidate asks, and the record was released", following(), func(o *Observed) {
			o.HeardPromiseRequest(PromiseRequest{System: "s", Term: 3, Candidate: c, Vacant: true})
		}, "Save{Local:{Promised:{Term:3"},
		{"the server is down", following(), func(o *Observed) { o.Server = Server{State: Stopped}; o.Record.Known = true }, "Start"},
		{"the data are damaged, and a rule needs them", following(), func(o *Observed) {
			o.Server = Server{State: Stopped, Damaged: true}
		}, "Start"},
		{"the data are damaged, and free", following(), func(o *Observed) {
			o.Server, o.Peers[0].Ping.Free = Server{State: Stopped, Damaged: true}, []Member{b}
		}, "Replace"},
		{"the data are damaged, and the leader is gone", following(), func(o *Observed) {
			o.Server, o.Peers[0].Ping.Free = Server{State: Stopped, Damaged: true}, []Member{b}
			o.Now += 12 * time.Second
			o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
		}, "Start"},
		{"the data have diverged, and a rule needs them", following(), func(o *Observed) {
			o.Server = Server{State: Standby, Final: true, Position: "99+"}
		}, "Wait"},
		{"the data have diverged, and are free", following(), func(o *Observed) {
			o.Server = Server{State: Standby, Final: true, Position: "99+"}
			o.Peers[0].Ping.Free = []Member{b}
		}, "Replace"},
		{"the log ends in a part of a record that the leader lacks", following(), func(o *Observed) {
			o.Server = Server{State: Standby, Final: true, Position: "99+", Whole: "99"}
			o.Peers[0].Ping.Free = []Member{b}
		}, "Follow"},
		{"the leader's log no longer continues the data, and a rule needs them", following(), func(o *Observed) {
			o.Server.LacksLog = true
		}, "Wait"},
		{"the leader's log no longer continues the data, and they are free", following(), func(o *Observed) {
			o.Server.LacksLog, o.Peers[0].Ping.Free = true, []Member{b}
		}, "Replace"},
		{"they are free, and could not be cloned a moment ago", following(), func(o *Observed) {
			o.Server.LacksLog, o.Peers[0].Ping.Free = true, []Member{b}
			o.CloneFailed(Source{a, 2}, o.Now+time.Minute)
		}, "Wait{Until:1m1s"},
		{"they are free, and could not be cloned before", following(), func(o *Observed) {
			o.Server.LacksLog, o.Peers[0].Ping.Free = true, []Member{b}
			o.CloneFailed(Source{a, 2}, o.Now)
		}, "Replace"},
		{"they are free, and those of another leader could not be cloned", following(), func(o *Observed) {
			o.Server.LacksLog, o.Peers[0].Ping.Free = true, []Member{b}
			o.CloneFailed(Source{c, 1}, o.Now+time.Minute)
		}, "Replace"},
		{"the program of a standby shall end", following(), func(o *Observed) { o.Intent.Stop = true }, "Exit"},
	} {
		test.change(test.state)
		got := strings.TrimPrefix(fmt.Sprintf("%T%+v", Decide(test.state), Decide(test.state)), "election.")
		if !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

// TestWould: a member that could not store something says that it would promise nothing, until its
// volume works again, which it tries even if nothing else is to be stored.
func TestWould(t *testing.T) {
	o := following()
	o.Now += 12 * time.Second
	o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
	would := func() bool {
		reply, answers := o.HeardAsk(Ask{System: "s", Term: 3, Member: c})
		if !answers {
			t.Error("it does not answer")
		}
		return reply.Would
	}
	if !would() {
		t.Error("it would promise nothing although its volume works")
	}
	o.SavingLocal()
	o.SaveFailed()
	if would() {
		t.Error("it would promise although its volume failed")
	}
	o.Now += readEvery
	save, saves := Decide(o).(Save)
	if !saves {
		t.Fatalf("got %+v, want a Save", Decide(o))
	}
	o.SavedLocal(save.Local)
	if !would() {
		t.Error("it would promise nothing although its volume works again")
	}
}
