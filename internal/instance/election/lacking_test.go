package election

import (
	"strings"
	"testing"
	"time"
)

// TestLackingIsSteady: what is lacking stays the same from one Ask to the next, and while its
// answers arrive. It changes when a member no longer answers, and ends with the questions.
func TestLackingIsSteady(t *testing.T) {
	d := Member{"db-3", "4"}
	o := following()
	o.Record.Record.Rules = []Rule{{Leader: a, Set: []Member{b, c, d}, Acks: 1}}
	o.Peers = append(o.Peers, Peer{Name: d.Name, Member: d})
	o.Now += time.Minute
	says := func(want string) {
		t.Helper()
		if said := o.Lacking(); want == "" && said != "" || !strings.Contains(said, want) {
			t.Errorf("%s after the question: got %q, want %q", o.Now-o.AskedAt, said, want)
		}
	}
	answer := AskReply{Term: 3, Member: c, Would: true, Position: "20"}
	o.Asking(3, 0)
	says("or of 2 of db-2, db-3 to lead")
	o.HeardAskReply(answer)
	const rest = "or of 1 of db-3 to lead"
	says(rest)
	for range 3 {
		o.Now += 2*time.Second + 300*time.Millisecond
		says(rest)
		o.Asking(3, 0)
		says(rest)
		o.Now += answerTime
		o.HeardAskReply(answer)
		says(rest)
	}
	for range 2 { // Now db-2 does not answer any more.
		o.Now += 2 * time.Second
		o.Asking(3, 0)
	}
	says("or of 2 of db-2, db-3 to lead")
	o.Now += askedLately + time.Second
	says("")
	o.HeardAskReply(answer)
	o.Asking(3, 0) // The answers to a question of long ago count no more.
	says("or of 2 of db-2, db-3 to lead")
}

// TestUnheard: a leader that lives by the record, and of which no ping arrives, is unheard.
func TestUnheard(t *testing.T) {
	for name, test := range map[string]struct {
		change func(o *Observed)
		want   string
	}{
		"its pings arrive":      {func(*Observed) {}, ""},
		"none arrives":          {func(o *Observed) { o.Now += time.Minute }, a.Name},
		"it has ended":          {func(o *Observed) { o.Peers[0].PingAt, o.Record.Record.Holder = 0, Holder{} }, ""},
		"it has resigned":       {func(o *Observed) { o.Peers[0].Gone = true }, ""},
		"it does not lead yet":  {func(o *Observed) { o.Peers[0].PingAt, o.Record.Record.Open = 0, false }, ""},
		"the record is damaged": {func(o *Observed) { o.Peers[0].PingAt, o.Record.Damaged = 0, true }, ""},
		"it leads itself":       {func(o *Observed) { o.Peers[0].PingAt, o.Record.Record.Holder.Member = 0, b }, ""},
	} {
		o := following()
		if test.change(o); o.Unheard() != test.want {
			t.Errorf("%s: got %q, want %q", name, o.Unheard(), test.want)
		}
	}
}

// TestUnready: a candidate whose own server can't be promoted yet says so, unless a leader lives.
func TestUnready(t *testing.T) {
	o := following()
	o.Server.Busy = true
	if got := o.Lacking(); got != "" {
		t.Errorf("while a leader lives: %q", got)
	}
	o.Now += time.Minute
	if got := o.Lacking(); !strings.Contains(got, "own server is not ready") {
		t.Errorf("without a leader: %q", got)
	}
}

// TestOthersOfARule: what else is needed, for people. A rule that stands for several has no leader.
func TestOthersOfARule(t *testing.T) {
	for want, rule := range map[string]Rule{
		"db-0, or of 1 of db-2": {Leader: a, Set: []Member{b, c}, Acks: 1},
		"1 of db-2":             {Set: []Member{b, c}, Acks: 1},
		"2 of db-0, db-2":       {Set: []Member{a, b, c}, Acks: 1},
	} {
		if got := rule.others([]Member{b}); got != want {
			t.Errorf("%+v: got %q, want %q", rule, got, want)
		}
	}
}
