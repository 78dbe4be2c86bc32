package configmonitor

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Record is the content of the annotation of a ConfigMonitor with the strategy Evict: for which
// content pods have been evicted. It is the only memory. It is written before the first eviction,
// so that after a restart the manager continues where it stopped, and evicts no pod twice.
type Record struct {
	// Of is a hash of what is watched: the source's name, the relevant keys and the selector. If one
	// of them changes, only the evictions and their time remain valid.
	Of string `json:"of,omitempty"`
	// Hash is the hash of the relevant content.
	Hash string `json:"hash,omitempty"`
	// Changed is when that content came, in whole seconds: pods that were created before run an
	// earlier one.
	Changed time.Time `json:"changed,omitzero"`
	// Same are the pods that were created in that second and existed when the change was observed:
	// they may run an earlier content. Pods that are created in that second later run this one.
	Same []types.UID `json:"same,omitempty"`
	// Began is when the evictions for this content began; nil if there were none.
	Began *time.Time `json:"began,omitempty"`
	// Streak is how many contents followed each other in close succession.
	Streak int `json:"streak,omitempty"`
	// Pods is the largest number of selected pods that was read since this content was recorded, or
	// their number when all was done.
	Pods int `json:"pods,omitempty"`
	// Evicted is the total number of evictions, and At the time of the last one.
	Evicted int64      `json:"evicted,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	// Done reports that nothing is left to do for this content: the pods need not be read any more.
	Done bool `json:"done,omitempty"`
}

// maxRecord is the largest annotation that is read, in bytes: the API server's limit for all
// annotations of an object.
const maxRecord = 256 << 10

// ParseRecord parses the annotation. An unreadable one counts as missing.
func ParseRecord(annotation string) Record {
	var record Record
	if annotation == "" || bounded.Unmarshal([]byte(annotation), maxRecord, &record) != nil {
		return Record{}
	}
	return record
}

// String returns the annotation; empty if there is nothing to record.
func (r Record) String() string {
	if r.Of == "" {
		return ""
	}
	text, _ := json.Marshal(r) // strings, numbers and times can be encoded
	return string(text)
}

// AfterEvicting returns the record after a number of evictions.
func (r Record) AfterEvicting(evicted int, now time.Time) Record {
	if evicted > 0 {
		r.Evicted += int64(evicted)
		r.At = new(now.UTC().Truncate(time.Second))
	}
	return r
}

// latest returns when pods were last evicted, or when the evictions for this content began if that
// is later: a manager that stops before it has recorded its evictions leaves only that. It is zero
// if there were none.
func (r Record) latest() time.Time {
	var last time.Time
	for _, at := range []*time.Time{r.Began, r.At} {
		if at != nil && at.After(last) {
			last = *at
		}
	}
	return last
}

// isFor reports whether the record is about what the spec watches and can be compared with the
// present content: hashes of a Secret under a lost key can't.
func (r Record) isFor(spec *configv1.ConfigMonitorSpec, source *workload.Source) bool {
	key, _, keyed := strings.Cut(r.Hash, ":")
	if !keyed {
		key = ""
	}
	return r.Of == watched(spec) && key == source.KeyID
}

// watched returns a hash of what a spec watches.
func watched(spec *configv1.ConfigMonitorSpec) string {
	parts := []string{SourceOf(spec).String(), labels.FormatLabels(spec.PodSelector)}
	parts = append(parts, slices.Sorted(slices.Values(spec.Keys))...)
	return workload.HashKey([]byte(strings.Join(parts, "\n")))
}

// contentOf returns the hash of the relevant content of a source.
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
