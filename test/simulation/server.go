package simulation

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// server is a database server with streaming replication, as PostgreSQL's: what a commit waits for
// is read anew by each of its senders at a time of its own.
type server struct {
	n     *node
	state election.ServerState
	// run counts processes, operation what is done to them: what belongs to an earlier one is void.
	run, operation int
	busy, killing  bool
	// frozen processes do nothing; a hung disk flushes nothing.
	frozen, hung bool

	source election.Source
	// stream counts connections of the receiver; 0 is none.
	stream  int
	streams int
	final   bool
	clean   bool

	term     uint64
	timeline uint32
	history  election.History
	rule     election.Rule
	// ruleSets counts changes of rule. backend is the rule that sessions use, and links those of
	// the senders.
	ruleSets int
	backend  election.Rule
	links    []link
	// switched is the end of the log when everything used the rule; 0 before.
	switched  uint64
	committed bool
	waiters   []waiter

	unflushedSince time.Duration
	// receiversAt is when it last said who receives: a frozen one does not.
	receiversAt time.Duration
}

// link is the sender for one other instance.
type link struct {
	rule    election.Rule
	member  election.Member
	flushed uint64
	// fresh is true if it flushed something since the program last looked.
	fresh bool
}

// waiter is a commit that waits.
type waiter struct {
	timeline  uint32
	offset    uint64
	heartbeat int
}

func (s *server) up() bool { return s.state > election.Stopped && !s.frozen }

// leading reports whether the server takes writes.
func (s *server) leading() bool { return s.state == election.Leading && !s.frozen && !s.hung }

// kill ends the process, whatever it does.
func (s *server) kill() {
	s.run++
	s.operation++
	s.busy, s.killing, s.frozen = false, false, false
	s.source, s.stream, s.final, s.clean = election.Source{}, 0, false, false
	s.waiters, s.committed, s.switched, s.unflushedSince, s.receiversAt = nil, false, 0, 0, 0
	if s.n.w.plan.ephemeral && !s.n.disk.fresh {
		s.n.disk.member, s.n.disk.log, s.n.disk.system = election.Member{}, wal{}, ""
	}
	s.state = election.Stopped
	if !s.n.disk.member.HasData() {
		s.state = election.NoData
	}
}

// gracePeriod is for how many seconds the program waits for a frozen process. Then what it does has
// failed, and the server is killed.
const gracePeriod = 10

// begin does something that takes time. A frozen process does it later, a killed one never.
func (s *server) begin(from, to time.Duration, done func()) {
	s.busy = true
	s.operation++
	s.finish(s.n.w.between(from, to), s.operation, gracePeriod, done)
}

func (s *server) finish(wait time.Duration, operation, seconds int, done func()) {
	s.n.w.after(wait, func() {
		switch {
		case s.operation != operation:
		case s.frozen && (seconds > 0 || s.n.paused):
			s.finish(time.Second, operation, max(0, seconds-1), done)
		case s.frozen:
			s.n.w.log("%s kills its server, which does not answer", s.n.name())
			history := s.history
			s.kill()
			s.history = history
			s.n.wake()
		default:
			s.busy = false
			done()
			s.n.wake()
		}
	})
}

// start starts the server as a standby without a source.
func (s *server) start() {
	s.begin(50*time.Millisecond, 600*time.Millisecond, func() {
		s.state, s.final, s.n.disk.fresh = election.Standby, true, false
	})
}

// lead makes the server take writes.
func (s *server) lead(term uint64) {
	w := s.n.w
	s.n.disk.fresh = false
	s.state, s.source, s.stream, s.final = election.Leading, election.Source{}, 0, false
	s.term, s.timeline, s.history = term, s.n.disk.log.timeline, s.n.disk.log.history()
	s.backend, s.links = s.rule, make([]link, len(w.nodes))
	for i := range s.links {
		s.links[i].rule = s.rule
	}
	s.switched, s.committed = s.n.disk.log.end, false
	w.log("%s leads in term %d on timeline %d", s.n.name(), term, s.timeline)
	s.beat(s.run)
}

// promote leaves the timeline for another, and takes writes.
func (s *server) promote(term uint64, timeline uint32) {
	s.state, s.history = election.Promoting, ""
	s.begin(20*time.Millisecond, 200*time.Millisecond, func() {
		s.n.disk.log.branch(timeline)
		s.n.w.check.promoted(s.n, term, timeline)
		s.begin(10*time.Millisecond, 200*time.Millisecond, func() { s.lead(term) })
	})
}

// follow receives from a leader as soon as that can be reached.
func (s *server) follow(source election.Source) {
	s.begin(5*time.Millisecond, 100*time.Millisecond, func() {
		s.source, s.final = source, false
		s.streams++
		s.stream = s.streams
		s.connect(s.run, s.stream)
	})
}

// connect asks the leader for what it has, again and again.
func (s *server) connect(run, stream int) {
	if s.run != run || s.stream != stream {
		return
	}
	if leader := s.n.w.byName(s.source.Leader.Name); s.up() && leader.server.up() && leader.server.serves() && s.n.reaches(leader) {
		if link := &leader.server.links[s.n.index]; link.member != s.n.disk.member {
			*link = link.renewed(s.n.disk.member, leader.server.rule)
		}
		leader.server.send(s.n)
	}
	s.n.w.after(s.n.w.between(500*time.Millisecond, time.Second), func() { s.connect(run, stream) })
}

// renewed is the sender for a new connection: it reads the settings as they are.
func (l link) renewed(member election.Member, rule election.Rule) link {
	return link{rule: rule, member: member}
}

func (s *server) serves() bool {
	return s.state == election.Leading || s.state == election.StoppingCleanly
}

// unfollow takes the source away. Until the receiver has gone, more may arrive.
func (s *server) unfollow() {
	s.begin(5*time.Millisecond, 400*time.Millisecond, func() {
		s.stream, s.source = 0, election.Source{}
		s.begin(time.Millisecond, s.n.w.plan.stopsWithin(s.n), func() { s.final = true })
	})
}

// setRule changes what commits wait for. Sessions and senders notice at times of their own.
func (s *server) setRule(rule election.Rule) {
	s.rule, s.committed, s.switched = rule, false, 0
	s.ruleSets++
	if s.state != election.Leading {
		return
	}
	w, run, sets := s.n.w, s.run, s.ruleSets
	left := len(s.links) + 1
	use := func(notice func()) {
		w.after(w.between(0, 1500*time.Millisecond), func() {
			if s.run != run || s.ruleSets != sets {
				return
			}
			notice()
			if left--; left == 0 {
				s.switched = s.n.disk.log.end
				s.n.wake()
			}
		})
	}
	use(func() {
		s.backend = rule
		if rule.WaitsForNobody() {
			s.release(func(waiter) bool { return true })
		}
	})
	for i := range s.links {
		use(func() { s.links[i].rule = rule })
	}
}

// settled reports whether everything uses the rule, and enough have flushed what was written
// before.
func (s *server) settled() bool {
	if s.state != election.Leading || s.switched == 0 {
		return false
	}
	return s.rule.WaitsForNobody() || s.flushedBy(s.rule, s.switched) >= s.rule.Acks
}

func (s *server) flushedBy(rule election.Rule, offset uint64) int {
	count := 0
	for i := range s.links {
		if link := &s.links[i]; link.flushed >= offset && slices.Contains(rule.Set, link.member) {
			count++
		}
	}
	return count
}

// clientWrites lets a client write, if the server takes it.
func (s *server) clientWrites() {
	if s.leading() {
		s.insert(0)
	}
}

// beat writes a heartbeat every 2 s, and more often until the first is committed.
func (s *server) beat(run int) {
	if s.run != run || s.state != election.Leading {
		return
	}
	wait := 2 * time.Second
	switch {
	case s.n.paused || !s.n.alive:
	case !s.leading():
		if s.unflushedSince == 0 {
			s.unflushedSince = s.n.local()
		}
	default:
		s.unflushedSince = 0
		s.insert(s.ruleSets + 1)
		if !s.committed {
			wait = 200 * time.Millisecond
		}
	}
	s.n.w.after(wait, func() { s.beat(run) })
}

// insert writes a record, and sends it to who receives.
func (s *server) insert(heartbeat int) {
	log := &s.n.disk.log
	log.end++
	s.waiters = append(s.waiters, waiter{log.timeline, log.end, heartbeat})
	if s.backend.WaitsForNobody() {
		s.release(func(w waiter) bool { return w.offset == log.end })
	}
	for _, other := range s.n.w.nodes {
		if other != s.n && other.server.source.Leader == s.n.disk.member && other.server.stream != 0 {
			s.send(other)
		}
	}
}

// send sends what is flushed to one standby, which flushes it and answers.
func (s *server) send(to *node) {
	w, run, stream, receiver := s.n.w, s.run, to.server.stream, to.server.run
	sent := s.n.disk.log
	term := s.term
	w.after(w.latency(), func() {
		other := &to.server
		if other.run != receiver || other.stream != stream || stream == 0 || !other.up() || other.hung || !w.reaches(s.n, to) {
			return
		}
		if !sent.contains(to.disk.log.timeline, to.disk.log.end) {
			return
		}
		if to.disk.log.timeline != sent.timeline || to.disk.log.end < sent.end {
			w.check.received(to, term)
			to.disk.log = sent
		}
		member := to.disk.member
		w.after(w.latency(), func() {
			if s.run == run && s.serves() && !s.frozen && w.reaches(to, s.n) {
				s.acknowledged(to.index, member, sent.end)
			}
		})
	})
}

// acknowledged notes that a standby has flushed, and lets the commits return for which, by the rule
// of its sender, that is enough.
func (s *server) acknowledged(index int, member election.Member, offset uint64) {
	link := &s.links[index]
	if link.member != member {
		return
	}
	link.flushed, link.fresh = max(link.flushed, offset), true
	if link.rule.WaitsForNobody() {
		s.release(func(waiter) bool { return true })
	} else if slices.Contains(link.rule.Set, member) {
		s.release(func(w waiter) bool { return s.flushedBy(link.rule, w.offset) >= link.rule.Acks })
	}
	if s.switched != 0 {
		s.n.wake()
	}
}

// release lets commits return.
func (s *server) release(enough func(waiter) bool) {
	kept := s.waiters[:0]
	for _, w := range s.waiters {
		if !enough(w) {
			kept = append(kept, w)
			continue
		}
		if w.heartbeat == s.ruleSets+1 && !s.committed {
			s.committed = true
			s.n.w.check.beaten[s.term] = true
			s.n.wake()
		}
		if w.heartbeat == 0 {
			s.n.w.check.acknowledged(s, w)
		}
	}
	s.waiters = kept
}

// stopCleanly takes no more writes, sends what there is, and stops.
func (s *server) stopCleanly() {
	s.state = election.StoppingCleanly
	for _, other := range s.n.w.nodes {
		if other.server.stream != 0 && other.server.source.Leader == s.n.disk.member {
			s.send(other)
		}
	}
	s.begin(50*time.Millisecond, 500*time.Millisecond, func() {
		if s.hung {
			s.busy = true
			return
		}
		history := s.history
		s.n.disk.fresh = true // A server in memory goes on as a standby, in the same process.
		s.kill()
		s.n.disk.fresh = false
		s.clean, s.history = true, history
	})
}

// observed is what the program finds of its server.
func (s *server) observed() election.Server {
	observed := election.Server{
		State: s.state, Busy: s.busy, Source: s.source, Final: s.final, Clean: s.clean, Rule: s.rule,
		History: s.history, Timeline: s.timeline, Settled: s.settled() && !s.frozen, Committed: s.committed, UnflushedSince: s.unflushedSince,
		ReceiversAt: s.receiversAt,
	}
	if s.n.disk.member.HasData() {
		observed.Position = s.n.disk.log.position()
	}
	return observed
}
