// Package valkey is what an instance needs to know about Valkey: positions and histories,
// configuration, parameters, access rules, the answers to INFO, and the protocol, as far as
// replication needs it. It runs no program, and does no I/O but on the readers that it is given.
package valkey

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Line is a part of a history: what one server process wrote as the leader of a timeline. Valkey
// identifies a replication stream by a random replication ID, and counts its bytes, from any number
// on: the offset. A place is a count of bytes that is the same for all members of a database, over
// all lines: the sum of the server's offset and the line's Base.
type Line struct {
	// Timeline is the timeline that the election claimed for the server's promotion.
	Timeline uint32 `json:"timeline"`
	// ID is the replication ID of the server, 40 hexadecimal digits.
	ID string `json:"id"`
	// Base is what must be added to the server's offset to get the place.
	Base int64 `json:"base"`
	// Start is the place after which the line begins: the next byte is its first one.
	Start int64 `json:"start"`
	// End is the place after which the next line continues; 0 in the last line, which is open.
	End int64 `json:"end,omitempty"`
}

// Lines are a history. The oldest line is first, and the last one is open.
type Lines []Line

// Limits of a history. A leader drops the oldest lines, so a member that was away for more than
// maxLines promotions must be cloned.
const (
	maxLines        = 64
	maxHistoryBytes = 32 << 10
	maxPlace        = 1 << 62
)

// Gap is the number of places that a leader skips when it continues its timeline after its server
// has ended. Whatever that server had written and not stored is below the new places, so that they
// are never used twice.
const Gap = int64(1) << 40

// replicationID matches the random replication ID that a server draws at each promotion.
var replicationID = regexp.MustCompile(`^[0-9a-f]{40}$`)

// check returns an error if no leader can have written such a history.
func (l Lines) check() error {
	if len(l) == 0 || len(l) > maxLines {
		return fmt.Errorf("the history has %d lines: must have 1 to %d", len(l), maxLines)
	}
	for i, line := range l {
		isLast := i == len(l)-1
		switch {
		case line.Timeline == 0 || !replicationID.MatchString(line.ID):
			return fmt.Errorf("line %d of the history has the timeline %d and the id %.50q", i, line.Timeline, line.ID)
		case line.Start < 0 || line.Start > maxPlace || line.End < 0 || line.End > maxPlace || line.Base < -maxPlace || line.Base > maxPlace:
			return fmt.Errorf("line %d of the history has a place that can't be counted", i)
		case isLast != (line.End == 0) && line.End != line.Start:
			return fmt.Errorf("line %d of the history ends at %d", i, line.End)
		case i > 0 && (line.Timeline < l[i-1].Timeline || line.Start < l[i-1].End):
			return fmt.Errorf("line %d of the history begins before line %d ends", i, i-1)
		}
	}
	return nil
}

// History returns the history in the election's form, which is JSON.
func (l Lines) History() election.History {
	text, err := json.Marshal(l)
	if err != nil {
		return ""
	}
	return election.History(text)
}

// ParseHistory decodes and checks what [Lines.History] returns.
func ParseHistory(history election.History) (Lines, error) {
	if len(history) > maxHistoryBytes {
		return nil, fmt.Errorf("the history has %d bytes, at most %d are accepted", len(history), maxHistoryBytes)
	}
	var lines Lines
	if err := json.Unmarshal([]byte(history), &lines); err != nil {
		return nil, fmt.Errorf("reading a history: %w", err)
	}
	return lines, lines.check()
}

// Last returns the open line; the zero value if there is none.
func (l Lines) Last() Line {
	if len(l) == 0 {
		return Line{}
	}
	return l[len(l)-1]
}

// Locate returns the position of a server with that replication ID and offset, on the timeline to
// which the place belongs; false if the ID is not part of the history.
func (l Lines) Locate(id string, offset int64) (election.Position, bool) {
	index := slices.IndexFunc(l, func(line Line) bool { return line.ID == id })
	if index < 0 || offset < 0 || offset > maxPlace {
		return "", false
	}
	place := l[index].Base + offset
	for index > 0 && place <= l[index].Start {
		index--
	}
	return Position(l[index].Timeline, place), true
}

// ErrUnknownEnd is returned for data whose end is unknown.
var ErrUnknownEnd = errors.New("the end of the data is unknown")

// Promoted returns the history with a further line, of a server that has just become the leader of
// the timeline: its data end at the position from, and its stream has the replication ID id and
// begins after offset. If the timeline is that of the last line, the leader has restarted its
// server, and the new line begins after a Gap. It fails with ErrUnknownEnd if from can't be read.
func (l Lines) Promoted(from election.Position, timeline uint32, id string, offset int64) (Lines, error) {
	next := Line{Timeline: timeline, ID: id, Base: -offset}
	if len(l) == 0 {
		return Lines{next}, Lines{next}.check()
	}
	_, end, err := parsePosition(string(from))
	if err != nil {
		return nil, ErrUnknownEnd
	}
	lines := slices.Clone(l)
	last := &lines[len(lines)-1]
	last.End = max(end, last.Start)
	next.Start = last.End
	if timeline == last.Timeline {
		next.Start += Gap
	}
	next.Base = next.Start - offset
	lines = append(lines, next)
	lines = lines[max(0, len(lines)-maxLines):]
	return lines, lines.check()
}

// Position returns a place on a timeline in the election's form, such as 3:1400.
func Position(timeline uint32, place int64) election.Position {
	return election.Position(strconv.FormatUint(uint64(timeline), 10) + ":" + strconv.FormatInt(place, 10))
}

func parsePosition(text string) (timeline uint32, place int64, err error) {
	const most = 40 // bytes
	first, second, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(first, 10, 32)
	if err == nil && len(text) <= most {
		place, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || len(text) > most || place < 0 || number == 0 {
		return 0, 0, fmt.Errorf("%.40q is not a position such as 3:1400", text)
	}
	return uint32(number), place, nil
}

// Positions implements [election.Positions]. It compares by timeline, then by place: a member on a
// higher timeline was promoted later, or has received from one that was.
type Positions struct{}

// Compare implements [election.Positions].
func (Positions) Compare(a, b election.Position) election.Comparison {
	aTimeline, aPlace, aErr := parsePosition(string(a))
	bTimeline, bPlace, bErr := parsePosition(string(b))
	switch {
	case aErr != nil || bErr != nil:
		return election.Incomparable
	case aTimeline == bTimeline && aPlace == bPlace:
		return election.Equal
	case aTimeline < bTimeline || aTimeline == bTimeline && aPlace < bPlace:
		return election.Behind
	}
	return election.Ahead
}

// Holds implements [election.Positions].
func (Positions) Holds(history election.History, position election.Position) bool {
	lines, err := ParseHistory(history)
	if err != nil {
		return false
	}
	timeline, place, err := parsePosition(string(position))
	if err != nil {
		return false
	}
	for i, line := range lines {
		isContinued := i > 0 && lines[i-1].Timeline == timeline
		isOpen := i == len(lines)-1
		if line.Timeline == timeline && (isOpen || place <= line.End) && (!isContinued || place >= line.Start) {
			return true
		}
	}
	return false
}

// Behind returns by how many bytes a position is behind another one on the same timeline, 0 if it
// is not behind; false if they are on different timelines or can't be read.
func Behind(position, other election.Position) (bytes int64, known bool) {
	timeline, place, err := parsePosition(string(position))
	otherTimeline, otherPlace, otherErr := parsePosition(string(other))
	if err != nil || otherErr != nil || timeline != otherTimeline {
		return 0, false
	}
	return max(otherPlace-place, 0), true
}
