package apply

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

const (
	// freeReverts is how often the same values of a child are put back at once. People and scripts
	// that change a child are undone within milliseconds; a controller that changes it after each
	// write would make us write for ever.
	freeReverts = 10
	// firstBrake is the pause before the next one. Each pause is twice as long as the one before.
	firstBrake, longestBrake = time.Second, time.Minute
	// forgetAfter is how long a child must stay unchanged until reverts are free again.
	forgetAfter = 5 * time.Minute
	// maxContested limits the memory to about a megabyte.
	maxContested = 10_000
)

// brake slows the writes of children, and the patches of objects of other owners, that someone else
// undoes again and again. Its memory is lost with the process, which only costs freeReverts further
// writes. What is written is known by a comparable key: of a child, its reference.
type brake struct {
	clock clock.PassiveClock
	mutex sync.Mutex
	known *lru.Cache
}

// contest is what is known about the writes under one key.
type contest struct {
	// hash is that of the values that were written, and reverts how often they were written again. by
	// is the field manager that undid them last; empty if that is not known.
	hash    string
	reverts int
	last    time.Time
	by      string
	// waited is true if the values had to wait since they were written last, and deleted if they were
	// undone by a deletion.
	waited, deleted bool
}

func newBrake(clock clock.PassiveClock) *brake {
	return &brake{clock: clock, known: lru.New(maxContested)}
}

// pause returns how long a child must not be given the values with this hash again; 0 if it may be.
func (b *brake) pause(key any, hash string) time.Duration {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	seen := b.seen(key, hash)
	if seen.reverts < freeReverts {
		return 0
	}
	pause := min(firstBrake<<min(seen.reverts-freeReverts, 10), longestBrake)
	return max(0, seen.last.Add(pause).Sub(b.clock.Now()))
}

// written records that a child is given the values with this hash, because by has undone them, and
// reports whether that is slowed, and whether it had to wait. by is a field manager, or empty.
func (b *brake) written(key any, hash, by string, deleted bool) (slowed, waited bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	seen := b.seen(key, hash)
	b.known.Add(key, contest{hash: hash, reverts: seen.reverts + 1, last: b.clock.Now(), by: cmp.Or(by, seen.by), deleted: deleted})
	return seen.reverts >= freeReverts, seen.waited
}

// waits records that the values have to wait, and returns what is known about them.
func (b *brake) waits(key any, hash string) contest {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	seen := b.seen(key, hash)
	seen.waited = true
	b.known.Add(key, seen)
	return seen
}

// isContested reports whether a further write of these values is slowed.
func (b *brake) isContested(key any, hash string) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.seen(key, hash).reverts >= freeReverts
}

// seen returns what is known about the writes of these values; nothing after a while without any.
func (b *brake) seen(key any, hash string) contest {
	found, known := b.known.Get(key)
	if seen, _ := found.(contest); known && seen.hash == hash && b.clock.Since(seen.last) <= forgetAfter {
		return seen
	}
	return contest{}
}

// putBack overwrites a child of ours that differs from what is desired, unless someone else keeps
// changing it: then the result says when it may be. Only a write that has changed the child counts.
func (r *run) putBack(ctx context.Context, task task, existing plan.Found, overwrite func() error) error {
	if r.isSlowed(task) {
		return nil
	}
	undone, by := r.observeChange(ctx, task, existing) // before the write, which takes the fields over
	if err := overwrite(); err != nil {
		return err
	}
	if !r.result.Changed(task.ref) {
		return nil
	}
	if len(undone.Fields) > 0 && r.memory.isNew(undone) {
		r.result.Reverts = append(r.result.Reverts, undone)
	}
	r.noteContest(task, by, false)
	return nil
}

// isSlowed reports whether a child has to wait, because someone else changes or deletes it again
// and again, and notes that in the result.
func (r *run) isSlowed(task task) bool {
	pause := r.brake.pause(task.ref, task.hash)
	if pause == 0 {
		return false
	}
	r.slow(task, pause)
	return true
}

// slow notes that someone else changes or deletes a child again and again. It is looked at again
// after the pause.
func (r *run) slow(task task, pause time.Duration) {
	seen := r.brake.waits(task.ref, task.hash)
	r.result.SlowedFor = requeue.Sooner(r.result.SlowedFor, pause)
	r.result.SlowedChildren = append(r.result.SlowedChildren, plan.Contest{Ref: task.ref, By: seen.by, IsDeletion: seen.deleted})
}

// noteContest records that a child was put back, and that someone else changes or deletes it again
// and again if that was slowed. One that did not have to wait is as it should be most of the time.
// by is the field manager, or empty.
func (r *run) noteContest(task task, by string, deleted bool) {
	slowed, waited := r.brake.written(task.ref, task.hash, by, deleted)
	if slowed {
		r.result.Contested = append(r.result.Contested, plan.Contest{Ref: task.ref, By: by, IsDeletion: deleted})
	}
	if slowed && waited {
		r.slow(task, r.brake.pause(task.ref, task.hash))
	}
}
