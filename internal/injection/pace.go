package injection

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

// Removals are the last removals of one agent that a controller has written, by the UID of the
// workload. The workload itself does not record them.
type Removals map[types.UID]Grant

// removal takes the place of a revision in the grants of Removals.
const removal = "out"

// skipRepeated drops removals that were written recently without effect, because the webhook may be
// unavailable. They are repeated after 10 s, 20 s, ... 5 min, as grants are.
func (d *decider) skipRepeated() {
	kept := d.Writes[:0]
	for _, write := range d.Writes {
		one := &d.seen[write.Index]
		if write.Grant != nil || !Has(one.Template, d.agent.ID) {
			kept = append(kept, write)
			continue
		}
		last := d.LastRemovals[one.UID]
		if wait := last.Due(removal, d.now); wait > 0 {
			d.requeueIn(wait)
			continue
		}
		if len(kept) >= MaxWrites {
			d.requeueIn(PollMore)
			continue
		}
		next := last.Next(removal, d.now)
		if d.Removals == nil {
			d.Removals = Removals{}
		}
		d.Removals[one.UID] = next
		d.requeueIn(next.Due(removal, d.now))
		kept = append(kept, write)
	}
	d.Writes = kept
}

func (d *decider) requeueIn(after time.Duration) {
	d.RequeueAfter = requeue.Sooner(d.RequeueAfter, after)
}
