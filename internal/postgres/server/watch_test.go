package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestSilentStandby: a standby whose server has answered nothing for a while does not count as one
// that receives, until it answers again. A server that refuses a session answers.
func TestSilentStandby(t *testing.T) {
	clock, l := clocktesting.NewFakeClock(time.Now()), &life{}
	e := &Engine{Options: Options{Clock: clock}, life: l}
	e.observed = engine.Observation{Server: election.Server{State: election.Standby}, Connected: true}
	e.noteAnswer(l)
	for _, step := range []struct {
		after   time.Duration
		answers bool
		want    bool
	}{{silentAfter - time.Second, false, true}, {time.Second, false, false}, {time.Hour, true, true}, {silentAfter, false, false}} {
		clock.Step(step.after)
		if step.answers {
			e.noteAnswer(l)
		}
		if got := e.Observe(); got.Connected != step.want || strings.Contains(got.Problem, "answered nothing") == step.want {
			t.Errorf("%+v: got %t, %q", step, got.Connected, got.Problem)
		}
	}
	e.noteAnswer(&life{})
	if e.Observe().Connected {
		t.Error("the answer of another run counts")
	}
	for code, want := range map[string]bool{"53300": true, "57014": true, "57P01": false, "57P03": false} {
		if got := isRefusal(fmt.Errorf("connecting to the server: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: got %t", code, got)
		}
	}
	if isRefusal(nil) || isRefusal(errors.Join(context.DeadlineExceeded)) {
		t.Error("silence counts as an answer")
	}
}

// TestReportsCompareNoClocks: a standby receives as long as its reports go on, whatever its clock
// says, and does not once they end.
func TestReportsCompareNoClocks(t *testing.T) {
	const pid = 7
	for name, ahead := range map[string]time.Duration{"right": 0, "an hour behind": -time.Hour, "an hour ahead": time.Hour} {
		t.Run(name, func(t *testing.T) {
			at := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
			reported, reply := &reports{}, ""
			look := func() bool {
				reported.see(map[int]sender{pid: {reply: reply}}, at)
				return reported.isFresh(pid)
			}
			if look() {
				t.Error("a standby that has never reported is fresh")
			}
			reply = at.Add(-time.Minute + ahead).String()
			reported = &reports{}
			for range 2 {
				if look() {
					t.Error("a report of unknown age is fresh")
				}
			}
			for range 5 {
				at = at.Add(time.Second)
				reply = at.Add(ahead).String()
				if !look() {
					t.Fatal("a standby that reports each second is not fresh")
				}
			}
			for range 2 {
				if at = at.Add(maxReportAge/2 - time.Millisecond); !look() {
					t.Error("it is not fresh before the limit")
				}
			}
			if at = at.Add(2 * time.Millisecond); look() {
				t.Error("it is fresh although it has been silent for as long as the limit")
			}
			at = at.Add(maxReportAge)
			if reply = at.String(); look() {
				t.Error("a report that may be old, because nobody looked meanwhile, is fresh")
			}
			reported.see(nil, at)
			if len(reported.byPID) != 0 {
				t.Error("a sender that is gone is remembered")
			}
		})
	}
}

// TestHaveSentTwice: a rule is in effect once all senders that can release a commit have sent
// twice. Others may never send: a copy of a table for logical replication, or a base backup, takes
// hours.
func TestHaveSentTwice(t *testing.T) {
	member := func(sent uint64, change func(*sender)) sender {
		s := sender{isMember: true, sent: postgres.LSN(sent)}
		if change != nil {
			change(&s)
		}
		return s
	}
	foreign, clone := func(s *sender) { s.isMember = false }, func(s *sender) { s.backup = true }
	for name, test := range map[string]struct {
		old  sender
		then []sender
		want bool
	}{
		"a member that sent twice":       {member(1, nil), []sender{member(2, nil), member(3, nil)}, true},
		"a member that sent once":        {member(1, nil), []sender{member(2, nil), member(2, nil)}, false},
		"a foreign one that sends never": {member(0, foreign), []sender{member(0, foreign)}, true},
		"a clone":                        {member(0, clone), []sender{member(0, clone)}, true},
		"a clone before its backup":      {member(0, nil), []sender{member(0, clone)}, true},
		"one that is gone":               {member(1, nil), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			old, sends := map[int]sender{7: test.old}, map[int]int{}
			got := haveSentTwice(old, nil, sends)
			for _, now := range test.then {
				got = haveSentTwice(old, map[int]sender{7: now}, sends)
			}
			if got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}
