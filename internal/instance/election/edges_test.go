package election

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestNoResumeUnderARelease: before a server leads again, a release that may still arrive at the
// API server must be made to fail.
func TestNoResumeUnderARelease(t *testing.T) {
	o := leading()
	o.Config.Durability = Asynchronous
	o.Server.State = Stopped
	o.Held.RenewedAt = o.Now - time.Second
	release, isWrite := Decide(o).(WriteRecord)
	if !isWrite || !release.Record.Released() {
		t.Fatalf("%+v", release)
	}
	o.Writing(release)
	o.Now += time.Second
	o.HeardWrite(release, o.Now-time.Second, Unanswered, "")
	o.HeardRecord(ReadResult{Sent: o.Now, Version: "7", Record: o.Held.Record}) // It has not landed yet.
	for i := range o.Peers {
		o.Peers[i].PongSent -= 2 * time.Second // cut off, but less than H ago
	}
	o.PingedAt = o.Now
	if action, resumes := Decide(o).(Resume); resumes {
		t.Errorf("%T while the release may still be written", action)
	}
}

// TestOthersGoFirst checks that a member that released a term because its own server failed lets
// others stand before it does so again, unless there is no other.
func TestOthersGoFirst(t *testing.T) {
	for alone, pause := range map[bool]time.Duration{false: electionTime, true: 0} {
		o := leading()
		if alone {
			o.Peers = nil
		}
		o.Held.Record.Open, o.Record.Record.Open = false, false
		o.Server = Server{State: Stopped}
		release, isWrite := Decide(o).(WriteRecord)
		if !isWrite || !release.Record.Released() {
			t.Fatalf("after a promotion that failed: %+v", release)
		}
		o.Writing(release)
		o.HeardWrite(release, o.Now, Done, "8")
		if when := o.mayStandAt(); when > o.Now+pause || pause > 0 && when < o.Now+pause {
			t.Errorf("alone: %t: it stands again after %s, want %s", alone, when-o.Now, pause)
		}
	}
}

// TestLacksLog: a member for which the leader's log no longer has what it needs reports that, and
// is removed from the set.
func TestLacksLog(t *testing.T) {
	o := following()
	ping := o.Peers[0].Ping
	o.Server.LacksLog = true
	if pong, ok := o.HeardPing(ping); !ok || !pong.Diverged {
		t.Errorf("the member answers %+v", pong)
	}
	o.Server.Source.Term--
	if pong, _ := o.HeardPing(ping); pong.Diverged {
		t.Error("what an earlier leader's log lacked counts for this one")
	}
	l := leading()
	l.Peers[0].Pong.Diverged = true
	write, isWrite := Decide(l).(WriteRecord)
	if !isWrite || write.Record.newest().names(b) {
		t.Errorf("%+v", write)
	}
}

// TestDamagedSaysSo: a member whose data are damaged reports that they have diverged. Without that,
// the leader would never let it rebuild them.
func TestDamagedSaysSo(t *testing.T) {
	o := following()
	o.Server = Server{State: Stopped}
	if pong, ok := o.HeardPing(o.Peers[0].Ping); !ok || pong.Diverged {
		t.Errorf("a member that is stopped answers %+v", pong)
	}
	o.Server.Damaged = true
	if pong, ok := o.HeardPing(o.Peers[0].Ping); !ok || !pong.Diverged {
		t.Errorf("a member whose data are damaged answers %+v", pong)
	}
}

// TestDoubt: Doubt says why a record is not believed, and nothing if it is.
func TestDoubt(t *testing.T) {
	for want, change := range map[string]func(o *Observed){
		"":                  func(*Observed) {},
		"can't be read":     func(o *Observed) { o.Record.Damaged = true },
		"there is no Lease": func(o *Observed) { o.Record.Version = "" },
		"data of another database (system 8, but the Lease has 7)": func(o *Observed) { o.System = "8" },
		"older than one that was seen before: it has term 1 ":      func(o *Observed) { o.Record.Record.Term = 1 },
		"that was never initialised":                               func(o *Observed) { o.Record.Record.System, o.Record.Record.Term = "", 99 },
	} {
		o := following()
		o.System, o.Record.Record.System, o.Local.Seen.Term, o.Peers[0].PingAt = "7", "7", o.Record.Record.Term, 0
		if change(o); want == "" && o.Doubt() != "" || !strings.Contains(o.Doubt(), want) {
			t.Errorf("got %q, want %q", o.Doubt(), want)
		}
		if o.believed() != (want == "") {
			t.Errorf("%q, but believed is %t", o.Doubt(), o.believed())
		}
	}
}

func TestRefusalProvesNothingForAsynchronous(t *testing.T) {
	o := following()
	o.Config.Durability = Asynchronous
	o.Now += 600 * time.Millisecond
	o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
	o.Server.Final, o.Server.Source = true, Source{}
	o.Refused(a.Name)
	if ask, asks := Decide(o).(SendAsk); asks {
		t.Errorf("stands 0.6 s after the last ping: %+v", ask)
	}
}

func TestEverybodyMeansEverybody(t *testing.T) {
	o := following()
	o.Record.Damaged, o.Asked = true, 3
	o.Config.Instances = 2 // Scaled down from 3; no member has left yet.
	o.Peers[1].AskReply = AskReply{Term: 3, Member: c, Would: true}
	if base, complete := o.base(); complete {
		t.Errorf("complete without the former leader: %+v", base.Rules)
	}
	o.Peers[0].AskReply = AskReply{Term: 3, Member: a, Would: true}
	if _, complete := o.base(); !complete {
		t.Error("all have answered, and that is not enough")
	}
}

func TestClaimTriedAgainIsNotForced(t *testing.T) {
	o := following()
	claim := WriteRecord{Record: Record{Term: 3, Seq: 6, Holder: Holder{b, "uid-b"}}, Forced: true}
	o.Writing(claim)
	claim.Forced = false
	o.Writing(claim)
	if o.Held.Forced {
		t.Error("the claim that was covered counts as forced")
	}
}

func TestNoTermAboveAllOthers(t *testing.T) {
	o := following()
	o.HeardPing(Ping{System: "s", Leader: a, Term: 2, Seen: Seen{math.MaxUint64, 1, math.MaxUint32}})
	claim := o.claim(o.Record.Record, false).(WriteRecord).Record
	if claim.Term < 2 || claim.Timeline < 2 {
		t.Errorf("term %d, timeline %d", claim.Term, claim.Timeline)
	}
}

func TestUnreadableRecordIsNotWritten(t *testing.T) {
	o := following()
	record := o.Record.Record
	for i := range maxRules {
		record.Rules = append(record.Rules, Rule{Leader: Member{"db-1", string(rune('A' + i))}})
	}
	if write, ok := o.claim(record, false).(WriteRecord); ok {
		if text, err := write.Record.Encode(); err == nil {
			t.Errorf("what would be written can.t be read: %s", text)
		}
	}
}

// TestAFullVolume checks that a failed save is retried after a pause, and that a member that can't
// promise does not ask others to.
func TestAFullVolume(t *testing.T) {
	o := following()
	o.Local.Seen.Seq++
	save, saves := Decide(o).(Save)
	if !saves {
		t.Fatalf("got %+v, want a Save", Decide(o))
	}
	o.SavingLocal()
	o.SaveFailed()
	if action, saves := Decide(o).(Save); saves {
		t.Errorf("saves again without a pause: %+v", action)
	}
	o.Now += 30 * time.Second
	o.Record.TriedAt, o.Record.ReadAt = o.Now, o.Now
	if _, saves := Decide(o).(Save); !saves {
		t.Errorf("got %+v, want it to be tried again", Decide(o))
	}
	o.SavedLocal(save.Local)
	if o.SaveFailedAt != 0 {
		t.Error("what was saved counts as failed")
	}
}

// TestLacking checks that a candidate that may not lead names the members whose answers it needs,
// and that a follower names none.
func TestLacking(t *testing.T) {
	o := following()
	if said := o.Lacking(); said != "" {
		t.Errorf("a member that follows: %s", said)
	}
	o.Now += time.Minute
	o.Asked, o.AskedAt = 3, o.Now
	if said := o.Lacking(); !strings.Contains(said, "the answer of db-0, or of 1 of db-2 ") {
		t.Errorf("alone: %s", said)
	}
	o.Record.Record.Rules = []Rule{{Leader: a}}
	if said := o.Lacking(); !strings.Contains(said, "the answer of db-0 ") {
		t.Errorf("while the leader was alone: %s", said)
	}
	o.Record.Record.Rules = []Rule{{Leader: b}}
	if said := o.Lacking(); said != "" {
		t.Errorf("with all writes: %s", said)
	}
}

// TestHandsOverToNobodyElse: a leader that may hand over only to one member goes on while that
// member can't take over. If it has to stop, it hands over to any member that can.
func TestHandsOverToNobodyElse(t *testing.T) {
	for name, test := range map[string]struct {
		preferred  string
		only, stop bool
		want       Member
	}{
		"to anybody":                {"", false, false, c},
		"to the preferred one":      {b.Name, false, false, b},
		"the preferred one is away": {"db-9", false, false, c},
		"to the only one":           {b.Name, true, false, b},
		"the only one is away":      {"db-9", true, false, Member{}},
		"and it has to stop":        {"db-9", true, true, c},
	} {
		o := leading()
		o.Intent = Intent{Stop: test.stop, SwitchTo: true, Preferred: test.preferred, Only: test.only}
		stop, stops := Decide(o).(StopCleanly)
		if stops != test.want.HasData() || stops && test.preferred != "" && test.preferred != "db-9" && stop.Successor != test.want {
			t.Errorf("%s: got %+v", name, Decide(o))
		}
	}
}

// TestSuccessorStores: a leader hands over only to a member that stores what it receives. If
// it has to stop, or its server ends, another one is better than none: it has everything, too.
func TestSuccessorStores(t *testing.T) {
	for name, test := range map[string]struct {
		unstored []Member
		intent   Intent
		want     Member
	}{
		"one does not store yet":                     {[]Member{c}, Intent{SwitchTo: true}, b},
		"the preferred one does not":                 {[]Member{b}, Intent{SwitchTo: true, Preferred: b.Name}, c},
		"the only one does not":                      {[]Member{b}, Intent{SwitchTo: true, Preferred: b.Name, Only: true}, Member{}},
		"none does":                                  {[]Member{b, c}, Intent{SwitchTo: true}, Member{}},
		"it has to stop":                             {[]Member{b}, Intent{Stop: true}, c},
		"it has to stop, and the preferred does not": {[]Member{b}, Intent{Stop: true, Preferred: b.Name}, c},
		"it has to stop, and none does":              {[]Member{b, c}, Intent{Stop: true, Preferred: b.Name}, b},
	} {
		o := leading()
		for i := range o.Peers {
			o.Peers[i].Pong.Unstored = slices.Contains(test.unstored, o.Peers[i].Member)
		}
		o.Intent = test.intent
		if got := o.successor(); got != test.want {
			t.Errorf("%s: hands over to %+v", name, got)
		}
		if _, stops := Decide(o).(StopCleanly); stops != test.want.HasData() {
			t.Errorf("%s: got %+v", name, Decide(o))
		}
		o.Server.State, o.Intent = Stopped, Intent{}
		if write, is := Decide(o).(WriteRecord); !is || !write.Record.Released() {
			t.Errorf("%s: when its server has ended, it keeps the others from leading: %+v", name, Decide(o))
		}
	}
}

// TestUnstoredLeaderGivesWay: a leader whose server has ended before it stored its data releases
// the record if another member answers, whether its program was restarted, too, or not. The
// election finds out which of them has most.
func TestUnstoredLeaderGivesWay(t *testing.T) {
	alone := func(leader Member) []Rule { return []Rule{{Leader: leader, Async: true}} }
	for name, test := range map[string]struct{ unstored, answers, releases bool }{
		"its data were not stored":       {true, true, true},
		"they were not, but it is alone": {true, false, false},
		"they were":                      {false, true, false},
	} {
		o := leading()
		o.Config.Durability, o.Held.Record.Rules, o.Record.Record.Rules = Asynchronous, alone(a), alone(a)
		o.Server.State, o.Server.Unstored = Stopped, test.unstored
		again := following()
		again.Config.Durability, again.Record.Record.Rules = Asynchronous, alone(b)
		again.Record.Record.Holder = Holder{Member: b, PodUID: again.PodUID}
		again.Server = Server{State: Stopped, Unstored: test.unstored}
		again.Asked, again.AskedAt = 3, again.Now-2*silentAfter
		for i := range o.Peers {
			again.Peers[i] = Peer{Name: again.Peers[i].Name, Member: again.Peers[i].Member}
			if !test.answers {
				o.Peers[i].PongSent = 0
				continue
			}
			again.Peers[i].AskReply = AskReply{Term: 3, Member: again.Peers[i].Member, Would: true}
		}
		if write, is := Decide(o).(WriteRecord); is != test.releases || is && !write.Record.Released() {
			t.Errorf("%s: got %+v", name, Decide(o))
		}
		if write, is := Decide(again).(WriteRecord); !is || write.Record.Released() != test.releases {
			t.Errorf("%s, and its program was restarted: got %+v", name, Decide(again))
		}
	}
	o := leading()
	o.Config.Durability, o.Held.Record.Rules, o.Record.Record.Rules = Asynchronous, alone(a), alone(a)
	o.Server.State, o.Server.Unstored = Stopped, true
	for i := range o.Peers {
		o.Peers[i].Pong.Member.Incarnation = ""
	}
	if _, resumes := Decide(o).(Resume); !resumes {
		t.Errorf("only members without data answer: got %+v", Decide(o))
	}
}

// TestLackingARecord: data that were made, and never had a primary, are of no use without the
// record that permitted them, and the status says so.
func TestLackingARecord(t *testing.T) {
	o := following()
	o.Local, o.Saved, o.Record.Record = Local{}, Local{}, Record{}
	o.Asked, o.AskedAt = 1, o.Now
	if said := o.Lacking(); !strings.HasPrefix(said, "has data that no primary has written yet") {
		t.Errorf("got %q", said)
	}
}

// TestElectionTime: a candidate that gets too few promises leaves the election to others, after
// twice the time at each further attempt, because members may only be slow. With a leader, it
// begins anew.
func TestElectionTime(t *testing.T) {
	o := following()
	attempt := func(want time.Duration) {
		t.Helper()
		forced(o)
		o.Held.Forced, o.Held.Claimed, o.Held.RenewedAt, o.Held.RequestedAt = false, o.Now, o.Now+want, o.Now+want
		o.Now += want - time.Millisecond
		if action, isWrite := Decide(o).(WriteRecord); isWrite {
			t.Fatalf("before %s: %q", want, action.Why)
		}
		o.Now += time.Millisecond
		action := Decide(o)
		release, isWrite := action.(WriteRecord)
		if !isWrite || !release.Record.Released() {
			t.Fatalf("after %s: %+v", want, action)
		}
		o.Writing(release)
		o.HeardWrite(release, o.Now, Done, "8")
	}
	for _, want := range []time.Duration{electionTime, 2 * electionTime, longestElection, longestElection} {
		attempt(want)
	}
	o.HeardPing(Ping{System: "s", Leader: a, Term: 4, History: "99", Version: o.Record.Version})
	attempt(electionTime)
}

// TestFoundTimeline: a program that finds data which an earlier one has made, and whose timeline
// that could not store any more, claims the next timeline.
func TestFoundTimeline(t *testing.T) {
	o := following()
	o.Peers, o.System, o.Local, o.Record.Record = nil, "", Local{}, Record{Initialise: b.Name}
	o.Found("s", 1)
	o.Server, o.Saved, o.Record.TriedAt = Server{State: Standby, Final: true, Position: "0"}, o.Local, o.Now
	if claim, _ := Decide(o).(WriteRecord); claim.Record.System != "s" || claim.Record.Timeline != 2 {
		t.Errorf("got %+v", claim)
	}
}

// TestNoPromotionUnderARelease: a candidate that has tried to release its claim, and does not know
// whether it could, is not promoted before a later write of it has succeeded: the release may still
// arrive, and its server would be killed (seed 31455).
func TestNoPromotionUnderARelease(t *testing.T) {
	for want, releasing := range map[string]bool{"Promote": false, "Wait": true} {
		o := following()
		forced(o)
		o.Held.Releasing = releasing
		if got := kindOf(Decide(o)); got != want {
			t.Errorf("releasing %t: got %s, want %s", releasing, got, want)
		}
	}
}

// TestScaleIn: a leader takes members that should no longer exist out of its rule, although they
// receive, because the manager removes no pod that a rule names. It keeps one that commits need.
func TestScaleIn(t *testing.T) {
	scaled := func(durability Durability, change func(*Observed)) *Observed {
		o := leading()
		o.Server.ReceiversAt = o.Now
		config := o.Config
		config.Instances, config.Durability = 2, durability
		o.Configured(config, []string{b.Name})
		change(o)
		return o
	}
	nothing := func(*Observed) {}
	for name, test := range map[string]struct {
		state *Observed
		want  []Member
	}{
		"required":     {scaled(Required, nothing), []Member{b}},
		"preferred":    {scaled(Preferred, nothing), []Member{b}},
		"asynchronous": {scaled(Asynchronous, nothing), []Member{b}},
		"the one that stays has diverged": {scaled(Required, func(o *Observed) {
			o.Peers[0].Pong.Diverged = true
		}), []Member{c}},
	} {
		write, isWrite := Decide(test.state).(WriteRecord)
		if !isWrite || len(write.Record.Rules) != 2 || !slices.Equal(write.Record.newest().Set, test.want) {
			t.Errorf("%s: got %+v, want a rule with %v", name, Decide(test.state), test.want)
		}
	}
	silent := scaled(Required, func(o *Observed) {
		o.Held.RenewedAt = o.Now
		o.Peers[0].PongSent, o.Peers[0].StreamedAt = o.Now-10*time.Second, o.Now-10*time.Second
	})
	if wait, isWait := Decide(silent).(Wait); !isWait {
		t.Errorf("the one that stays is silent: got %+v, want no change", wait)
	}
	o := scaled(Required, func(o *Observed) {
		rule := Rule{Leader: a, Set: []Member{b}, Acks: 1}
		o.Server.Rule, o.Record.Record.Rules, o.Held.Record.Rules = rule, []Rule{rule}, []Rule{rule}
	})
	if wait, isWait := Decide(o).(Wait); !isWait {
		t.Errorf("one that receives and should not exist: got %+v, want no change", wait)
	}
}
