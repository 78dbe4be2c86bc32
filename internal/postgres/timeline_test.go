package postgres

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// TestNumbers: which history files a promotion needs, and which must be removed before a start.
func TestNumbers(t *testing.T) {
	const isReal, isPlanted = false, true
	for _, test := range []struct {
		files   map[uint32]bool
		claimed uint32
		want    string
	}{
		{nil, 2, "plant [], unfounded [], highest 1"},
		{nil, 5, "plant [2 3 4], unfounded [], highest 1"},
		{map[uint32]bool{2: isPlanted, 3: isPlanted, 4: isReal}, 7, "plant [5 6], unfounded [], highest 4"},
		{map[uint32]bool{2: isReal, 3: isPlanted, 5: isPlanted}, 6, "plant [4], unfounded [3 5], highest 2"},
		{map[uint32]bool{2: isReal, 3: isReal, 4: isReal}, 6, "plant [3 5], unfounded [], highest 4"},
		{map[uint32]bool{5: isReal}, 5, "timeline 5 was claimed, but the data already have timeline 5"},
		{nil, 1 << 30, "timeline 1073741824 was claimed: at most 100000 are accepted"},
	} {
		missing, err := Numbers(test.files, "1:0/1 2:0/2 4", test.claimed)
		got := fmt.Sprintf("plant %v, unfounded %v, highest %d", missing, Unfounded(test.files), HighestReal(test.files))
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v: got %s", test, got)
		}
	}
}

func TestAbove(t *testing.T) {
	files := map[uint32]bool{2: true, 3: false, 4: true, 5: false}
	for timeline, want := range map[uint32]string{3: "[4 5]", 5: "[]", 6: "[]"} {
		if got := fmt.Sprint(Above(files, Position(timeline, 1))); got != want {
			t.Errorf("above %d: got %s", timeline, got)
		}
	}
	if got := Above(files, "unknown"); got != nil {
		t.Errorf("got %v", got)
	}
}

// TestSegmentsAt: only timelines of the history count, from that of the place on, and no file after
// a gap.
func TestSegmentsAt(t *testing.T) {
	const first, second, fourth = "000000010000000000000003", "000000020000000000000003", "000000040000000000000003"
	for name, test := range map[string]struct {
		names []string
		at    LSN
		want  []Segments
	}{
		"before two ends": {[]string{fourth, first, second}, 0x3000000,
			[]Segments{{first, first}, {second, second}, {fourth, fourth}}},
		"at an end":                    {[]string{first, second}, 0x3000060, []Segments{{first, first}, {second, second}}},
		"the file was removed":         {[]string{second}, 0x3000028, []Segments{{second, second}}},
		"after an end":                 {[]string{first, second}, 0x3000061, []Segments{{second, second}}},
		"where a file begins":          {[]string{first, second}, 0x4000000, nil},
		"another history's, and other": {[]string{"000000030000000000000003", "00000004.history", second + ".partial"}, 0x3000061, nil},
		"more files": {[]string{"000000040000000000000006", "000000040000000000000004", fourth}, 0x3000061,
			[]Segments{{fourth, "000000040000000000000004"}}},
		"the last of many": {[]string{"0000000400000001000000FF", "000000040000000200000000", "000000040000000200000001"}, 0x1FFFFFFFF,
			[]Segments{{"0000000400000001000000FF", "000000040000000200000001"}}},
	} {
		if got, err := SegmentsAt(test.names, "1:0/3000060 2:0/4000060 4", test.at); err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: got %v, %v; want %v", name, got, err, test.want)
		}
	}
	if got, err := SegmentsAt([]string{second}, "x", 1); err == nil {
		t.Errorf("a damaged history: got %v", got)
	}
}

// TestForks: only files count with a place that a file of an earlier timeline has, too.
func TestForks(t *testing.T) {
	const first, second, next, fourth = "000000010000000000000003", "000000020000000000000003",
		"000000020000000000000004", "000000040000000000000004"
	for name, test := range map[string]struct {
		names   []string
		history election.History
		want    string
	}{
		"all": {[]string{first, second, next, fourth}, "1:0/3000060 2:0/4000060 4",
			"[{0/4000060 " + fourth + " [" + next + "]} {0/3000060 " + second + " [" + first + "]}]"},
		"a timeline between has nothing": {[]string{first, "000000030000000000000003"}, "1:0/3000060 2:0/3000060 3",
			"[{0/3000060 000000030000000000000003 [" + first + "]}]"},
		"a timeline between has a part": {[]string{first, second, "000000030000000000000003"}, "1:0/3000060 2:0/3000060 3",
			"[{0/3000060 000000030000000000000003 [" + second + " " + first + "]} {0/3000060 " + second + " [" + first + "]}]"},
		"the earlier one was removed": {[]string{second, next}, "1:0/3000060 2:0/4000060 4", "[]"},
		"the fork was not received":   {[]string{first, next}, "1:0/3000060 2:0/4000060 4", "[]"},
		"left where a file begins":    {[]string{first, second}, "1:0/3000000 2", "[]"},
	} {
		if got, err := Forks(test.names, test.history); err != nil || fmt.Sprint(got) != test.want {
			t.Errorf("%s: got %v, %v; want %s", name, got, err, test.want)
		}
	}
	if got, err := Forks(nil, "1:x 2"); err == nil {
		t.Errorf("a damaged history: got %v", got)
	}
}

func TestTimelineAt(t *testing.T) {
	full, err := History(4, history)
	if err != nil {
		t.Fatal(err)
	}
	for end, want := range map[LSN]uint32{0x2000000: 1, 0x3000000: 1, 0x3000001: 2, 0x5000000: 2, 0x5000001: 4} {
		if got, err := TimelineAt(full, end); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", end, got, err, want)
		}
	}
	for _, damaged := range []string{"", "x", "0", "1:zz 2", "1:0/1", "1:0/0 2"} {
		if got, err := TimelineAt(election.History(damaged), 5); err == nil {
			t.Errorf("%q: got %d", damaged, got)
		}
	}
}

// TestPlanted: a planted history file is recognised, even if its content was lost in a crash, and
// is read as a history without parents.
func TestPlanted(t *testing.T) {
	for _, content := range []string{"", "\x00\x00\x00"} {
		if !IsPlanted(content) {
			t.Errorf("%q counts as a real history", content)
		}
	}
	if got, err := History(5, Planted()); err != nil || got != "5" || !IsPlanted(Planted()) || IsPlanted(history) {
		t.Errorf("got %q, %v", got, err)
	}
	for name, want := range map[string]uint32{"0000000A.history": 10, "00000001.history": 0, "0000000a.history": 0, "0000000A.partial": 0} {
		if got, isHistory := ParseHistoryName(name); isHistory != (want != 0) || isHistory && got != want {
			t.Errorf("%s: got %d, %t", name, got, isHistory)
		}
	}
	if got := HistoryName(10); got != "0000000A.history" {
		t.Errorf("got %s", got)
	}
}
