package server

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestGap: only a message of the server itself counts as a gap, not what users make it log.
func TestGap(t *testing.T) {
	const gone = "FATAL:  could not receive data from WAL stream: ERROR:  requested WAL segment 00000002000000000000000A has already been removed"
	for line, want := range map[string]bool{
		"2026-11-23 11:07:01.357 UTC [329] " + gone:                                        true,
		"2026-11-23 11:07:01.357 UTC [329] LOG:  " + gone:                                  false,
		"2026-11-23 11:07:01.357 UTC [329] STATEMENT:  SELECT '" + gone:                    false,
		`2026-11-23 11:07:01.357 UTC [329] ERROR:  relation "` + gone + `" does not exist`: false,
		"\t" + gone: false,
		"\t2026-11-23 11:07:01.357 UTC [329] " + gone: false,
		"\t" + "ERROR:  " + gone:                      false,
		"2026-11-23 11:07:01.357 UTC [329] FATAL:  could not receive data from WAL stream: server closed it": false,
	} {
		l := &lines{to: io.Discard}
		if l.pass(line); l.gone() != want {
			t.Errorf("%q tells of a gap: %t, want %t", line, l.gone(), want)
		}
		if l.newSource(); l.gone() {
			t.Errorf("%q is told of another source", line)
		}
	}
}

// TestKeptLog: the log that is kept for a standby that is away does not fill a small volume.
func TestKeptLog(t *testing.T) {
	for volume, want := range map[int]int{0: 1024, 100: 64, 500: 64, 1000: 100, 10_000: 1000, 1_000_000: 1024} {
		if got := keptOf(volume, 0, false); got != want {
			t.Errorf("of %d MB, %d are kept, want %d", volume, got, want)
		}
	}
	if got := keptOf(500, 2000, true); got != 400 {
		t.Errorf("of a volume of its own of 2000 MB, %d are kept", got)
	}
	if size := volumeSize(t.TempDir()); size <= 0 {
		t.Errorf("the volume has %d MB", size)
	}
	if size := volumeSize("/nowhere"); size != 0 || isTight("/nowhere") {
		t.Errorf("a volume that is not there has %d MB, or is full", size)
	}
}

// TestRoomForClone: if the data do not fit, an error says before the copy how much is needed and
// how much is free.
func TestRoomForClone(t *testing.T) {
	if err := checkRoom(t.TempDir(), 1<<20); err != nil {
		t.Errorf("1 MiB: %v", err)
	}
	if err := checkRoom("/nowhere", 1<<60); err != nil {
		t.Errorf("an unknown volume: %v", err)
	}
	err := checkRoom(t.TempDir(), 1<<60)
	if err == nil || !strings.Contains(err.Error(), "the data have 1099511627776 MiB, and the volume has ") {
		t.Errorf("an exbibyte: %v", err)
	}
}

// TestSilence: a standby that accepts no sessions for long although its data are consistent says
// why. Neither a user's text nor the time before that counts.
func TestSilence(t *testing.T) {
	const said = "LOG:  consistent recovery state reached at 0/3000100"
	for line, want := range map[string]bool{
		"2026-11-29 11:07:01.357 UTC [29] " + said: true, "\t" + said: false, "2026-11-29 11:07:01.357 UTC [29] STATEMENT:  " + said: false,
	} {
		e := &Engine{changed: make(chan struct{}, 1)}
		l := &life{output: &lines{to: io.Discard}}
		e.life = l
		l.output.pass(line)
		tells := func(isRefused bool) bool {
			e.tellSilence(l, isRefused)
			return e.Observe().Problem == silentProblem
		}
		if tells(true) {
			t.Errorf("%q: it tells at once", line)
		}
		if at, isConsistent := l.output.consistent(); isConsistent {
			l.output.consistentAt = at.Add(-silentAfter)
		}
		if got := tells(true); got != want {
			t.Errorf("%q: it tells %t, want %t", line, got, want)
		}
		if tells(false) {
			t.Errorf("%q: it tells although it is not refused", line)
		}
	}
}

// TestWaits: a standby is thought to have replayed all of its log when it has said often enough,
// since its data are consistent, that it waits for more at one place. What users make it log says
// nothing.
func TestWaits(t *testing.T) {
	const prefix, consistent = "2026-11-23 11:07:01.357 UTC [329] ", "LOG:  consistent recovery state reached at 0/3000060"
	said := func(begin, at string, times int) []string {
		return slices.Repeat([]string{begin + "LOG:  waiting for WAL to become available at " + at}, times)
	}
	waits := func(at string, times int) []string { return said(prefix, at, times) }
	for name, c := range map[string]struct {
		said []string
		want bool
	}{
		"nothing":           {nil, false},
		"inconsistent":      {waits("0/3000078", 2*enoughIdle), false},
		"consistent":        {append(waits("0/3000078", 2*enoughIdle), prefix+consistent), false},
		"waits too short":   {append([]string{prefix + consistent}, waits("0/3000078", enoughIdle)...), false},
		"waits":             {append([]string{prefix + consistent}, waits("0/3000078", enoughIdle+1)...), true},
		"goes on":           {slices.Concat([]string{prefix + consistent}, waits("0/3000078", 2*enoughIdle), waits("0/4000018", 1)), false},
		"a statement":       {append([]string{prefix + "STATEMENT:  " + consistent}, waits("0/3000078", 2*enoughIdle)...), false},
		"another message's": {append([]string{"\t" + prefix + consistent}, waits("0/3000078", 2*enoughIdle)...), false},
		"waits in others":   {append([]string{prefix + consistent}, said("\t", "0/3000078", 2*enoughIdle)...), false},
	} {
		l := &lines{to: io.Discard}
		for _, line := range c.said {
			l.pass(line)
		}
		if got := l.waits(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	l := &lines{to: io.Discard}
	l.pass(prefix + `LOG:  parameter "mainstay.generation" changed to "3"`)
	l.pass(prefix + `STATEMENT:  LOG:  parameter "mainstay.generation" changed to "4"`)
	l.pass("\t" + `LOG:  parameter "mainstay.generation" changed to "5"`)
	if got := l.reloaded(); got != "3" {
		t.Errorf("reloaded %q", got)
	}
}

// TestSeemsMute: only servers that say that they wait for more log can be known to be mute. Without
// a source, they have to say so; with one, their data have to be consistent for a while.
func TestSeemsMute(t *testing.T) {
	const prefix = "2026-11-23 11:07:01.357 UTC [329] "
	waits := slices.Repeat([]string{prefix + "LOG:  waiting for WAL to become available at 0/3000078"}, enoughIdle+1)
	for name, c := range map[string]struct {
		major     int
		hasSource bool
		since     time.Duration
		said      []string
		want      bool
	}{
		"waits":                           {15, false, 0, waits, true},
		"does not wait":                   {17, false, time.Hour, nil, false},
		"has a source, and was just slow": {17, true, muteGrace - time.Second, nil, false},
		"has a source":                    {17, true, muteGrace, nil, true},
		"is too old":                      {14, false, time.Hour, waits, false},
		"is too old, and has a source":    {14, true, time.Hour, waits, false},
	} {
		l := &life{major: c.major, output: &lines{to: io.Discard}}
		if c.hasSource {
			l.wrote.source = &engine.Upstream{}
		}
		l.output.pass(prefix + "LOG:  consistent recovery state reached at 0/3000060")
		l.output.consistentAt = l.output.consistentAt.Add(-c.since)
		for _, line := range c.said {
			l.output.pass(line)
		}
		if got := l.seemsMute(); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

// TestBeginsWithZeros: only a file with an empty first page counts as one in which nothing is.
func TestBeginsWithZeros(t *testing.T) {
	for name, test := range map[string]struct {
		content   []byte
		is, fails bool
	}{
		"zeros":                     {make([]byte, 2*pageBytes), true, false},
		"zeros, and more":           {append(make([]byte, pageBytes), 1), true, false},
		"written":                   {append(make([]byte, pageBytes-1), 1), false, false},
		"a page that is incomplete": {make([]byte, pageBytes-1), false, true},
	} {
		path := filepath.Join(t.TempDir(), "segment")
		if err := os.WriteFile(path, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if is, err := beginsWithZeros(path); is != test.is || (err != nil) != test.fails {
			t.Errorf("%s: got %t, %v", name, is, err)
		}
	}
	if _, err := beginsWithZeros("/nowhere"); err == nil {
		t.Error("a missing file is one of zeros")
	}
}

// TestIsPartOf: a file is removed only if nothing is lost with it.
func TestIsPartOf(t *testing.T) {
	const end = 3*pageBytes + 100
	original := bytes.Repeat([]byte{1, 2, 0, 3}, postgres.SegmentBytes/4)
	part := func(until int) []byte {
		return append(slices.Clone(original[:until]), make([]byte, postgres.SegmentBytes-until)...)
	}
	changed := func(content []byte, at int) []byte {
		content[at] = 7
		return content
	}
	for name, test := range map[string]struct {
		content []byte
		is      bool
	}{
		"nothing":                         {part(0), true},
		"a part":                          {part(pageBytes + 1), true},
		"all before the end":              {part(end), true},
		"a byte after the end":            {changed(part(end), end), false},
		"a byte in the last page":         {changed(part(end), postgres.SegmentBytes-1), false},
		"another byte":                    {changed(part(pageBytes), 10), false},
		"more than the other file begins": {changed(part(pageBytes), 2*pageBytes), false},
		"as the other file, beyond end":   {part(end + pageBytes), false},
	} {
		directory := t.TempDir()
		for file, content := range map[string][]byte{"copy": test.content, "original": original} {
			if err := os.WriteFile(filepath.Join(directory, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if is, err := isPartOf(filepath.Join(directory, "copy"), filepath.Join(directory, "original"), end); err != nil || is != test.is {
			t.Errorf("%s: got %t, %v", name, is, err)
		}
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, make([]byte, 2*pageBytes), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{short, "/nowhere"} {
		if is, err := isPartOf(path, short, end); is || err == nil {
			t.Errorf("%s: got %t", path, is)
		}
	}
}
