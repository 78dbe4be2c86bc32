package simulation

import (
	"math/rand/v2"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// RunEphemeral tries a schedule of a database whose data end with their servers, and whose pods are
// deleted by force, so that the former pod runs on beside the next one of its name. I6 must hold:
// never do two take writes, but for a single instance, until that reaches the API server; and I9:
// after all faults, and the former pods, have ended, an instance takes writes. Nothing is paused,
// and no record is changed, because clocks and the record are what that rests on. only is the one
// invariant that is checked, "" for all.
func RunEphemeral(seed uint64, only string, trace func(format string, arguments ...any)) *Violation {
	random := rand.New(rand.NewPCG(seed, 11))
	plan := schedule{
		ephemeral: true, durability: election.Asynchronous, instances: 1 + random.IntN(3), failAfter: shortAfter,
		slowAPI: random.IntN(8) == 0, lostAnswers: random.IntN(8) == 0, slowNetwork: random.IntN(8) == 0, loses: random.IntN(8) == 0,
	}
	const faults = 5
	plan.heal = 40 * time.Second
	plan.end = plan.heal + 40*time.Second
	w := &world{random: random, only: only, trace: trace, plan: plan}
	for range 1 + random.IntN(faults) {
		w.after(w.between(5*time.Second, plan.heal-time.Second), w.faultInMemory)
	}
	w.after(plan.heal, w.endGhosts)
	return run(w, seed)
}

// faultInMemory lets something go wrong.
func (w *world) faultInMemory() {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if leader := w.leader(); leader != nil && w.chance(2) {
		n = leader
	}
	switch w.random.IntN(9) {
	case 0:
		n.crash()
		w.after(w.between(200*time.Millisecond, 10*time.Second), n.start)
	case 1:
		w.log("the server of %s dies", n.name())
		n.server.kill()
		n.wake()
	case 2:
		w.partition(n)
	case 3:
		w.apiFault(n)
	case 4:
		w.request(n)
	default:
		w.deleteByForce(n)
	}
}

// deleteByForce makes a new pod beside one that runs on without the API server, and perhaps without
// the others too. That one ends, or reaches the API server again. There is one at a time: two that
// hear each other are outside the promise.
func (w *world) deleteByForce(n *node) {
	if len(w.ghosts) > 0 || !n.alive {
		return
	}
	n.isGhost, n.isAway, n.isMute = true, true, w.chance(2)
	w.log("%s is deleted by force (reaches others: %t)", n.name(), !n.isMute)
	w.ghosts = []*node{n}
	next := newNode(w, n.index)
	next.made, next.pods = n.made+1000, n.pods
	next.newPod()
	w.nodes[n.index] = next
	w.after(w.between(time.Second, 5*time.Second), next.start)
	if w.chance(2) {
		w.after(w.between(5*time.Second, 25*time.Second), func() {
			n.isAway = false
			w.tellGhosts()
		})
	}
	w.after(w.between(10*time.Second, 40*time.Second), w.endGhosts)
}

// endGhosts ends the pods that were deleted by force and run on.
func (w *world) endGhosts() {
	for _, n := range w.ghosts {
		n.crash()
	}
	w.ghosts = nil
}

// tellGhosts lets the watch of a pod that was deleted by force, and that reaches the API server,
// tell of a new record. One of newer data ends it.
func (w *world) tellGhosts() {
	version := w.lease.text()
	for _, n := range w.ghosts {
		if n.isAway {
			continue
		}
		w.after(w.latency(), func() {
			n.resume(n.life, func() { n.core.RecordChanged(version); n.step() })
		})
		const soon = 5 * time.Second // A request that has no answer is sent again.
		w.after(soon, func() {
			record := w.lease.record
			isTold := version == w.lease.text() && record.Term > 0 && record.System != n.core.System
			if isTold && n.server.state == election.Leading && !w.plan.lostAnswers && !w.plan.slowAPI {
				w.check.fail("I6", "%s takes writes, and the record that it reaches is of newer data", n.name())
			}
		})
	}
}

// overwrites checks that a pod that was deleted by force does not replace the record of newer data.
func (c *checks) overwrites(n *node) {
	record := c.w.lease.record
	isItsOwn := record.System == "" && record.Seq == n.core.BegunSeq || record.Holder.PodUID == n.uid ||
		n.core.System == "" && record.Released()
	if n.isGhost && record.Term > 0 && record.System != n.core.System && !isItsOwn {
		c.fail("I6", "%s replaces the record of newer data by its own", n.name())
	}
}
