package server

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/valkey"
)

// TestNotStoredIsNotReady: a server that should persist is known not to store its data until it
// has its append-only file. It says so if that fails or lasts. The leader keeps nothing more for
// its clone as soon as it receives.
func TestNotStoredIsNotReady(t *testing.T) {
	const failed = "aof_last_bgrewrite_status:err\r\n"
	for name, test := range map[string]struct {
		persists, stored bool
		said             string
		after            time.Duration
		unstored         bool
		problem          string
	}{
		"in memory":                  {false, false, "", time.Hour, false, ""},
		"stored":                     {true, true, "", time.Hour, false, ""},
		"not yet":                    {true, false, "", unstoredLate - time.Second, true, ""},
		"not for long":               {true, false, "", unstoredLate, true, "not stored yet: the server is still writing"},
		"it failed":                  {true, false, failed, 0, true, "not stored yet: the last rewrite of the append-only file failed"},
		"stored, and a later failed": {true, true, failed, 0, false, "the last rewrite of the append-only file failed"},
	} {
		for _, state := range []election.ServerState{election.Standby, election.Leading} {
			released := false
			l := &life{persists: test.persists, stored: test.stored, relay: &relay{}}
			e := &Engine{life: l, held: func() { released = true }}
			e.observed.Server = election.Server{State: state, Source: election.Source{Term: 2}}
			now := time.Now()
			for _, at := range []time.Time{now, now.Add(test.after)} {
				e.found(l, measured{text: test.said, replication: valkey.Replication{Connected: true}, at: at})
			}
			o := e.Observe()
			if o.Server.Unstored != test.unstored || !strings.Contains(o.Problem, test.problem) || (o.Problem == "") != (test.problem == "") {
				t.Errorf("%s: got %t, %q", name, o.Server.Unstored, o.Problem)
			}
			if isStandby := state == election.Standby; o.Connected != isStandby || released != isStandby {
				t.Errorf("%s: receives: %t; what the leader keeps for the clone is released: %t", name, o.Connected, released)
			}
		}
	}
}

// TestRewriteAgain: a server that could not write its first append-only file is asked to try again
// every minute. One that stores its data tries a later rewrite again by itself.
func TestRewriteAgain(t *testing.T) {
	for name, test := range map[string]struct {
		stored, failed bool
		want           int
	}{
		"the first one failed": {false, true, 3}, "it is being written": {false, false, 0}, "a later one failed": {true, true, 0},
	} {
		clock := clocktesting.NewFakeClock(time.Now())
		l := &life{persists: true, stored: test.stored}
		e := &Engine{Options: Options{Clock: clock}, life: l}
		l.storeProblem(valkey.Persistence{}, clock.Now())
		asked := 0
		for range 3 * int(rewriteEvery/time.Second) {
			clock.Step(time.Second)
			l.storeProblem(valkey.Persistence{RewriteFailed: test.failed}, clock.Now())
			if e.isRewriteDue(l) {
				asked++
			}
		}
		if asked != test.want {
			t.Errorf("%s: asked %d times, not %d", name, asked, test.want)
		}
		if e.life = nil; e.isRewriteDue(l) {
			t.Errorf("%s: a server that has ended is asked", name)
		}
	}
}

// TestLossShown: what was lost is reported for a while, unless a problem has a remedy.
func TestLossShown(t *testing.T) {
	clock := clocktesting.NewFakeClock(time.Now())
	e := &Engine{Options: Options{Clock: clock}, changed: make(chan struct{}, 1)}
	l := &life{isCopy: true}
	e.tellLoss(l)
	lost := e.loss
	if e.tellLoss(l); lost == "" || l.isCopy {
		t.Fatalf("told %q", lost)
	}
	for _, step := range []struct {
		after         time.Duration
		failing, want string
	}{{0, "", lost}, {0, "failed", "failed"}, {lossShown - time.Second, "", lost}, {time.Second, "", ""}} {
		clock.Step(step.after)
		e.failing = step.failing
		if got := e.Observe().Problem; got != step.want {
			t.Errorf("after %s more: got %q, not %q", step.after, got, step.want)
		}
	}
}

// TestUnstoredAtTheEnd: of a server that has ended, it is known whether it had stored its data, and
// of one that this program has not started, whether there is an append-only file.
func TestUnstoredAtTheEnd(t *testing.T) {
	e, directory := made(t)
	if !New(e.Options).Observe().Server.Unstored {
		t.Error("new data are stored")
	}
	for name, test := range map[string]struct {
		l    *life
		want bool
	}{
		"it had none": {&life{persists: true}, true}, "it had one": {&life{persists: true, stored: true}, false},
		"it has just loaded one": {&life{persists: true, appended: true}, false}, "in memory": {&life{}, false},
	} {
		l := test.l
		l.cancel = func() {}
		e.life = l
		e.forget(l, "")
		if got := e.Observe().Server.Unstored; got != test.want {
			t.Errorf("%s: unstored: %t", name, got)
		}
	}
	write(t, filepath.Join(directory, valkey.Appended, valkey.Manifest), "x")
	if New(e.Options).Observe().Server.Unstored {
		t.Error("data with an append-only file are not stored")
	}
	if e.unstored = true; e.Observe().Server.State != election.Stopped {
		t.Errorf("got %+v", e.Observe().Server)
	}
	if _, err := e.Inspect(); err != nil || e.Observe().Server.Unstored {
		t.Errorf("data that have an append-only file by now are not stored, or %v", err)
	}
}
