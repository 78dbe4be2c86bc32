package postgres

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/fuzz"
)

// control returns the first bytes of pg_control after initdb of the newest release of a version.
func control(t testing.TB, major int) []byte {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprint("testdata/pg_control-", major))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestReadControl compares with the output of pg_controldata, or with the first checkpoint of
// initdb.
func TestReadControl(t *testing.T) {
	for major, want := range map[int]Control{
		12: {System: 7711237901778813124, Checkpoint: 0x1642e90},
		13: {System: 7711237904276496608, Checkpoint: 0x15c4710},
		14: {System: 7711237907029893372, Checkpoint: 0x16efc30},
		15: {System: 7711237689802485437, Checkpoint: 0x1500570},
		16: {System: 7711237909717430552, Checkpoint: 0x14ddc20},
		17: {System: 7711237692401790675, Checkpoint: 0x14ee780},
		18: {System: 7711237695906418409, Checkpoint: 0x1765b78},
	} {
		want.Major, want.State, want.Timeline = major, ShutDown, 1
		want.MaxConnections, want.MaxWorkerProcesses, want.MaxLocksPerTransaction = 100, 8, 64
		if got, err := ReadControl(control(t, major)); err != nil || got != want {
			t.Errorf("%d: got %+v, %v, want %+v", major, got, err, want)
		}
	}
}

// TestRaise: a standby gets the values that it needs, and none is lower than the one that is set.
func TestRaise(t *testing.T) {
	needs := Control{MaxConnections: 150, MaxWorkerProcesses: 16, MaxLocksPerTransaction: 64}.Needs()
	for _, test := range []struct {
		settings, want []Setting
	}{
		{nil, []Setting{{"max_connections", "150"}, {"max_worker_processes", "16"}}},
		{[]Setting{{"max_connections", "200"}, {"max_connections", "60"}, {"max_worker_processes", "17"}}, []Setting{{"max_connections", "150"}}},
		{[]Setting{{"max_connections", "150"}, {"max_worker_processes", "20"}}, nil},
	} {
		if got := Raise(test.settings, needs); !slices.Equal(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.settings, got, test.want)
		}
	}
	if got := Raise(nil, nil); len(got) != 0 {
		t.Errorf("nothing is needed: got %v", got)
	}
}

func TestReadControlThatSaysNothing(t *testing.T) {
	good := control(t, 17)
	for name, test := range map[string]struct {
		content []byte
		want    string
	}{
		"empty":              {nil, "0 bytes"},
		"torn":               {good[:300], "300 bytes"},
		"one bit":            {append([]byte{good[0] ^ 1}, good[1:]...), "checksum"},
		"another version":    {bytes.Replace(good, []byte{0xa4, 0x06, 0, 0}, []byte{0xa5, 0x06, 0, 0}, 1), "version 1701"},
		"another byte order": {bytes.Replace(good, []byte{0xa4, 0x06, 0, 0}, []byte{0, 0, 0x06, 0xa4}, 1), "little-endian"},
	} {
		if _, err := ReadControl(test.content); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// history is the history file of a server that was promoted several times, from timeline 2 directly
// to 4.
const history = "1\t0/3000000\tno recovery target specified\n\n# by hand\n2\t0/5000000\tx\n"

func TestPositions(t *testing.T) {
	full, err := History(4, history)
	if err != nil {
		t.Fatal(err)
	}
	for position, want := range map[election.Position]bool{
		Position(1, 0x3000000): true, Position(1, 0x3000001): false, Position(2, 0x4fffff0): true, Position(2, 0x5000008): false,
		Position(3, 0x1000000): false, Position(4, 1<<60): true, Position(5, 1): false, "": false, "4": false, "x:0/1": false, "4:zz": false,
	} {
		if got := (Positions{}).Holds(full, position); got != want {
			t.Errorf("%s is part of %q: got %t", position, full, got)
		}
	}
	for _, test := range []struct {
		a, b election.Position
		want election.Comparison
	}{
		{Position(1, 9), Position(1, 9), election.Equal},
		{Position(1, 9), Position(1, 10), election.Behind},
		{Position(10, 1), Position(9, 1<<40), election.Ahead},
		{Position(1, 1<<32), Position(1, 1<<32-1), election.Ahead},
		{"", Position(1, 9), election.Incomparable},
	} {
		if got := (Positions{}).Compare(test.a, test.b); got != test.want {
			t.Errorf("%s and %s: got %d", test.a, test.b, got)
		}
	}
}

func TestHistoriesThatNoServerWrites(t *testing.T) {
	for name, content := range map[string]string{
		"one line without a place": "1\n", "not in order": "2\t0/5\n1\t0/6\n", "its own timeline": "4\t0/5\n", "no number": "x\t0/5\n",
		"no place": "1\t5\n", "too large": strings.Repeat("#", maxHistoryBytes+1),
	} {
		if got, err := History(4, content); err == nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// FuzzControlFile: any content of the file is parsed or refused.
func FuzzControlFile(f *testing.F) {
	for major := 12; major <= 18; major++ {
		f.Add(control(f, major))
	}
	fuzz.AddBombs(f, control(f, 17))
	f.Fuzz(func(t *testing.T, content []byte) {
		defer fuzz.Budget(t, content)()
		if read, err := ReadControl(content); err == nil && (read.Major < 12 || read.Major > 18) {
			t.Errorf("got %+v", read)
		}
	})
}

// FuzzHistory: any history or position from a peer is compared or refused, and the end of a
// server's data is always part of its own history.
func FuzzHistory(f *testing.F) {
	fuzz.AddBombs(f, uint32(4), history, "2:0/4000000")
	f.Fuzz(func(t *testing.T, timeline uint32, content, position string) {
		defer fuzz.Budget(t, content, position)()
		_ = Positions{}.Holds(election.History(content), election.Position(position))
		_ = Positions{}.Compare(election.Position(content), election.Position(position))
		full, err := History(timeline, content)
		if err == nil && timeline > 0 && !(Positions{}).Holds(full, Position(timeline, 1)) {
			t.Errorf("timeline %d is not part of %q", timeline, full)
		}
	})
}
