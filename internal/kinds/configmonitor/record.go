package configmonitor

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Record is what the annotation of a ConfigMonitor with the strategy Evict tells: for which content pods have been evicted. It
// is all that is remembered. It is written before the first pod goes, so that a manager that comes back goes on where the
// one before has ended, and evicts nobody twice.
type Record struct {
	// Of tells what is watched, and for whom: a hash of the source's name, of the keys that matter and of the selector. When
	// one of them changes the record counts for nothing, but for what was evicted when.
	Of string `json:"of,omitempty"`
	// Hash of what matters of it.
	Hash string `json:"hash,omitempty"`
	// Changed is when that content came, to the second: pods that were created before it run an earlier one.
	Changed time.Time `json:"changed,omitzero"`
	// Same are the pods that were created in that very second and were there when the change was seen: they may run an earlier
	// content. What is created in it afterwards, in their place, runs this one.
	Same []types.UID `json:"same,omitempty"`
	// Began is when pods began to be evicted for it; nil if there were none to evict.
	Began *time.Time `json:"began,omitempty"`
	// Streak is how many contents followed each other closely.
	Streak int `json:"streak,omitempty"`
	// Pods is how many are selected, when they were looked at last.
	Pods int `json:"pods,omitempty"`
	// Evicted is how many were ever evicted, and At when the last one was.
	Evicted int64      `json:"evicted,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	// Done tells that nothing is left to do for this content: nobody has to look at the pods any more.
	Done bool `json:"done,omitempty"`
}

// ParseRecord reads the annotation. What can't be read counts as never written.
func ParseRecord(annotation string) Record {
	var record Record
	if annotation == "" || json.Unmarshal([]byte(annotation), &record) != nil {
		return Record{}
	}
	return record
}

// String is the annotation; empty if there is nothing to remember.
func (r Record) String() string {
	if r.Of == "" {
		return ""
	}
	text, _ := json.Marshal(r) // strings, numbers and times can be encoded
	return string(text)
}

// AfterEvicting is the record once so many pods have been evicted.
func (r Record) AfterEvicting(evicted int, now time.Time) Record {
	if evicted > 0 {
		r.Evicted += int64(evicted)
		r.At = new(now.UTC().Truncate(time.Second))
	}
	return r
}

// isFor tells whether the record is about what the spec watches and can be compared with what is there: hashes of a Secret under a
// lost key can't.
func (r Record) isFor(spec *configv1.ConfigMonitorSpec, source *workload.Source) bool {
	key, _, keyed := strings.Cut(r.Hash, ":")
	if !keyed {
		key = ""
	}
	return r.Of == watched(spec) && key == source.KeyID
}

// watched is a hash of what a spec watches, and for whom.
func watched(spec *configv1.ConfigMonitorSpec) string {
	parts := []string{workload.SourceOfMonitor(spec).String(), labels.FormatLabels(spec.PodSelector)}
	parts = append(parts, slices.Sorted(slices.Values(spec.Keys))...)
	return workload.HashKey([]byte(strings.Join(parts, "\n")))
}

// contentOf is the hash of what matters of a source.
func contentOf(spec *configv1.ConfigMonitorSpec, source *workload.Source) string {
	if len(spec.Keys) == 0 {
		return source.All()
	}
	matters := workload.Source{KeyID: source.KeyID, Keys: map[string]string{}}
	for _, key := range spec.Keys {
		matters.Keys[key] = source.Key(key)
	}
	return matters.All()
}
