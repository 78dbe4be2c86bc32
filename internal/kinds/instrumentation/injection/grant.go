package injection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Grant is the annotation on a workload that lets it get a revision.
type Grant struct {
	// Revision is the granted revision of the Instrumentation; "kept" if the workload is to keep what
	// it has. Empty means that there is no grant.
	Revision string
	// At is when the grant was last written.
	At time.Time
	// Attempts is how often the grant was written in a row.
	Attempts int
}

// Kept is the revision of a grant that makes the webhook compose the workload but grants nothing.
const Kept = "kept"

// GrantKey returns the key of the annotation for an Instrumentation.
func GrantKey(id string) string { return "agent-" + id + "." + instrv1.AnnotationGranted }

// GrantOf returns the grant for an Instrumentation. An unreadable annotation counts as none.
func GrantOf(annotations map[string]string, id string) Grant {
	return ParseGrant(annotations[GrantKey(id)])
}

// GrantKeys returns the keys of all grants among annotations, sorted.
func GrantKeys(lists ...map[string]string) []string {
	var keys []string
	for _, annotations := range lists {
		for key := range annotations {
			if strings.HasSuffix(key, "."+instrv1.AnnotationGranted) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// maxGrant is the length of the longest grant that counts, in bytes: a revision has 16, a time 20.
const maxGrant = 64

// ParseGrant parses a grant. It returns an empty Grant if the text can't be parsed.
func ParseGrant(text string) Grant {
	if len(text) > maxGrant {
		return Grant{}
	}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Grant{}
	}
	at, err := time.Parse(time.RFC3339, fields[1])
	attempts, wrong := strconv.Atoi(fields[2])
	if err != nil || wrong != nil {
		return Grant{}
	}
	return Grant{fields[0], at, attempts}
}

// String returns the annotation's value.
func (g Grant) String() string {
	return fmt.Sprintf("%s %s %d", g.Revision, g.At.UTC().Format(time.RFC3339), g.Attempts)
}

// IsKept reports whether the grant grants nothing new.
func (g Grant) IsKept() bool { return g.Revision == Kept }
