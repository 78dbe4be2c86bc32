package valkey

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// State is what an instance stores about the data, in a file beside the server's.
type State struct {
	// System is the ID of the database system, drawn when its data were initialised.
	System string `json:"system"`
	// Version is the lowest major version of the server that can read the data.
	Version string `json:"version"`
	// Lines are the history of the data; empty before the first promotion.
	Lines Lines `json:"lines,omitempty"`
	// Reached is the ID of the last line whose start the data are known to contain: a replica has the
	// history of its leader before it has received all that this history describes. It is "" in a
	// state of the first version, which did not store it.
	Reached string `json:"reached,omitempty"`
	// Fresh is true while a new database has no stored data yet: then it is no loss that there is
	// nothing to load.
	Fresh bool `json:"fresh,omitempty"`
}

// maxStateBytes limits the file.
const maxStateBytes = 64 << 10

// systemID matches the random ID of a database system.
var systemID = regexp.MustCompile(`^[0-9a-z]{10,64}$`)

// majorVersion matches a server's major version.
var majorVersion = regexp.MustCompile(`^[0-9]{1,3}$`)

// ParseState decodes and checks the content of the file.
func ParseState(text []byte) (State, error) {
	var state State
	if err := bounded.Unmarshal(text, maxStateBytes, &state); err != nil {
		return State{}, fmt.Errorf("reading the state of the data: %w", err)
	}
	if !systemID.MatchString(state.System) || !majorVersion.MatchString(state.Version) {
		return State{}, fmt.Errorf("the state of the data has the system %.70q and the version %.10q", state.System, state.Version)
	}
	if len(state.Lines) == 0 {
		return state, nil
	}
	return state, state.Lines.check()
}

// Promote adds a line to the history, as [Lines.Promoted] does. The data of a leader have reached
// it.
func (s *State) Promote(from election.Position, timeline uint32, id string, offset int64) error {
	lines, err := s.Lines.Promoted(from, timeline, id, offset)
	if err != nil {
		return err
	}
	s.Lines, s.Reached = lines, id
	return nil
}

// Least returns a position up to which the data are complete, whatever else is known of their end:
// the start of the line that they have reached. If that is unknown, it is the beginning of the
// history; "" if there is none.
func (s State) Least() election.Position {
	if len(s.Lines) == 0 {
		return ""
	}
	index := slices.IndexFunc(s.Lines, func(line Line) bool { return s.Reached != "" && line.ID == s.Reached })
	if index < 0 {
		return Position(s.Lines[0].Timeline, 0)
	}
	return Position(s.Lines[index].Timeline, s.Lines[index].Start)
}
