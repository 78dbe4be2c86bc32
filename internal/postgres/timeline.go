package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// planted is the content of a planted history file: one that Mainstay has written, and that only
// occupies the number of its timeline. All other history files are real: a server has written them.
// A server that is promoted takes the first number without a file (findNewestTimeLine of the
// server's timeline.c), so planted files make it take the claimed number. It follows none of them,
// because they name no parent.
const planted = "# mainstay: this timeline is counted, not followed\n"

// Planted returns the content of a planted history file, which only occupies the number of its
// timeline.
func Planted() string { return planted }

// IsPlanted reports whether a history file with this content is planted, not real: see [Planted].
// One without content is a planted one that was written right before a crash of the node: a server
// flushes a real one before it gets its name.
func IsPlanted(content string) bool { return content == planted || strings.Trim(content, "\x00") == "" }

var historyName = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)

// HistoryName returns the name of a timeline's history file in pg_wal.
func HistoryName(timeline uint32) string { return fmt.Sprintf("%08X.history", timeline) }

// ParseHistoryName returns the timeline of a history file in pg_wal, by its name; false if the file
// is none. Timeline 1 has no such file.
func ParseHistoryName(name string) (uint32, bool) {
	if !historyName.MatchString(name) {
		return 0, false
	}
	number, err := strconv.ParseUint(name[:8], 16, 32)
	return uint32(number), err == nil && number > 1
}

// maxClaimed is the highest timeline that can be claimed: each number below it needs a file.
const maxClaimed = 100_000

// Numbers returns the timelines for which a history file must be planted, so that a promotion takes
// the claimed timeline. files are the timelines that have a history file, with true for a planted
// one; own is the history of the data. Real files of timelines that are not part of own are
// replaced by planted ones: nothing on those timelines was acknowledged, and a standby that
// receives all files from here could follow one of them if it is interrupted. It fails if the data
// already have the claimed timeline, or a higher one.
func Numbers(files map[uint32]bool, own election.History, claimed uint32) ([]uint32, error) {
	if claimed > maxClaimed {
		return nil, fmt.Errorf("timeline %d was claimed: at most %d are accepted", claimed, maxClaimed)
	}
	var missing []uint32
	for number := uint32(2); number < claimed; number++ {
		isPlanted, exists := files[number]
		if !exists || !isPlanted && !contains(own, number) {
			missing = append(missing, number)
		}
	}
	for number := range files {
		if number >= claimed {
			return nil, fmt.Errorf("timeline %d was claimed, but the data already have timeline %d", claimed, number)
		}
	}
	return missing, nil
}

// contains reports whether a timeline is part of a history.
func contains(history election.History, timeline uint32) bool {
	number := strconv.FormatUint(uint64(timeline), 10)
	for part := range strings.FieldsSeq(string(history)) {
		if name, _, _ := strings.Cut(part, ":"); name == number {
			return true
		}
	}
	return false
}

// Unfounded returns the timelines whose history files must be removed before a server starts: the
// planted ones above all real ones. files are the timelines that have a history file, with true for
// a planted one. A server follows the highest timeline that it finds a file of, so that must be a
// real one. Lower planted files stay: a server needs the file of each timeline between its own and
// that of its source.
func Unfounded(files map[uint32]bool) []uint32 {
	highest := HighestReal(files)
	var found []uint32
	for number, isPlanted := range files {
		if isPlanted && number > highest {
			found = append(found, number)
		}
	}
	slices.Sort(found)
	return found
}

// Above returns all timelines above that of the position, planted ones too, if one of them is real;
// otherwise, or if the position can't be read, nil. files are as for [Numbers].
func Above(files map[uint32]bool, position election.Position) []uint32 {
	timeline, _, err := parsePosition(string(position))
	if err != nil || HighestReal(files) <= timeline {
		return nil
	}
	var found []uint32
	for number := range files {
		if number > timeline {
			found = append(found, number)
		}
	}
	slices.Sort(found)
	return found
}

// HighestReal returns the highest timeline with a real history file; 1 if there is none, because
// timeline 1 has no file. files are as for [Numbers].
func HighestReal(files map[uint32]bool) uint32 {
	highest := uint32(1)
	for number, isPlanted := range files {
		if !isPlanted {
			highest = max(highest, number)
		}
	}
	return highest
}

// SegmentBytes is the size of a file of the log (a segment): the server's default, with which our
// data are initialised.
const SegmentBytes = 16 << 20

// SegmentName returns the name of a file of the log in pg_wal. The first one of all has number 0.
func SegmentName(timeline uint32, number uint64) string {
	const perUpper = 1 << 32 / SegmentBytes
	return fmt.Sprintf("%08X%08X%08X", timeline, number/perUpper, number%perUpper)
}

// Segments are the names of the first and the last of the files of a timeline's log between which
// none is missing.
type Segments struct{ First, Last string }

// SegmentsAt returns the files of the log in which there may be a record at that place: the one
// with the place, and all that follow without a gap, of the place's timeline and of all later ones
// of the history. names are those of the files in pg_wal. A later timeline has a copy of the file
// in which it begins, so that the file of the earlier one may be missing.
func SegmentsAt(names []string, history election.History, at LSN) ([]Segments, error) {
	first, err := TimelineAt(history, at)
	if err != nil {
		return nil, err
	}
	all, err := parts(history)
	if err != nil {
		return nil, err
	}
	exists := setOf(names)
	var found []Segments
	for _, one := range all {
		if one.timeline < first {
			continue
		}
		if segments, is := segmentsOf(exists, one.timeline, at); is {
			found = append(found, segments)
		}
	}
	return found, nil
}

// Fork is the file of the log with which a timeline begins. Up to where the timeline before was
// left, it is a copy of a file of an earlier one.
type Fork struct {
	// Left is where the timeline before was left.
	Left LSN
	// Name is that of the file.
	Name string
	// Earlier are the files of earlier timelines with the same place, the latest first.
	Earlier []string
}

// Forks returns the files with which timelines of a history begin, if one of an earlier timeline is
// there, too; the latest first. names are those of the files in pg_wal.
func Forks(names []string, history election.History) ([]Fork, error) {
	all, err := parts(history)
	if err != nil {
		return nil, err
	}
	exists := setOf(names)
	var found []Fork
	for i := len(all) - 1; i > 0; i-- {
		left := all[i-1].left
		number := uint64(left) / SegmentBytes
		fork := Fork{Left: left, Name: SegmentName(all[i].timeline, number)}
		if !exists[fork.Name] || left%SegmentBytes == 0 {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if name := SegmentName(all[j].timeline, number); exists[name] {
				fork.Earlier = append(fork.Earlier, name)
			}
		}
		if len(fork.Earlier) > 0 {
			found = append(found, fork)
		}
	}
	return found, nil
}

// segmentsOf returns the file of a timeline with that place, and the last one that follows it
// without a gap; false if the first one is not there.
func segmentsOf(exists map[string]bool, timeline uint32, at LSN) (Segments, bool) {
	last := uint64(at) / SegmentBytes
	first := SegmentName(timeline, last)
	for exists[SegmentName(timeline, last+1)] {
		last++
	}
	return Segments{first, SegmentName(timeline, last)}, exists[first]
}

func setOf(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

// part is a timeline of a history, and where it was left; 0 for the last one.
type part struct {
	timeline uint32
	left     LSN
}

// parts returns the timelines of a history in their order.
func parts(history election.History) ([]part, error) {
	var all []part
	for text := range strings.FieldsSeq(string(history)) {
		if strings.Contains(text, ":") {
			timeline, left, err := parsePosition(text)
			if err != nil {
				return nil, err
			}
			if left == 0 {
				return nil, fmt.Errorf("%.40q is not where a timeline was left", text)
			}
			all = append(all, part{timeline, left})
			continue
		}
		number, err := strconv.ParseUint(text, 10, 32)
		if err != nil || number == 0 {
			return nil, fmt.Errorf("%.40q is not a timeline", text)
		}
		all = append(all, part{timeline: uint32(number)})
	}
	return all, nil
}

// TimelineAt returns the timeline on which data with this end are, if they are part of the history.
// The place at which a timeline was left belongs to that timeline.
func TimelineAt(history election.History, end LSN) (uint32, error) {
	all, err := parts(history)
	if err != nil {
		return 0, err
	}
	for _, one := range all {
		if one.left == 0 || end <= one.left {
			return one.timeline, nil
		}
	}
	return 0, fmt.Errorf("the history %.80q has no end", history)
}
