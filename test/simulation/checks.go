package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// checks are the invariants, and what they remember.
type checks struct {
	w     *world
	seed  uint64
	found *Violation

	// acked is the highest acknowledged offset of each timeline, lost is true once an AcceptLoss
	// made that void.
	acked map[uint32]uint64
	// terms and timelines say who was promoted in which term, and for which term a timeline was
	// begun.
	terms     map[uint64]*node
	timelines map[uint32]uint64
	// beaten has the terms in which a heartbeat was committed.
	beaten map[uint64]bool
	// record is the last that an instance wrote.
	record election.Record
	// openTerm is the highest term that was opened, and openLog what its leader had.
	openTerm   uint64
	openLeader *node
	// blind is true once somebody stood who could not know what was before.
	blind bool
	// calmSince is since when nothing was disturbed.
	calmSince time.Duration
	// healedAt is when all faults ended, 0 before; ackedAfter is true once a write was acknowledged
	// after that; required is true if that must happen.
	healedAt   time.Duration
	ackedAfter bool
	required   bool
}

func newChecks(w *world, seed uint64) checks {
	return checks{
		w: w, seed: seed, acked: map[uint32]uint64{}, terms: map[uint64]*node{}, timelines: map[uint32]uint64{},
		beaten: map[uint64]bool{1: !w.plan.fresh},
	}
}

func (c *checks) fail(invariant, format string, arguments ...any) {
	if c.found == nil && (c.w.only == "" || c.w.only == invariant) {
		c.found = &Violation{Seed: c.seed, Invariant: invariant, At: c.w.now, Message: fmt.Sprintf(format, arguments...)}
	}
}

func (c *checks) disturb() { c.calmSince = c.w.now }

// promises reports whether nothing acknowledged may be lost: not with Asynchronous, and not once
// somebody stood, or led on, who could not know what was before a record was set back.
func (c *checks) promises() bool { return c.w.plan.durability != election.Asynchronous && !c.blind }

// promoted checks I4 and I6.
func (c *checks) promoted(n *node, term uint64, timeline uint32) {
	known := c.knows(n)
	c.blind = c.blind || !known
	if other := c.terms[term]; other != nil && other != n && known {
		c.fail("I4", "%s and %s were promoted in term %d", other.name(), n.name(), term)
	}
	if other, used := c.timelines[timeline]; used && known {
		c.fail("I4", "timeline %d was begun for term %d, and again for term %d", timeline, other, term)
	}
	c.terms[term], c.timelines[timeline] = n, term
	if c.w.plan.durability != election.Asynchronous || c.w.plan.freezes || c.w.plan.tampers || c.w.plan.decides ||
		c.w.plan.ephemeral && c.w.plan.instances == 1 {
		return
	}
	for _, other := range append(slices.Clone(c.w.ghosts), c.w.nodes...) {
		if other != n && other.server.state == election.Leading {
			c.fail("I6", "%s is promoted while %s still takes writes", n.name(), other.name())
		}
	}
}

// knows reports whether a candidate can know what was before: from the record, or, once that was
// set back, from all others, if they have been there for a while.
func (c *checks) knows(n *node) bool {
	const while = 2 * time.Second
	if !c.w.plan.tampers || c.w.plan.wipes {
		return !c.w.plan.tampers
	}
	for _, other := range c.w.nodes {
		if other != n && (!other.alive || other.paused || !n.reaches(other) || c.w.now-other.startedAt < while) {
			return false
		}
	}
	return c.w.now-c.calmSince >= while
}

// acknowledged notes that a client's write was acknowledged, and checks I1 and I2.
func (c *checks) acknowledged(s *server, w waiter) {
	if c.healedAt != 0 && !c.ackedAfter && s.term == c.openTerm {
		c.ackedAfter = true
		c.w.after(3*time.Second, func() { c.w.stopped = true })
	}
	if !c.promises() {
		return
	}
	c.acked[w.timeline] = max(c.acked[w.timeline], w.offset)
	if s.term < c.openTerm && !c.openLeader.disk.log.contains(w.timeline, w.offset) {
		c.fail("I1", "%s acknowledged a write in term %d, after %s had opened term %d without it",
			s.n.name(), s.term, c.openLeader.name(), c.openTerm)
	}
	c.covered()
}

// recordWritten checks I1, I2 and I5 for a record that an instance has just written.
func (c *checks) recordWritten() {
	record := c.w.lease.record
	opened := record.Open && !record.Released() && (!c.record.Open || c.record.Term != record.Term)
	c.record = record
	if opened {
		c.opened(c.w.byName(record.Holder.Member.Name), record.Term)
	}
	c.covered()
}

func (c *checks) opened(n *node, term uint64) {
	if !c.beaten[term] {
		c.fail("I5", "%s opened term %d, and no heartbeat of it was committed", n.name(), term)
	}
	if term > c.openTerm {
		c.openTerm, c.openLeader = term, n
	}
	// A holder that leads on by a record that was set back opens nothing: nobody follows it.
	if !c.promises() || n.disk.member != c.record.Holder.Member || term < c.openTerm {
		return
	}
	for timeline, offset := range c.acked {
		if !n.disk.log.contains(timeline, offset) {
			c.fail("I1", "%s opened term %d without the acknowledged write %d/%d: %+v", n.name(), term, timeline, offset, n.disk.log)
		}
	}
}

// covered checks I2: no set of members that lack an acknowledged write covers all rules.
func (c *checks) covered() {
	if !c.promises() || len(c.record.Rules) == 0 {
		return
	}
	for timeline, offset := range c.acked {
		var lacking []election.Member
		for _, n := range c.w.nodes {
			if n.disk.member.HasData() && !n.disk.log.contains(timeline, offset) {
				lacking = append(lacking, n.disk.member)
			}
		}
		needsOthers := func(rule election.Rule) bool { return !rule.CoveredBy(lacking) }
		if len(lacking) > 0 && !slices.ContainsFunc(c.record.Rules, needsOthers) {
			c.fail("I2", "%v cover %+v and lack the acknowledged write %d/%d", lacking, c.record.Rules, timeline, offset)
		}
	}
}

// received checks I3: nothing is received for a term below a promise that was given away.
func (c *checks) received(n *node, term uint64) {
	if n.disk.answered > term {
		c.fail("I3", "%s received in term %d after it had promised term %d", n.name(), term, n.disk.answered)
	}
}

// writes checks I8 for a claim: a leader that leads and is reached by all is not deposed. The claim
// was sent at begun; what was true then may have changed on its way.
func (c *checks) writes(n *node, record election.Record, begun time.Duration) {
	before := c.w.lease.record
	// Who claims a term, or leads on in one after a restart, rests on the record.
	c.blind = c.blind || (record.Term > before.Term || !n.server.leading()) && !c.knows(n)
	if record.Term <= before.Term || !before.Open || before.Released() || before.Holder.Member.Name == n.name() || c.w.plan.tampers {
		return
	}
	leader := c.w.byName(before.Holder.Member.Name)
	if begun-c.calmSince > c.w.plan.longest()+5*time.Second && !c.w.plan.slowNetwork && !c.w.plan.loses &&
		leader.alive && !leader.paused && !leader.server.hung && leader.server.leading() && leader.uid == before.Holder.PodUID {
		c.fail("I8", "%s claimed term %d, while %s leads and everybody reaches it", n.name(), record.Term, leader.name())
	}
}

// replaces checks the other half of I8: data are put aside only for a leader that was promoted.
func (c *checks) replaces(n *node, action election.Replace) {
	if leader := c.terms[action.Term]; leader == nil || leader.name() != action.Leader.Name {
		c.fail("I8", "%s puts its data aside for %s, which was not promoted in term %d", n.name(), action.Leader.Name, action.Term)
	}
}

// initialises checks that data are made only where there are none: those of a former database count
// as acknowledged, whatever the durability is now.
func (c *checks) initialises(n *node) {
	for _, other := range c.w.nodes {
		if other.disk.member.HasData() && !c.w.plan.ephemeral {
			c.fail("I1", "%s initialises the data of a new database, and %s has data", n.name(), other.name())
		}
	}
}

// published checks I7.
func (c *checks) published(n *node, term uint64) {
	if term < c.w.slice.term {
		c.fail("I7", "%s replaces the address of term %d with that of term %d", n.name(), c.w.slice.term, term)
	}
}

// killed checks I10: without the API server, nothing stops.
func (c *checks) killed(n *node, action election.Kill) {
	if c.w.plan.onlyAPI && n.server.leading() && c.w.now > 5*time.Second {
		c.fail("I10", "%s kills its server while only the API server is disturbed: %s", n.name(), action.Why)
	}
}

// healed notes that all faults have ended, and whether enough is left to lead (I9).
func (c *checks) healed() {
	c.healedAt = c.w.now
	var there []election.Member
	isAway := func(n *node) bool { return n.hangsForEver || n == c.w.plan.forEver || n.name() == c.w.plan.slow }
	for _, n := range c.w.nodes {
		if n.disk.member.HasData() && !isAway(n) {
			there = append(there, n.disk.member)
		}
	}
	lacks := func(rule election.Rule) bool { return !rule.CoveredBy(there) }
	c.required = len(c.record.Rules) > 0 && !slices.ContainsFunc(c.record.Rules, lacks)
	// Empty volumes are none that anybody could lose, but everybody must answer.
	if c.w.plan.adopts && len(c.record.Rules) == 0 && !slices.Contains(c.w.plan.remains, true) {
		c.required = !slices.ContainsFunc(c.w.nodes, isAway)
	}
	// Without a record that is believed, everybody must answer. Data that were just made, and that no
	// leader has had yet, are of no use without the record that permitted them.
	if c.w.plan.tampers && (c.w.plan.adopts || c.w.plan.wipes || c.w.plan.forEver != nil || len(there) < len(c.w.nodes)) {
		c.required = false
	}
}

func (c *checks) atEnd() {
	// A leader that is answered needs no API server.
	if c.required && !c.ackedAfter {
		c.fail("I9", "nothing was acknowledged for %s after everything was healed", c.w.now-c.healedAt)
	}
}

// readable checks that what an instance writes can be read again.
func (c *checks) readable(n *node, record election.Record) {
	text, err := record.Encode()
	if err == nil {
		_, err = election.Decode(text)
	}
	if err != nil {
		c.fail("R16", "%s writes a record that nobody can read: %v", n.name(), err)
	}
}
