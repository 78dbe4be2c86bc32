package election

import (
	"fmt"
	"slices"
	"time"
)

// Durability is what a commit waits for.
type Durability int

// The durabilities. With Required, commits always wait for enough other members, however long that
// takes. With Preferred, they wait while enough members are available. With Asynchronous, they wait
// for no other member, and only time limits keep a former leader from accepting writes at the same
// time as the next one.
const (
	Required Durability = iota
	Preferred
	Asynchronous
)

// The fixed durations of the protocol. All others follow from Config.After.
const (
	// pingEvery is how often a leader sends pings.
	pingEvery = 500 * time.Millisecond
	// silentAfter is the time without an answer after which a member counts as silent, so that the
	// leader renews the Lease.
	silentAfter = time.Second
	// lastTryTime is how long one more attempt to renew may take before the server is killed.
	lastTryTime = time.Second
	// electionTime is how long an election may take before other candidates stand. A candidate takes
	// twice as long after each election that it could not win, until a leader is there, but never
	// longer than longestElection: where the members get little CPU, 5 s may never be enough for their
	// promises.
	electionTime    = 5 * time.Second
	longestElection = 20 * time.Second
	// leaveAfter is the silence after which a member is removed from the set of the rule.
	leaveAfter = 30 * time.Second
	// degradeAfter is for how long too many members must have been silent (see silence) until, with
	// Preferred or Asynchronous, the rule names no other member.
	degradeAfter = 5 * time.Second
	// handoverTime is how long after a handover the named successor is the only candidate.
	handoverTime = 2 * time.Second
	// stopTime is how long a clean stop for a handover may take.
	stopTime = 10 * time.Second
	// confirmTime is how long the successor may take to confirm that it has everything up to the final
	// position.
	confirmTime = 2 * time.Second
	// resignTime is how long a leader that was asked to end, and has resigned, still tries to release
	// the record: several attempts. If the database is being deleted, the pod's token is already
	// invalid, and no attempt succeeds.
	resignTime = 5 * time.Second
	// answerTime is how long a candidate waits for the answers to an Ask. If a member is ahead of the
	// candidate, it waits for as long again, so that the member can stand first.
	answerTime = 500 * time.Millisecond
	// readEvery is how often the record is read while there is a reason to, and how often failed or
	// unanswered requests are repeated.
	readEvery = time.Second
	// republishEvery is how often a leader checks that the EndpointSlice still has its address: it may
	// have been deleted, edited, or restored from a backup.
	republishEvery = time.Minute
)

// Config are the settings of the election.
type Config struct {
	// Instances is the desired number of instances, from 1 to 5.
	Instances  int
	Durability Durability
	// After is how long a leader must be silent before an election: 5 s to 5 min
	// (spec.failover.after).
	After time.Duration
	// AcceptLoss is the term of a record whose rules need not be covered by a candidate, because the
	// user accepts that acknowledged writes may be lost. 0 means none.
	AcceptLoss uint64
	// Ephemeral is true if the data of an instance end with its server. Then no election waits for a
	// member that has lost its data, and if no instance has data, one of them begins with empty data.
	Ephemeral bool
	// Stale is true if the settings are those of an earlier program, because the API server did not
	// answer: there may be other instances by now.
	Stale     bool
	Positions Positions
}

// writeTime returns how long a leader may accept writes after the last answer of the API server or
// of enough members.
func (c Config) writeTime() time.Duration { return c.After - 3*time.Second }

// renewEvery returns how often the Lease is renewed while a member is silent.
func (c Config) renewEvery() time.Duration { return min(3*time.Second, c.writeTime()/2) }

// sickAfter returns how long a heartbeat may wait for the local disk before the server counts as
// sick.
func (c Config) sickAfter() time.Duration { return c.After - 500*time.Millisecond }

// acks returns how many other members a commit waits for under a rule with a set of that size.
func (c Config) acks(set int) int {
	if c.Instances <= 1 {
		return 0
	}
	wanted := max(1, c.Instances/2)
	if c.Durability == Required {
		return wanted
	}
	return min(wanted, set)
}

// ServerState is the state of the server's process and data.
type ServerState int

// The states of a server.
const (
	// NoData means that the volume has no data that could be started.
	NoData ServerState = iota
	Stopped
	Standby
	// Promoting is a server whose promotion has begun; it may be writable already.
	Promoting
	Leading
	// StoppingCleanly is a leader that accepts no more writes, and sends all that it has written.
	StoppingCleanly
)

// Source is the leader from which a standby receives, and its term. The zero value means none.
type Source struct {
	Leader Member
	Term   uint64
}

// Server is what is known about this instance's server.
type Server struct {
	State ServerState
	// Busy is true while an operation of the server is in progress. Only Kill can interrupt it.
	Busy bool
	// Source is the leader from which it receives.
	Source Source
	// Position is the end of what is flushed. It is final if Final is true: nothing receives any more,
	// and everything that was received is replayed.
	Position Position
	Final    bool
	// Whole is the end of the last complete WAL record that is flushed. It is before Position if
	// the WAL ends in an incomplete record, which was never acknowledged. "" means Position.
	Whole Position
	// LacksLog is true if its source has removed the WAL that it needs next, so that the data can
	// only be rebuilt.
	LacksLog bool
	// Unstored is true while it runs and does not store yet what it receives or writes: if it ended,
	// its data would be those of an earlier copy. If it does not run, they are, or there was none.
	Unstored bool
	// Damaged is true if it does not run, and its data were repeatedly found damaged: they can only
	// be rebuilt.
	Damaged bool
	// Clean is true if it was a leader that has shut down after it had sent and flushed all that it
	// had written.
	Clean bool
	// History and Timeline are those of a leading server.
	History  History
	Timeline uint32
	// Rule is the last rule that was set. Settled is true when everything that counts
	// acknowledgements uses it, and enough of its set have flushed all that was written before.
	Rule    Rule
	Settled bool
	// Committed is true once a heartbeat of the current leadership was committed under Rule.
	Committed bool
	// UnflushedSince is since when the oldest heartbeat has been waiting for the local disk; 0 if none
	// is.
	UnflushedSince time.Duration
	// ReceiversAt is when the server last said which members receive from it; 0 if it has not since it
	// became the leader.
	ReceiversAt time.Duration
}

// whole returns the end of the last complete record.
func (s Server) whole() Position {
	if s.Whole != "" {
		return s.Whole
	}
	return s.Position
}

// writable reports whether the server may accept writes.
func (s Server) writable() bool {
	return s.State == Promoting || s.State == Leading || s.State == StoppingCleanly
}

// View is what is known of the record in the Lease.
type View struct {
	// Version is the resourceVersion of the Lease, as last read, written or seen by a watch; "" with
	// Known means that there is no Lease.
	Version string
	Record  Record
	// Known is true after the first read or write. Stale is true if a write had a conflict or no
	// answer, or if the Lease has changed: then the record is read again before any decision.
	Known, Stale bool
	// Damaged is true if the annotation could not be decoded.
	Damaged bool
	// Since is when this version was first seen, and ReadAt is when the last read or write that had it
	// as its result was sent.
	Since, ReadAt time.Duration
	// HeardAt is when the answer to the last read arrived.
	HeardAt time.Duration
	// TriedAt is when the last read was sent. Failed is true if the last read or write had no answer.
	TriedAt time.Duration
	Failed  bool
	// InFlight is true while a read or write has no answer yet.
	InFlight bool
}

// isOld reports whether it is time for another read: the last one was neither sent nor answered
// recently. An answer that took long is as good as its version, which each write names.
func (v *View) isOld(now time.Duration) bool {
	return now-v.TriedAt >= readEvery && now-v.HeardAt >= readEvery
}

// Held is the term in which this process has written the record as its holder, or has tried to; the
// zero value means none. A record that names us as the holder but does not match Held was written
// by an earlier process.
type Held struct {
	Term uint64
	// FromSeq is the Seq of the first record that this process tried to write in the term.
	FromSeq uint64
	// Claimed is when the claim was sent, and RenewedAt is when the last successful write was sent; 0
	// if none has succeeded.
	Claimed, RenewedAt time.Duration
	// Record is the last record of the term that is known to have been written.
	Record Record
	// Promoted is true once the promotion of the server was requested.
	Promoted bool
	// Releasing is true once the release of the term was sent. Whatever its result, another member
	// may hold the next term.
	Releasing bool
	// Forced is true if only Config.AcceptLoss allowed the claim.
	Forced bool
	// Vacant is true if the record that the claim replaced had no leader.
	Vacant bool
	// Cause is why the previous leader no longer leads, and Heard is when its last ping arrived; 0 if
	// none did. Gap is the time from that ping until our address was published.
	Cause Cause
	Heard time.Duration
	Gap   time.Duration
	// RequestedAt is when the promises were last requested.
	RequestedAt time.Duration
	// Published is true once the EndpointSlice has our address, in this term. PublishAt is when we
	// last tried to write or check that; 0 is never. Republish is true if the last check failed, or
	// the Lease was not what was written last, so the EndpointSlice may not be either.
	Published bool
	PublishAt time.Duration
	Republish bool
	// Resigned is true once our pings have said that we no longer lead in this term, and ResignedAt
	// is when they said so first.
	Resigned   bool
	ResignedAt time.Duration
	// StopFor is the successor for which the server is being stopped, or was; StopAt is when that
	// began; 0 if it did not.
	StopFor Member
	StopAt  time.Duration
}

// Intent is what this instance was asked to do.
type Intent struct {
	// Stop is true after SIGTERM: the leader hands over, and the program ends.
	Stop bool
	// SwitchTo is true if the leader should hand over and go on as a standby. Preferred is the pod of
	// the preferred successor, or "". If Only is true, no other member may take over, unless the
	// leader has to stop.
	SwitchTo  bool
	Preferred string
	Only      bool
}

// Observed is all that an instance knows when it decides. Only the methods in inputs.go change it,
// and the loop sets Now, Me, System and Intent.
type Observed struct {
	// Now is the time since the program started, from a monotonic clock that goes on while the
	// process is stopped.
	Now    time.Duration
	Config Config
	Me     Member
	PodUID string
	// Address is our IP address; those of the others are in Peers.
	Address string
	// System is the ID of the database system on the volume; "" without data, or if it could not be
	// read.
	System string
	// HasRemains is true if this instance has no data that can be used, but its volume had something
	// of former data when the program began: others may not go on as if it had none.
	HasRemains bool
	// Begun is the System that this process has initialised; "" if it has not.
	Begun string
	// FirstTerm is the term of the first record that was read. Former are earlier members of our name,
	// of this process or of former pods. Succeeded is true once a record was read by which a later pod
	// of our name leads, follows, or has begun anew. BegunSeq is the Seq of the last record that this
	// process has written, or tried to write, to begin anew.
	FirstTerm uint64
	Former    []Member
	Succeeded bool
	BegunSeq  uint64
	// Local is what should be on the volume, and Saved is what is there. Saving is true while a Save
	// is in progress. SaveFailedAt is when the last Save failed; 0 if it succeeded.
	Local, Saved Local
	Saving       bool
	SaveFailedAt time.Duration
	Server       Server
	// WatchedSince is since when our server has said, without a gap of degradeAfter or more, which
	// members receive from it. What they received in a gap is unknown.
	WatchedSince time.Duration
	Record       View
	Held         Held
	Intent       Intent
	Peers        []Peer
	// Others are the names of the other instances that should exist; empty if the settings name none.
	Others []string
	// AloneUntil is when this instance heard that others should exist beside it, in whose absence it
	// needed no renewal (mustHear); 0 if it has not.
	AloneUntil time.Duration
	// PingedAt is when the last pings were sent.
	PingedAt time.Duration
	// AskedAt is when the last Ask was sent, for the term Asked; both are 0 before the first one.
	AskedAt time.Duration
	Asked   uint64
	// StandsAt is when we may stand again after our own server failed as a leader, so that other
	// candidates go first; 0 is at any time.
	StandsAt time.Duration
	// CloneAt is when the data of FailedClone may be cloned again, after an attempt that failed.
	CloneAt     time.Duration
	FailedClone Source
	// Jitter is a random duration, new for each Ask.
	Jitter time.Duration
	// Unmet is how many elections in a row have ended in which we were the candidate and got too few
	// promises.
	Unmet int
}

// peer returns the peer with that name; nil if there is none.
func (o *Observed) peer(name string) *Peer {
	for i := range o.Peers {
		if o.Peers[i].Name == name {
			return &o.Peers[i]
		}
	}
	return nil
}

// holds reports whether this process holds the record, and has seen no higher term and made no
// promise in one.
func (o *Observed) holds() bool {
	held := &o.Held
	return held.Term != 0 && o.Local.Promised.Term <= held.Term && o.Local.Seen.Term <= held.Term && o.recordIsMine()
}

// recordIsMine reports whether this process wrote the record as its holder. A record that is not
// believed does not end a leadership at once: the leader writes it again.
func (o *Observed) recordIsMine() bool {
	if o.isReplaced() {
		return false
	}
	if !o.believed() {
		return o.Held.RenewedAt != 0 && o.Held.Promoted && !o.Held.Releasing && o.mayWrite(o.Config.writeTime()+lastTryTime)
	}
	record := &o.Record.Record
	return record.Holder == Holder{Member: o.Me, PodUID: o.PodUID} &&
		record.Term == o.Held.Term && record.Seq >= o.Held.FromSeq
}

// believed reports whether decisions may trust the record: it is known, could be decoded, belongs
// to the same database system as our data, and is not older than what we have seen.
func (o *Observed) believed() bool {
	view := &o.Record
	return view.Known && !view.Damaged && view.Version != "" && !view.Record.olderThan(o.Local.Seen) &&
		(view.Record.System == "" || o.System == "" || view.Record.System == o.System) &&
		(view.Record.System != "" || o.System == "" || view.Record.Term == 0 && o.Local.Seen.Term == 0 || o.beginsAnew())
}

// Doubt returns why the record is not believed, and the remedy; "" if it is believed, if it was not
// read yet, or if pings of a leader arrive, which repairs the record itself.
func (o *Observed) Doubt() string {
	view := &o.Record
	record := &view.Record
	switch {
	case !view.Known || o.believed() || o.livingLeader() != nil:
		return ""
	case view.Damaged:
		return "the record in the Lease can't be read: it is damaged or was edited; the instances write a new one when all of them run"
	case view.Version == "":
		return "there is no Lease; the instances create a new one when all of them run"
	case o.Foreign() != "":
		return "the volume " + o.Foreign() + "; nothing was changed: give the instance its own volume, or an empty one"
	case !o.Me.HasData() && record.Term == 0 && o.Local.Seen.Term > 0:
		return "the Lease is of a database that never had a primary, but there was one: this instance has no data, and does not " +
			"initialise the database; if no other instance has data that are needed, delete it and its volumes, and create it again"
	case record.olderThan(o.Local.Seen):
		return fmt.Sprintf("the record in the Lease is older than one that was seen before: it has term %d (seq %d), but term %d "+
			"(seq %d) was seen; the instances write a new one when all of them run", record.Term, record.Seq, o.Local.Seen.Term, o.Local.Seen.Seq)
	}
	return "the Lease is of a database that was never initialised, but the volume has data: nothing was changed"
}

// Foreign says to which database system the data belong, and to which the Lease does; "" if it is
// the same, if either is unknown, or if pings of a leader arrive.
func (o *Observed) Foreign() string {
	record := &o.Record.Record
	if !o.Record.Known || o.Record.Damaged || o.System == "" || record.System == "" || record.System == o.System || o.livingLeader() != nil {
		return ""
	}
	return fmt.Sprintf("has the data of another database (system %.40s, but the Lease has %.40s)",
		o.System, record.System)
}

// leads reports whether this process is the leader: it has promoted its server, and still holds the
// record. The server may be down.
func (o *Observed) leads() bool { return o.Held.Promoted && o.holds() }

// answered returns the members that have answered a ping of our term which was sent within the last
// duration within, and follow us.
func (o *Observed) answered(within time.Duration) []Member {
	var members []Member
	for i := range o.Peers {
		peer := &o.Peers[i]
		if peer.PongSent != 0 && o.Now-peer.PongSent < within && peer.Pong.Promised == (Promised{Term: o.Held.Term, Candidate: o.Me}) {
			members = append(members, peer.Pong.Member)
		}
	}
	return members
}

// answeredBefore returns the members that have answered such a ping, and have lost their data
// since. They count for the leader, because they never come back and promise nothing to another
// candidate. So a leader whose replica has lost its data has time to renew the Lease.
func (o *Observed) answeredBefore(within time.Duration) []Member {
	var members []Member
	for i := range o.Peers {
		peer := &o.Peers[i]
		if peer.BeforeSent != 0 && o.Now-peer.BeforeSent < within && peer.Before.Promised == (Promised{Term: o.Held.Term, Candidate: o.Me}) {
			members = append(members, peer.Before.Member)
		}
	}
	return members
}

// mayWrite reports whether a leader may still accept writes: within the given time it has renewed
// the Lease or enough members have answered that can receive what it writes, or one of its rules
// names no other member. One that does not reach the API server can't take members out of its rule
// whose data have diverged: with these alone it would commit nothing, and keep others from leading.
// One that was the only instance until then has that time to renew: the others begin nothing before
// the record has been unchanged for longer.
func (o *Observed) mayWrite(within time.Duration) bool {
	if o.Held.RenewedAt != 0 && o.Now-o.Held.RenewedAt < within {
		return true
	}
	wasAlone := o.AloneUntil != 0 && o.Now-o.AloneUntil < within
	return o.heldByRule(within, o.canReceive) || wasAlone && slices.ContainsFunc(o.rules(), func(rule Rule) bool {
		return rule.Leader == o.Me && rule.alone()
	})
}

// heldByRule reports whether one of our rules prevents another leader: it names no other member, or
// enough of its members have answered within the given time. A rule that names no other member is
// not enough if other instances may begin anew without our data, unless one of them has answered
// (mustHear). Only members for which counts is true are counted.
func (o *Observed) heldByRule(within time.Duration, counts func(Member) bool) bool {
	heard := append(o.answered(within), o.answeredBefore(within)...)
	heard = slices.DeleteFunc(heard, func(member Member) bool { return !counts(member) })
	holdsAlone := !o.mustHear() || len(heard) > 0
	return slices.ContainsFunc(o.rules(), func(rule Rule) bool {
		return rule.Leader == o.Me && (rule.alone() && holdsAlone || rule.Acks > 0 && rule.counts(heard) >= rule.Acks)
	})
}

// canReceive reports whether a member can receive from us: its data have not diverged.
func (o *Observed) canReceive(member Member) bool { return !o.isDiverged(member) }

// rules returns the rules under which a leader acknowledges writes.
func (o *Observed) rules() []Rule { return o.Held.Record.Rules }

// leaderAlive reports whether a leader must be assumed to be alive: a ping of one arrived within
// Config.After, or this program has not run that long. With vacant, the record has no leader: then
// none is.
func (o *Observed) leaderAlive(vacant bool) bool {
	if vacant {
		return false
	}
	if o.Now < o.Config.After {
		return true
	}
	return o.livingLeader() != nil
}

// isVacant reports whether the record has no leader: it is released, or its holder has resigned
// without being able to release it.
func (o *Observed) isVacant() bool {
	record := &o.Record.Record
	return o.believed() && (record.Released() || o.hasResigned(record.Holder.Member, record.Term))
}

// hasResigned reports whether the member has resigned in the term.
func (o *Observed) hasResigned(leader Member, term uint64) bool {
	peer := o.peer(leader.Name)
	return peer != nil && peer.Ping.Resigned && peer.Ping.Leader == leader && peer.Ping.Term == term
}

// isKnownGone reports whether the leader of the term is known to have ended or resigned: then a
// candidate need not wait until the record is old enough.
func (o *Observed) isKnownGone(leader Member, term uint64) bool {
	peer := o.peer(leader.Name)
	return peer != nil && peer.Gone && peer.Ping.Leader == leader && peer.Ping.Term == term
}

// livingLeader returns the leader of the highest term that we may follow, whose last ping arrived
// within Config.After, and that is not known to have ended or resigned; nil if there is none.
func (o *Observed) livingLeader() *Peer {
	var found *Peer
	for i := range o.Peers {
		peer := &o.Peers[i]
		if peer.PingAt == 0 || !o.mayFollow(&peer.Ping) || o.Now-peer.PingAt >= o.Config.After || peer.Gone {
			continue
		}
		if found == nil || peer.Ping.Term > found.Ping.Term {
			found = peer
		}
	}
	return found
}

// Follows returns the leader that this member follows, or would follow if its data allowed it;
// false if there is none: see livingLeader.
func (o *Observed) Follows() (Source, bool) {
	leader := o.livingLeader()
	if leader == nil {
		return Source{}, false
	}
	return Source{Leader: leader.Ping.Leader, Term: leader.Ping.Term}, true
}

// Quiet returns the leader that this member follows, and the time since its last ping. It is "" if
// this member follows no leader, or knows that the leader has ended.
func (o *Observed) Quiet() (leader string, silence time.Duration) {
	found := o.livingLeader()
	if found == nil {
		return "", 0
	}
	return found.Name, o.Now - found.PingAt
}

// Leads reports whether this instance is the leader, so that its server should accept writes.
func (o *Observed) Leads() bool { return o.leads() }

// mayFollow reports whether our last promise allows us to follow the sender of the ping.
func (o *Observed) mayFollow(ping *Ping) bool {
	promised := o.Local.Promised
	return ping.Term > promised.Term || ping.Term == promised.Term && ping.Leader == promised.Candidate
}
