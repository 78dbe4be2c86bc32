package server

import (
	"io"
	"strings"
	"testing"
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
