package valkey

import (
	"fmt"
	"regexp"

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
