package injection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// Grant is what is written on a workload to bring it a revision.
type Grant struct {
	// Revision is that of the Instrumentation; "kept" where the workload is to keep what it has. Empty: there is no grant.
	Revision string
	// At is when it was written last.
	At time.Time
	// Attempts is how often it was written in a row.
	Attempts int
}

// kept is the revision of a grant that has the webhook look and grants nothing.
const kept = "kept"

// GrantKey is the annotation's key for an Instrumentation.
func GrantKey(id string) string { return "agent-" + id + "." + instrv1.AnnotationGranted }

// GrantOf reads the grant for an Instrumentation. What can't be read is none.
func GrantOf(annotations map[string]string, id string) Grant {
	return ParseGrant(annotations[GrantKey(id)])
}

// GrantKeys are the keys of all grants among annotations, in order.
func GrantKeys(lists ...map[string]string) []string {
	var keys []string
	for _, annotations := range lists {
		for key := range annotations {
			if strings.HasSuffix(key, "."+instrv1.AnnotationGranted) && !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return keys
}

// ParseGrant reads a grant. What can't be read is none.
func ParseGrant(text string) Grant {
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

// String is how it is written.
func (g Grant) String() string {
	return fmt.Sprintf("%s %s %d", g.Revision, g.At.UTC().Format(time.RFC3339), g.Attempts)
}

const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
)

// Next is the grant to write now, after this one.
func (g Grant) Next(revision string, now time.Time) Grant {
	if g.Revision != revision || now.Sub(g.At) > 2*lastRetry {
		return Grant{revision, now, 1} // what was, was long ago
	}
	return Grant{revision, now, g.Attempts + 1}
}

// Due is after how long a grant that had no effect is written again: 10 s, 20 s, ... 5 min.
func (g Grant) Due(revision string, now time.Time) time.Duration {
	if g.Revision != revision {
		return 0
	}
	wait := firstRetry << min(max(g.Attempts-1, 0), 5)
	wait = min(wait, lastRetry)
	return max(0, min(wait, g.At.Add(wait).Sub(now))) // a time that is to come is of somebody else, or of another clock
}

// skew is how far the clocks of two replicas may be apart.
const skew = time.Minute

// until is the grant without a time to come. Somebody else has written that, and nothing may wait for it.
func (g Grant) until(now time.Time) Grant {
	switch ahead := g.At.Sub(now); {
	case ahead > skew:
		g.At = time.Time{}
	case ahead > 0:
		g.At = now
	}
	return g
}

// IsKept tells that the grant brings nothing new.
func (g Grant) IsKept() bool { return g.Revision == kept }
