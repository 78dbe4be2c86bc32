package workload

import (
	"encoding/json"
	"time"
)

// Stamp is what a workload's annotation tells: what its pods were started with. It is all that is remembered; a manager that comes back
// reads it and compares.
type Stamp struct {
	// Sources has what was seen of each, by Ref.String.
	Sources map[string]SeenSource `json:"sources,omitempty"`
	// RestartedAt is when Mainstay restarted the workload last; nil if it never did.
	RestartedAt *time.Time `json:"restartedAt,omitempty"`
	// Done is noted once the rollout of that restart was complete, of workloads that do not remember it themselves.
	Done bool `json:"done,omitempty"`
}

// Seen is what a workload's pods were started with, of one source.
type SeenSource struct {
	// All is the hash of all data; empty where only some keys matter.
	All string `json:"all,omitempty"`
	// Keys are the hashes of those that matter; "-" is one that is not there.
	Keys map[string]string `json:"keys,omitempty"`
	// Was is All before the last restart for this source: what pods run that have not been replaced yet.
	Was string `json:"was,omitempty"`
	// Restarts is how many restarts there were for it.
	Restarts int64 `json:"restarts,omitempty"`
	// At is the last one's time.
	At *time.Time `json:"at,omitempty"`
	// Streak is how many of them followed each other closely.
	Streak int `json:"streak,omitempty"`
}

// ParseStamp reads the annotation. What can't be read counts as never written: the workload gets its
// baseline anew.
func ParseStamp(annotation string) Stamp {
	var stamp Stamp
	if annotation == "" || json.Unmarshal([]byte(annotation), &stamp) != nil {
		return Stamp{}
	}
	return stamp
}

// String is the annotation; empty if there is nothing to remember.
func (s Stamp) String() string {
	if len(s.Sources) == 0 && s.RestartedAt == nil {
		return ""
	}
	text, _ := json.Marshal(s) // strings, numbers and times can be encoded
	return string(text)
}
