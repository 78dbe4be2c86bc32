package apply

import (
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

const (
	// maxOwners limits the memory to about four megabytes: some 200 bytes for each owner.
	maxOwners = 20_000
	// maxReported limits the memory to less than a megabyte.
	maxReported = 5_000
)

// memory is what the events about reverts need: which children have existed, so that a child that
// is created again differs from a new one, and which reverts were reported. It is lost with the
// process, which costs at most an event, and a few free creations of a child that is deleted again
// and again.
type memory struct {
	clock clock.PassiveClock
	seed  maphash.Seed
	mutex sync.Mutex
	// existing has, by owner, the hashes of its desired children that have existed.
	existing *lru.Cache
	// reported has when each revert took place last, by its hash.
	reported *lru.Cache
}

func newMemory(clock clock.PassiveClock) *memory {
	return &memory{clock: clock, seed: maphash.MakeSeed(), existing: lru.New(maxOwners), reported: lru.New(maxReported)}
}

// hasExisted reports whether a child that is still desired has existed.
func (m *memory) hasExisted(owner types.UID, ref plan.Ref) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known, _ := m.existing.Get(owner)
	hashes, _ := known.([]uint64)
	return slices.Contains(hashes, maphash.Comparable(m.seed, ref))
}

// remember records which of the children of an owner have existed, and forgets all others.
func (m *memory) remember(owner types.UID, existed []plan.Ref) {
	hashes := make([]uint64, len(existed))
	for i, ref := range existed {
		hashes[i] = maphash.Comparable(m.seed, ref)
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known, _ := m.existing.Get(owner)
	if before, _ := known.([]uint64); !slices.Equal(before, hashes) {
		m.existing.Add(owner, hashes)
	}
}

// isNew reports whether there was no revert like this for a while, and records this one. So a
// program that changes a child again and again causes one event, until it leaves the child alone.
func (m *memory) isNew(revert plan.Revert) bool {
	difference := maphash.String(m.seed, revert.Message(""))
	m.mutex.Lock()
	defer m.mutex.Unlock()
	last, known := m.reported.Get(difference)
	m.reported.Add(difference, m.clock.Now())
	before, _ := last.(time.Time)
	return !known || m.clock.Since(before) > forgetAfter
}

// rememberAll records which children exist after a run: found, created, or known to have existed.
func (r *run) rememberAll(all []task, kept []plan.Ref) {
	var existed []plan.Ref
	note := func(ref plan.Ref) {
		existing, isFound := r.found[ref]
		if isFound && existing.Ownership == plan.Ours || r.result.Changed(ref) || r.memory.hasExisted(r.owner.GetUID(), ref) {
			existed = append(existed, ref)
		}
	}
	for i := range all {
		note(all[i].ref)
	}
	for _, ref := range kept {
		note(ref)
	}
	r.memory.remember(r.owner.GetUID(), existed)
}
