package server

import (
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

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
