package workload

import (
	"encoding/json"
	"time"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Stamp is the content of a workload's annotation: what its pods were started with. It is the only
// memory: after a restart, the manager reads it and compares.
type Stamp struct {
	// Sources has what was observed of each source, by SourceRef.String.
	Sources map[string]SeenSource `json:"sources,omitempty"`
	// RestartedAt is when Mainstay last restarted the workload; nil if it never did.
	RestartedAt *time.Time `json:"restartedAt,omitempty"`
	// Done is set when the rollout of that restart was complete, on workloads that do not say when
	// they last made progress: what rolls out afterwards is not that restart any more.
	Done bool `json:"done,omitempty"`
	// DoneAt is when that was first seen; nil also if an earlier release has set Done.
	DoneAt *time.Time `json:"doneAt,omitempty"`
	// Held is set while the rollout of that restart waits for a user, on workloads that do not say
	// when they last made progress.
	Held bool `json:"held,omitempty"`
	// ResumedAt is when it was first seen that such a rollout goes on; nil if it never waited.
	ResumedAt *time.Time `json:"resumedAt,omitempty"`
	// For is the hash of the pod template's annotation that the last restart has set; empty if an
	// earlier release made it. Another value means that another client has changed the template back,
	// or has replaced it.
	For string `json:"for,omitempty"`
}

// SeenSource is what a workload's pods were started with, of one source.
type SeenSource struct {
	// All is the hash of all data; empty if only some keys matter.
	All string `json:"all,omitempty"`
	// Keys are the hashes of the relevant keys; "-" means that the key does not exist.
	Keys map[string]string `json:"keys,omitempty"`
	// Was is All before the last restart for this source: what pods run that have not been replaced
	// yet.
	Was string `json:"was,omitempty"`
	// Restarts is the number of restarts for this source.
	Restarts int64 `json:"restarts,omitempty"`
	// At is the time of the last one.
	At *time.Time `json:"at,omitempty"`
	// Streak is how many of them were in close succession.
	Streak int `json:"streak,omitempty"`
}

// isOver reports whether no rollout of a restart by Mainstay can be under way, as far as the stamp
// knows: there was none, or it was complete.
func (s Stamp) isOver() bool { return s.RestartedAt == nil || s.Done }

// timedFrom returns from when on the rollout of the last restart may take its time. The time in
// which it waited for a user does not count.
func (s Stamp) timedFrom(now time.Time) time.Time {
	switch {
	case s.Held:
		return now // the stamp is about to say that it goes on
	case s.ResumedAt != nil:
		return later(*s.RestartedAt, *s.ResumedAt)
	default:
		return *s.RestartedAt
	}
}

// maxStamp is the largest annotation that is read, in bytes: the API server's limit for all
// annotations of an object.
const maxStamp = 256 << 10

// ParseStamp parses the annotation. An unreadable one counts as missing: the workload gets a new
// baseline.
func ParseStamp(annotation string) Stamp {
	var stamp Stamp
	if annotation == "" || bounded.Unmarshal([]byte(annotation), maxStamp, &stamp) != nil {
		return Stamp{}
	}
	return stamp
}

// String returns the annotation; empty if there is nothing to record.
func (s Stamp) String() string {
	if len(s.Sources) == 0 && s.RestartedAt == nil {
		return ""
	}
	text, _ := json.Marshal(s) // strings, numbers and times can be encoded
	return string(text)
}
