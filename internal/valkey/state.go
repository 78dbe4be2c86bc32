package valkey

import (
	"fmt"
	"regexp"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// State is what an instance keeps beside the data of its server.
type State struct {
	// System is the id of the database, drawn when its data were initialised.
	System string `json:"system"`
	// Version is the major version of the server that the data need at least.
	Version string `json:"version"`
	// Lines are the history of the data; none before the first promotion.
	Lines Lines `json:"lines,omitempty"`
	// Fresh is true while the data are those of a new database and no server has stored them: there
	// is nothing that could be loaded, and nothing is missing.
	Fresh bool `json:"fresh,omitempty"`
}

// maxStateBytes limits the file.
const maxStateBytes = 64 << 10

// systemID is what an instance draws.
var systemID = regexp.MustCompile(`^[0-9a-z]{10,64}$`)

// majorVersion is that of a server.
var majorVersion = regexp.MustCompile(`^[0-9]{1,3}$`)

// ParseState reads the file.
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
