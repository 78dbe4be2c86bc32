package valkey

import (
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// id returns a replication ID of one repeated digit.
func id(digit string) string { return strings.Repeat(digit, 40) }

// lived returns the history of a database that had three leaders, of which the last one restarted
// its server once.
func lived(t *testing.T) Lines {
	t.Helper()
	var lines Lines
	for _, step := range []struct {
		from     election.Position
		timeline uint32
		id       string
		offset   int64
	}{
		{"", 2, id("a"), 500},                     // Its server had counted up to 500 before: that is place 0.
		{"2:300", 5, id("b"), 800},                // A replica that had all up to there goes on counting.
		{"5:700", 7, id("c"), 12},                 // It had loaded a file, and counts anew.
		{"7:900", 7, id("d"), 3},                  // And once more, on its own timeline.
		{Position(7, 900+Gap+50), 9, id("e"), 53}, // A replica of that.
	} {
		var err error
		if lines, err = lines.Promoted(step.from, step.timeline, step.id, step.offset); err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

func TestLocate(t *testing.T) {
	lines := lived(t)
	for _, test := range []struct {
		id     string
		offset int64
		want   election.Position
	}{
		{id("a"), 500, "2:0"}, {id("a"), 640, "2:140"},
		{id("b"), 801, "5:301"}, {id("b"), 800, "2:300"}, {id("b"), 700, "2:200"}, // received before the promotion
		{id("c"), 12, "5:700"}, {id("c"), 13, "7:701"},
		{id("d"), 4, Position(7, 901+Gap)},
		{id("e"), 53, Position(7, 950+Gap)}, {id("e"), 54, Position(9, 951+Gap)},
		{id("f"), 1, ""}, {id("e"), -1, ""},
	} {
		if got, known := lines.Locate(test.id, test.offset); got != test.want || known != (test.want != "") {
			t.Errorf("%.3s %d: got %q, %t, want %q", test.id, test.offset, got, known, test.want)
		}
	}
}

func TestHolds(t *testing.T) {
	history := lived(t).History()
	for position, want := range map[election.Position]bool{
		"2:0": true, "2:300": true, "2:301": false, "5:301": true, "5:700": true, "5:701": false, "7:900": true,
		"7:901": false, Position(7, 900+Gap): true, Position(7, 951+Gap): false, Position(9, 1<<50): true,
		"3:1": false, "10:1": false, "": false, "x": false, "0:1": false, "2:-1": false,
	} {
		if got := (Positions{}).Holds(history, position); got != want {
			t.Errorf("%s: got %t", position, got)
		}
	}
	for _, broken := range []election.History{"", "[]", "x", `[{"timeline":1}]`, election.History(strings.Repeat(" ", maxHistoryBytes+1))} {
		if (Positions{}).Holds(broken, "2:0") {
			t.Errorf("%.30q holds something", broken)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, test := range []struct {
		a, b election.Position
		want election.Comparison
	}{
		{"1:5", "1:5", election.Equal}, {"1:5", "1:6", election.Behind}, {"2:1", "1:6", election.Ahead}, {"1:10", "1:9", election.Ahead},
		{"", "1:5", election.Incomparable}, {"1:5", "1:x", election.Incomparable},
		{"1:5", "1:" + election.Position(strings.Repeat("1", 50)), election.Incomparable},
	} {
		if got := (Positions{}).Compare(test.a, test.b); got != test.want {
			t.Errorf("%s and %s: got %d", test.a, test.b, got)
		}
	}
}

// TestPromoted: the oldest lines of a long history are dropped, and data whose end is unknown can't
// be continued.
func TestPromoted(t *testing.T) {
	lines := lived(t)
	for timeline := uint32(10); timeline < 200; timeline++ {
		from, _ := lines.Locate(lines.Last().ID, 1<<20+int64(timeline))
		var err error
		if lines, err = lines.Promoted(from, timeline, id("0123456789abcdef"[timeline%16:timeline%16+1]), 1<<20); err != nil {
			t.Fatal(err)
		}
	}
	if len(lines) != maxLines || lines.Last().Timeline != 199 || (Positions{}).Holds(lines.History(), "2:0") {
		t.Errorf("got %d lines, the last %+v", len(lines), lines.Last())
	}
	if _, err := lines.Promoted("", 200, id("a"), 0); err == nil {
		t.Error("data without an end were continued")
	}
	if _, err := lines.Promoted("199:1", 100, id("a"), 0); err == nil {
		t.Error("a lower timeline was accepted")
	}
}

// TestLeast: a leader has all that came before its promotion, whatever else is known of its data.
// Another history alone says nothing about them.
func TestLeast(t *testing.T) {
	var state State
	for i, want := range []election.Position{"", "2:0", "4:700", "4:700"} {
		if i == 1 || i == 2 {
			if err := state.Promote("2:700", uint32(2*i), id("ab"[i-1:i]), 50); err != nil {
				t.Fatal(err)
			}
		}
		if i == 3 {
			lines, err := state.Lines.Promoted("4:900", 5, id("c"), 0)
			if err != nil {
				t.Fatal(err)
			}
			state.Lines = lines
		}
		if got := state.Least(); got != want {
			t.Errorf("step %d: got %q, want %q", i, got, want)
		}
	}
	if err := state.Promote("", 6, id("d"), 0); err == nil || state.Least() != "4:700" {
		t.Errorf("got %v, and at least %q", err, state.Least())
	}
}

func TestBehind(t *testing.T) {
	for _, test := range []struct {
		position, other election.Position
		want            int64
		known           bool
	}{{"3:10", "3:25", 15, true}, {"3:25", "3:10", 0, true}, {"3:10", "4:25", 0, false}, {"", "4:25", 0, false}} {
		if got, known := Behind(test.position, test.other); got != test.want || known != test.known {
			t.Errorf("%+v: got %d, %t", test, got, known)
		}
	}
}

// FuzzHistory: any history from a peer is decoded in bounded time, and an accepted one contains the
// end of each of its lines.
func FuzzHistory(f *testing.F) {
	f.Add(`[{"timeline":1,"id":"`+id("a")+`","base":0,"start":0,"end":4},{"timeline":2,"id":"`+id("b")+`","base":0,"start":4}]`, "1:3")
	f.Add(`[{"timeline":1,"id":"`+id("a")+`","base":-9223372036854775808,"start":0}]`, "1:9223372036854775807")
	f.Add(`[]`, "")
	fuzz.AddBombs(f, `[{"timeline":1,"id":"`+id("a")+`","base":0,"start":0}]`, "1:3")
	f.Fuzz(func(t *testing.T, history, position string) {
		defer fuzz.Budget(t, history, position)()
		_ = (Positions{}).Holds(election.History(history), election.Position(position))
		_ = (Positions{}).Compare(election.Position(position), election.Position(history))
		lines, err := ParseHistory(election.History(history))
		if err != nil {
			return
		}
		for _, line := range lines[:len(lines)-1] {
			if !(Positions{}).Holds(lines.History(), Position(line.Timeline, line.End)) {
				t.Errorf("%s does not hold the end of timeline %d", history, line.Timeline)
			}
		}
		_, _ = lines.Locate(lines.Last().ID, 1)
	})
}

// FuzzState: any content of the state file is decoded in bounded time.
func FuzzState(f *testing.F) {
	fuzz.AddBombs(f, []byte(`{"system":"abcdefghijklm","version":"8","fresh":true}`))
	f.Add([]byte(`{"system":"abcdefghijklm","version":"8","lines":[{"timeline":1,"id":"` + id("a") + `","base":0,"start":0}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer fuzz.Budget(t, text)()
		state, err := ParseState(text)
		if err == nil && (state.System == "" || state.Version == "") {
			t.Errorf("%s became %+v", text, state)
		}
	})
}
