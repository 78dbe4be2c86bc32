package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// schedule is what happens in one run, but for what is drawn while it runs.
type schedule struct {
	instances  int
	durability election.Durability
	failAfter  time.Duration
	// fresh begins with empty volumes, instead of a database that has been led before.
	fresh bool
	// adopts begins with volumes that a former database has left, and a record that permits nobody to
	// initialise. remains says of which instances these have data; the others' are empty.
	adopts  bool
	remains []bool
	// slowAPI, lostAnswers: requests to the API server take long, or their answers are lost.
	slowAPI, lostAnswers bool
	// slowNetwork, loses: messages between instances take long, or are lost.
	slowNetwork, loses bool
	// onlyAPI disturbs nothing but the API server: nothing may stop.
	onlyAPI bool
	faults  int
	// tampers is true if the record was changed by somebody, freezes if a process was stopped,
	// wipes if a volume was lost.
	tampers, freezes, wipes bool
	// staysHung is true if a disk that hangs, or a server that is stopped while its program goes on,
	// does so for ever: the others must go on without it.
	staysHung bool
	// decides is true if the user changes the durability and the patience meanwhile.
	decides bool
	// scales is true if the user then changes the number of instances too.
	scales bool
	// staysAway is true if the leader never reaches the API server again, and its server dies.
	staysAway bool
	forEver   *node
	// slow is the name of a node whose server may take a minute to stop receiving, because it has
	// much to replay; "" is none. The others must go on without it.
	slow string
	// ephemeral is true if the data end with their servers. Then pods are deleted by force too.
	ephemeral bool
	// heal is when all other faults end, and end when writes must have been acknowledged since.
	heal, end time.Duration
}

// draw draws a schedule.
func draw(random *rand.Rand) schedule {
	plan := schedule{
		instances: []int{1, 2, 3, 3, 3, 3, 4, 5}[random.IntN(8)],
		failAfter: []time.Duration{shortAfter, shortAfter, longAfter}[random.IntN(3)],
		faults:    1 + random.IntN(6),
	}
	plan.durability = []election.Durability{
		election.Required, election.Required, election.Required, election.Preferred, election.Asynchronous,
	}[random.IntN(5)]
	plan.fresh = random.IntN(10) == 0
	plan.slowAPI, plan.lostAnswers = random.IntN(6) == 0, random.IntN(6) == 0
	plan.slowNetwork, plan.loses = random.IntN(6) == 0, random.IntN(6) == 0
	plan.onlyAPI = random.IntN(12) == 0
	if plan.onlyAPI {
		plan.slowNetwork, plan.loses, plan.fresh = false, false, false
		plan.lostAnswers = random.IntN(2) == 0
	}
	plan.staysHung = plan.instances > 2 && random.IntN(3) == 0
	plan.heal = plan.failAfter + 10*time.Second + time.Duration(random.Int64N(int64(25*time.Second)))
	plan.staysAway = !plan.staysHung && !plan.onlyAPI && plan.instances > 2 && plan.durability == election.Required && random.IntN(4) == 0
	plan.decides = !plan.staysAway && !plan.onlyAPI && random.IntN(4) == 0
	plan.end = plan.heal + 2*plan.longest() + 45*time.Second
	plan.scales = plan.decides && plan.instances > 2 && !plan.staysHung && !plan.fresh
	if plan.adopts = plan.fresh && random.IntN(2) == 0; plan.adopts {
		plan.remains = make([]bool, plan.instances)
		for range []int{0, 0, 1, plan.instances}[random.IntN(4)] {
			plan.remains[random.IntN(plan.instances)] = true
		}
	}
	return plan
}

// drawSlow draws whether a node is slow. It has numbers of its own, so that all other schedules
// stay as they were.
func (s *schedule) drawSlow(random *rand.Rand) {
	if n := random.IntN(8 * s.instances); n < s.instances && s.instances > 2 && !s.staysHung && !s.staysAway && !s.onlyAPI {
		s.slow = fmt.Sprintf("db-%d", n)
	}
}

// stopsWithin is how long a node may take at most to replay what it has received.
func (s *schedule) stopsWithin(n *node) time.Duration {
	if n.name() == s.slow {
		return time.Minute
	}
	return 300 * time.Millisecond
}

// The patience that a user may choose here.
const (
	shortAfter = 5 * time.Second
	longAfter  = 11 * time.Second
)

// longest is the longest patience that an instance may have in the schedule.
func (s *schedule) longest() time.Duration {
	if s.decides {
		return longAfter
	}
	return s.failAfter
}

// apply plans the faults.
func (s *schedule) apply(w *world) {
	from := 5 * time.Second
	if s.adopts {
		from = 0 // What decides whether new data are made happens at the start.
	}
	if s.onlyAPI && s.instances > 2 {
		// With a member that is away, the leader renews.
		w.after(4*time.Second, func() {
			for _, n := range w.nodes {
				if w.leader() != nil && n != w.leader() {
					n.crash()
					return
				}
			}
		})
	}
	for range s.faults {
		w.after(w.between(from, s.heal-time.Second), w.fault)
	}
	w.after(s.heal, w.heal)
}

// fault lets something go wrong.
func (w *world) fault() {
	n := w.nodes[w.random.IntN(len(w.nodes))]
	if leader := w.leader(); leader != nil && w.chance(2) {
		n = leader
	}
	w.check.disturb()
	if w.plan.onlyAPI {
		w.apiFault(n)
		return
	}
	if w.plan.decides && w.chance(3) {
		w.decide()
		return
	}
	switch w.random.IntN(16) {
	case 0, 1:
		n.crash()
		w.after(w.between(200*time.Millisecond, 20*time.Second), n.start)
	case 2:
		w.log("the server of %s dies", n.name())
		n.server.kill()
		n.wake()
	case 3, 4:
		w.pause(n)
	case 5, 6, 7:
		w.partition(n)
	case 8, 9:
		w.apiFault(n)
	case 10:
		w.wipe(n)
	case 11:
		w.tamper()
	case 12:
		w.hang(n)
	case 13, 14:
		w.request(n)
	case 15:
		n.crash()
		n.newPod()
		w.after(w.between(time.Second, 5*time.Second), n.start)
	}
}

// leader is the instance whose server takes writes, if there is one.
func (w *world) leader() *node {
	for _, n := range w.nodes {
		if n.server.leading() {
			return n
		}
	}
	return nil
}

// pause stops the program, the server, or both.
func (w *world) pause(n *node) {
	w.plan.freezes = true
	which := w.random.IntN(3)
	w.log("%s is stopped (%d)", n.name(), which)
	n.paused = n.paused || n.alive && which != 0
	n.server.frozen = n.server.frozen || which != 1 && n.server.state > election.Stopped
	if which == 0 && n.server.frozen {
		w.mayHangForEver(n)
	}
	run, life := n.server.run, n.life
	w.after(w.between(500*time.Millisecond, 20*time.Second), func() {
		w.check.disturb()
		if n.server.run == run && !n.hangsForEver {
			n.server.frozen = false
		}
		if n.life == life {
			n.goOn()
		}
	})
}

// goOn continues a program that was stopped. What it measured before says nothing.
func (n *node) goOn() {
	if !n.paused || !n.alive {
		return
	}
	n.w.log("%s goes on", n.name())
	n.paused = false
	n.server.unflushedSince = 0
	for i := range n.server.links {
		n.server.links[i].fresh = false
	}
	n.wake()
	pending := n.pending
	n.pending = nil
	for _, do := range pending {
		n.resume(n.life, do)
	}
}

// partition cuts a node off: from one or from all others, in one direction or both, and perhaps
// from the API server.
func (w *world) partition(n *node) {
	one, way := w.random.IntN(len(w.nodes)+1), w.random.IntN(3)
	w.log("%s is cut off (%d, %d)", n.name(), one, way)
	for i := range w.nodes {
		if i == n.index || one < len(w.nodes) && one != i {
			continue
		}
		w.cut[n.index][i] = w.cut[n.index][i] || way != 0
		w.cut[i][n.index] = w.cut[i][n.index] || way != 1
	}
	if w.chance(2) {
		w.apiAway[n.index] = true
	}
	until := w.between(500*time.Millisecond, 25*time.Second)
	if w.chance(3) {
		// One of the others comes back earlier, so that each side knows something else.
		back := w.random.IntN(len(w.nodes))
		w.after(until/2, func() { w.check.disturb(); w.cut[n.index][back], w.cut[back][n.index] = false, false })
	}
	w.after(until, func() {
		w.check.disturb()
		for i := range w.nodes {
			w.cut[n.index][i], w.cut[i][n.index] = false, false
		}
		w.apiAway[n.index] = n == w.plan.forEver
	})
}

// apiFault takes the API server away, from one node or from all.
func (w *world) apiFault(n *node) {
	all := w.chance(2)
	w.log("the API server is away (%s, all: %t)", n.name(), all)
	for _, other := range w.nodes {
		if all || other == n {
			w.apiAway[other.index] = true
		}
	}
	w.after(w.between(500*time.Millisecond, 30*time.Second), func() {
		w.check.disturb()
		clear(w.apiAway)
		if w.plan.forEver != nil {
			w.apiAway[w.plan.forEver.index] = true
		}
	})
}

// wipe takes the volume away.
func (w *world) wipe(n *node) {
	if w.plan.adopts && w.check.record.Term == 0 && n.disk.member.HasData() {
		return // Nobody could know that there were any.
	}
	w.plan.wipes = true
	n.crash()
	w.log("the volume of %s is wiped", n.name())
	n.disk = disk{}
	n.server.kill()
	n.newPod()
	w.after(w.between(time.Second, 5*time.Second), n.start)
}

// tamper deletes, damages or sets back the record.
func (w *world) tamper() {
	w.plan.tampers = true
	lease := &w.lease
	switch which := w.random.IntN(3); {
	case which == 0:
		w.log("the Lease is deleted")
		lease.exists = false
		lease.version++
		if w.plan.adopts && w.chance(2) {
			w.log("the manager creates it again")
			lease.exists, lease.damaged, lease.record = true, false, election.Record{}
		}
	case which == 1:
		w.log("the record is damaged")
		lease.damaged = true
		lease.version++
	case len(lease.before) > 0:
		// One of the time before there were any data would be a second loss: that of the data.
		if before := lease.before[w.random.IntN(len(lease.before))]; before.System != "" {
			lease.record = before
			lease.version++
		}
		w.log("the record is set back: %+v", lease.record)
	}
	for _, n := range w.nodes {
		if w.chance(2) && !w.apiAway[n.index] {
			n.resume(n.life, func() { n.core.RecordChanged(lease.text()); n.step() })
		}
	}
}

// hang lets the disk take no writes. It keeps who writes waiting, or, when it is full, refuses.
func (w *world) hang(n *node) {
	w.plan.freezes = true
	n.server.hung, n.refuses = true, w.chance(2)
	w.log("the disk of %s hangs (for ever: %t, refuses: %t)", n.name(), w.plan.staysHung, n.refuses)
	w.mayHangForEver(n)
	w.after(w.between(time.Second, 25*time.Second), func() { w.unhang(n) })
}

// mayHangForEver lets what hangs on a node do so until the end, on one node at most.
func (w *world) mayHangForEver(n *node) {
	if w.plan.staysHung && !slices.ContainsFunc(w.nodes, func(n *node) bool { return n.hangsForEver }) {
		w.log("%s hangs for ever", n.name())
		n.hangsForEver = true
	}
}

func (w *world) unhang(n *node) {
	if n.server.hung && !n.hangsForEver {
		w.check.disturb()
		n.server.hung = false
		if n.core != nil && n.core.Saving {
			n.resume(n.life, func() { n.save(n.core.Local); n.step() })
		}
		n.wake()
	}
}

// request asks a leader to hand over, or the pod to end.
func (w *world) request(n *node) {
	if !n.alive || n.paused {
		return
	}
	if w.chance(2) {
		w.log("%s is asked to end", n.name())
		n.core.Intent.Stop = true
		life := n.life
		w.after(15*time.Second, func() {
			if n.life == life {
				n.crash()
				n.newPod()
				w.after(time.Second, n.start)
			}
		})
	} else {
		w.log("%s is asked to hand over", n.name())
		n.core.Intent.SwitchTo = true
		n.core.Intent.Preferred, n.core.Intent.Only = w.nodes[w.random.IntN(len(w.nodes))].name(), w.chance(3)
		life := n.life
		w.after(3*time.Second, func() {
			n.resume(life, func() { n.core.Intent.SwitchTo, n.core.Intent.Only = false, false })
		})
	}
	n.wake()
}

// decide lets the user want another durability and patience, and perhaps another number of
// instances. Each instance hears of it when it does. Where nothing may be lost, that stays so.
func (w *world) decide() {
	w.decided.After = []time.Duration{shortAfter, longAfter}[w.random.IntN(2)]
	w.decided.Durability = []election.Durability{election.Required, election.Preferred}[w.random.IntN(2)]
	if !w.check.promises() && w.chance(2) {
		w.decided.Durability = election.Asynchronous
	}
	if w.plan.scales {
		w.decided.Instances = 2 + w.random.IntN(len(w.nodes)-1)
	}
	w.log("the user decides: durability %d, failover after %s, %d instances", w.decided.Durability, w.decided.After, w.decided.Instances)
	for _, n := range w.nodes {
		life := n.life
		w.after(w.between(0, 3*time.Second), func() {
			n.resume(life, func() {
				n.core.Configured(w.decided, w.others(n))
				n.step()
			})
		})
	}
}

// others returns the names of the other instances that the user wants; none where the settings of
// this schedule do not name them. An instance that is no longer wanted keeps running: the manager
// removes none that a rule names.
func (w *world) others(n *node) []string {
	var names []string
	if !w.plan.ephemeral && !w.plan.scales {
		return nil
	}
	for _, other := range w.nodes[:w.decided.Instances] {
		if other != n {
			names = append(names, other.name())
		}
	}
	return names
}

// heal ends all faults.
func (w *world) heal() {
	w.log("everything is healed")
	w.check.disturb()
	w.plan.slowAPI, w.plan.lostAnswers, w.plan.slowNetwork, w.plan.loses = false, false, false, false
	clear(w.apiAway)
	if leader := w.leader(); w.plan.staysAway && leader != nil {
		// One that does not reach the API server, and whose server dies, keeps nobody from leading.
		w.apiAway[leader.index] = true
		w.plan.forEver = leader
		w.log("%s never reaches the API server again", leader.name())
		w.after(w.between(0, 2*time.Second), func() { leader.server.kill(); leader.wake() })
	}
	for i, n := range w.nodes {
		clear(w.cut[i])
		n.server.frozen = n.server.frozen && n.hangsForEver
		w.unhang(n)
		n.goOn()
		if !n.alive {
			w.after(w.between(0, time.Second), n.start)
		}
	}
	w.check.healed()
}
