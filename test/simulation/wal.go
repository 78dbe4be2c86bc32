package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// fork is where a timeline was left for the next.
type fork struct {
	timeline uint32
	end      uint64
}

// wal is what a server has flushed: the timelines it came through, and the end of the last. Offsets
// grow by one with each record, whatever the timeline.
type wal struct {
	forks    []fork
	timeline uint32
	end      uint64
}

// contains reports whether the record at the offset of the timeline is part of the log.
func (w *wal) contains(timeline uint32, offset uint64) bool {
	if timeline == w.timeline {
		return offset <= w.end
	}
	for _, fork := range w.forks {
		if fork.timeline == timeline {
			return offset <= fork.end
		}
	}
	return false
}

// branch begins a timeline at the end of the log.
func (w *wal) branch(timeline uint32) {
	w.forks = append(slices.Clone(w.forks), fork{w.timeline, w.end})
	w.timeline = timeline
}

func (w *wal) position() election.Position {
	return election.Position(strconv.FormatUint(uint64(w.timeline), 10) + "/" + strconv.FormatUint(w.end, 10))
}

// history is the log without its end, which grows.
func (w *wal) history() election.History {
	var b strings.Builder
	for _, fork := range w.forks {
		fmt.Fprintf(&b, "%d/%d,", fork.timeline, fork.end)
	}
	fmt.Fprintf(&b, "%d/%d", w.timeline, uint64(1)<<62)
	return election.History(b.String())
}

// positions compares as PostgreSQL does: by timeline, then by offset.
type positions struct{}

func parse(text string) (timeline, offset uint64, ok bool) {
	first, second, found := strings.Cut(text, "/")
	timeline, err := strconv.ParseUint(first, 10, 32)
	if err != nil || !found {
		return 0, 0, false
	}
	offset, err = strconv.ParseUint(second, 10, 64)
	return timeline, offset, err == nil
}

// Compare implements election.Positions.
func (positions) Compare(a, b election.Position) election.Comparison {
	aTimeline, aOffset, aOK := parse(string(a))
	bTimeline, bOffset, bOK := parse(string(b))
	switch {
	case !aOK || !bOK:
		return election.Incomparable
	case aTimeline == bTimeline && aOffset == bOffset:
		return election.Equal
	case aTimeline < bTimeline || aTimeline == bTimeline && aOffset < bOffset:
		return election.Behind
	}
	return election.Ahead
}

// Holds implements election.Positions.
func (positions) Holds(history election.History, position election.Position) bool {
	timeline, offset, ok := parse(string(position))
	if !ok {
		return false
	}
	for part := range strings.SplitSeq(string(history), ",") {
		if at, end, ok := parse(part); ok && at == timeline {
			return offset <= end
		}
	}
	return false
}
