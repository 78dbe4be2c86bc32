package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// LSN is a location in the write-ahead log. 0 means none.
type LSN uint64

// String returns the form that PostgreSQL prints, such as 16/B374D848.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// ParseLSN parses the form in which PostgreSQL prints a pg_lsn.
func ParseLSN(text string) (LSN, error) {
	high, low, found := strings.Cut(text, "/")
	upper, errUpper := strconv.ParseUint(high, 16, 32)
	lower, errLower := strconv.ParseUint(low, 16, 32)
	if !found || errUpper != nil || errLower != nil {
		return 0, fmt.Errorf("%.40q is not a WAL position such as 16/B374D848", text)
	}
	return LSN(upper<<32 | lower), nil
}

// Position returns the election's form of a location on a timeline, such as 3:16/B374D848. It is
// the end of what a member has flushed.
func Position(timeline uint32, end LSN) election.Position {
	return election.Position(strconv.FormatUint(uint64(timeline), 10) + ":" + end.String())
}

func parsePosition(text string) (timeline uint32, end LSN, err error) {
	first, second, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(first, 10, 32)
	if err != nil || number == 0 {
		return 0, 0, fmt.Errorf("%.40q does not begin with a timeline", text)
	}
	end, err = ParseLSN(second)
	return uint32(number), end, err
}

// Limits of a history. Each promotion adds a line.
const (
	maxHistoryBytes = 256 << 10
	maxTimelines    = 10_000
)

// History returns the election's form of the history of a timeline, such as "1:0/3000000 2".
// content is that of the timeline's history file, empty for timeline 1. Each line of it, except
// comments, says which timeline was left, and where
// (https://www.postgresql.org/docs/current/continuous-archiving.html).
func History(timeline uint32, content string) (election.History, error) {
	if len(content) > maxHistoryBytes {
		return "", fmt.Errorf("the history of timeline %d has %d bytes, at most %d are accepted", timeline, len(content), maxHistoryBytes)
	}
	var left []string
	last := uint64(0)
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		number, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || len(fields) < 2 || number <= last || number >= uint64(timeline) {
			return "", fmt.Errorf("the history of timeline %d has the line %.80q: must be an earlier timeline, in order, and where it was left",
				timeline, line)
		}
		end, err := ParseLSN(fields[1])
		if err != nil {
			return "", fmt.Errorf("the history of timeline %d: %w", timeline, err)
		}
		last = number
		left = append(left, string(Position(uint32(number), end)))
	}
	if len(left) >= maxTimelines {
		return "", fmt.Errorf("the history of timeline %d has %d timelines, at most %d are accepted", timeline, len(left), maxTimelines)
	}
	return election.History(strings.Join(append(left, strconv.FormatUint(uint64(timeline), 10)), " ")), nil
}

// Positions implements [election.Positions]. It compares by timeline, then by LSN: a member on a
// higher timeline was promoted later, or has received from one that was.
type Positions struct{}

// Compare implements [election.Positions].
func (Positions) Compare(a, b election.Position) election.Comparison {
	aTimeline, aEnd, aErr := parsePosition(string(a))
	bTimeline, bEnd, bErr := parsePosition(string(b))
	switch {
	case aErr != nil || bErr != nil:
		return election.Incomparable
	case aTimeline == bTimeline && aEnd == bEnd:
		return election.Equal
	case aTimeline < bTimeline || aTimeline == bTimeline && aEnd < bEnd:
		return election.Behind
	}
	return election.Ahead
}

// Holds implements [election.Positions].
func (Positions) Holds(history election.History, position election.Position) bool {
	timeline, end, err := parsePosition(string(position))
	if err != nil || len(history) > maxHistoryBytes {
		return false
	}
	for part := range strings.FieldsSeq(string(history)) {
		if !strings.Contains(part, ":") {
			return part == strconv.FormatUint(uint64(timeline), 10)
		}
		left, until, err := parsePosition(part)
		if err != nil {
			return false
		}
		if left == timeline {
			return end <= until
		}
	}
	return false
}
