package agentrollout

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

const (
	firstRetry = 10 * time.Second
	lastRetry  = 5 * time.Minute
)

// after returns the grant of a revision to write now, after the last one.
func after(last injection.Grant, revision string, now time.Time) injection.Grant {
	next := injection.Grant{Revision: revision, At: now, Attempts: 1}
	if last.Revision == revision && now.Sub(last.At) <= 2*lastRetry { // otherwise the last attempt was long ago
		next.Attempts += last.Attempts
	}
	return next
}

// due returns after how long a grant without effect is written again: 10 s, 20 s, ... 5 min.
func due(last injection.Grant, revision string, now time.Time) time.Duration {
	if last.Revision != revision {
		return 0
	}
	wait := firstRetry << min(max(last.Attempts-1, 0), 5)
	wait = min(wait, lastRetry)
	return max(0, min(wait, last.At.Add(wait).Sub(now))) // a time in the future comes from another client or clock
}

// skew is how far the clocks of two replicas may differ.
const skew = time.Minute

// withoutFuture returns a grant without a time in the future. Such a time was written by another
// client, and nothing may wait for it.
func withoutFuture(grant injection.Grant, now time.Time) injection.Grant {
	switch ahead := grant.At.Sub(now); {
	case ahead > skew:
		grant.At = time.Time{}
	case ahead > 0:
		grant.At = now
	}
	return grant
}

// Removals are the last removals of one agent that a controller has written, by the UID of the
// workload. The workload itself does not record them.
type Removals map[types.UID]injection.Grant

// removal takes the place of a revision in the grants of Removals.
const removal = "out"

// skipRepeated drops removals that were written recently without effect, because the webhook may be
// unavailable. They are repeated after 10 s, 20 s, ... 5 min, as grants are.
func (d *decider) skipRepeated() {
	kept := d.Writes[:0]
	for _, write := range d.Writes {
		one := &d.seen[write.Index]
		if write.Grant != nil || injection.InjectedBy(one.Template.Annotations, d.agent.ID) == nil {
			kept = append(kept, write)
			continue
		}
		last := d.LastRemovals[one.UID]
		if wait := due(last, removal, d.now); wait > 0 {
			d.requeueIn(wait)
			continue
		}
		if len(kept) >= maxWrites {
			d.requeueIn(pollMore)
			continue
		}
		next := after(last, removal, d.now)
		if d.Removals == nil {
			d.Removals = Removals{}
		}
		d.Removals[one.UID] = next
		d.requeueIn(due(next, removal, d.now))
		kept = append(kept, write)
	}
	d.Writes = kept
}

func (d *decider) requeueIn(after time.Duration) {
	d.RequeueAfter = requeue.Sooner(d.RequeueAfter, after)
}
