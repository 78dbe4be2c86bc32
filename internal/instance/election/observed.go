package election

import (
	"fmt"
	"slices"
	"time"
)

// Durability is what a commit waits for.
type Durability int

// The durabilities. With Required, writes wait rather than be acknowledged by too few. With
// Preferred, they wait while enough members are there. With Asynchronous they wait for nobody, and
// only the clock keeps a former leader from writing beside the next.
const (
	Required Durability = iota
	Preferred
	Asynchronous
)

// The fixed durations of the protocol. The others follow from Config.After.
const (
	pingEvery = 500 * time.Millisecond
	// silent is after how long without an answer a member counts as silent, so that the leader
	// renews the Lease.
	silent = time.Second
	// lastTry is how long one more attempt to renew may take, before the server is killed.
	lastTry = time.Second
	// electing is how long an election may take before others stand.
	electing = 5 * time.Second
	// leaveAfter is after how long of silence a member leaves the set.
	leaveAfter = 30 * time.Second
	// degradeAfter is after how long without enough answers Preferred and Asynchronous wait for
	// nobody.
	degradeAfter = 5 * time.Second
	// handoverTime is how long the named successor stands alone.
	handoverTime = 2 * time.Second
	// stopTime is how long a clean stop for a handover may take.
	stopTime = 10 * time.Second
	// confirmTime is how long the successor may take to confirm the final position.
	confirmTime = 2 * time.Second
	// answerTime is how long the answers to an Ask are waited for; a member that is ahead of us
	// gets as long again to go first.
	answerTime = 500 * time.Millisecond
	// readEvery is how often the record is read while there is a reason to.
	readEvery = time.Second
)

// Config is what the user decided.
type Config struct {
	// Instances is how many there shall be, from 1 to 5.
	Instances  int
	Durability Durability
	// After is how long a leader must be silent before another stands: 5 s to 5 min.
	After time.Duration
	// AcceptLoss is the term of a record whose rules need not be covered, by the word of a user who
	// accepts that acknowledged writes may be lost. 0 is none.
	AcceptLoss uint64
	Positions  Positions
}

// hold is how long a leader may write without having heard from the API server or its members.
func (c Config) hold() time.Duration { return c.After - 3*time.Second }

// renewEvery is how often the Lease is renewed while a member is silent.
func (c Config) renewEvery() time.Duration { return min(3*time.Second, c.hold()/2) }

// sick is how long a heartbeat may wait for the local disk.
func (c Config) sick() time.Duration { return c.After - 500*time.Millisecond }

// acks is how many members a commit waits for under a set of that size.
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

// ServerState is what the server process does.
type ServerState int

// The states of a server.
const (
	// NoData means that there is nothing on the volume that could be started.
	NoData ServerState = iota
	Stopped
	Standby
	// Promoting is a server that was told to lead; it may be writable already.
	Promoting
	Leading
	// StoppingCleanly is a leader that accepts no more writes, and sends what it has.
	StoppingCleanly
)

// Source is from whom, and for which term, a standby receives. The zero value is nobody.
type Source struct {
	Leader Member
	Term   uint64
}

// Server is what is known about the own server.
type Server struct {
	State ServerState
	// Busy is true while an action on the server is under way. Only Kill goes between.
	Busy bool
	// Source is from whom it receives.
	Source Source
	// Position is the end of what is flushed. It is final if Final is true: nothing is received, no
	// receiver or fetching command is left, and nothing waits to be replayed.
	Position Position
	Final    bool
	// Whole is the end of the last whole record of what is flushed: it is behind Position if the log
	// ends in a part of one, which nobody was told to have. "" is Position.
	Whole Position
	// LacksLog is true if what it needs next is gone from its source's log, so that it can only be
	// made anew.
	LacksLog bool
	// Damaged is true if it does not run, and its data were found damaged again and again: they can
	// only be made anew.
	Damaged bool
	// Clean is true if it was a leader and was stopped with all that it had written sent and
	// flushed.
	Clean bool
	// History and Timeline are those of a leading server.
	History  History
	Timeline uint32
	// Rule is what it was last told to wait for. Settled is true when all that count
	// acknowledgements use it, and enough of its set have flushed all that was written before.
	Rule    Rule
	Settled bool
	// Committed is true once a heartbeat of this life as leader was committed under Rule.
	Committed bool
	// UnflushedSince is since when the oldest heartbeat waits for the local disk; 0 if none does.
	UnflushedSince time.Duration
}

// whole is the end of all that means anything.
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

// View is what is known of the record.
type View struct {
	// Version is that of the last read or write; "" with Known means that there is no Lease.
	Version string
	Record  Record
	// Known is true after the first read. Stale is true if a write had no answer or a conflict, or
	// the Lease was seen to change: then it is read again before anything is decided.
	Known, Stale bool
	// Damaged is true if the annotation could not be decoded.
	Damaged bool
	// Since is when this version was first met, and ReadAt when the last read was sent that found
	// it.
	Since, ReadAt time.Duration
	// TriedAt is when the last read was sent. Failed is true if the last read or write had no answer.
	TriedAt time.Duration
	Failed  bool
	// InFlight is true while a read or write has no answer yet.
	InFlight bool
}

// Held is the term that this life of the program has written, or tried to write, as holder. A
// record that names us and does not fit was written by an earlier life.
type Held struct {
	Term uint64
	// FromSeq is the Seq of the first record that this life tried to write in the term.
	FromSeq uint64
	// Claimed is when the claim was sent, and RenewedAt when the last write was sent that
	// succeeded; 0 if none did.
	Claimed, RenewedAt time.Duration
	// Record is the last of the term that is known to have been written.
	Record Record
	// Promoted is true once the server was told to lead.
	Promoted bool
	// Releasing is true once the release of the term was sent: whatever became of it, somebody else
	// may hold the next.
	Releasing bool
	// Forced is true if the claim was made by a user's AcceptLoss.
	Forced bool
	// Vacant is true if nobody led by the record that the claim replaced.
	Vacant bool
	// Cause is why the leader before leads no more, and Heard when it was last heard; 0 if it never
	// was. Gap is the time from then until the address of this term was published.
	Cause Cause
	Heard time.Duration
	Gap   time.Duration
	// RequestedAt is when the promises were last asked for.
	RequestedAt time.Duration
	// Published is true once the address of this term is in the EndpointSlice, PublishAt when that
	// was last tried.
	Published bool
	PublishAt time.Duration
	// Resigned is true once the others were told that we lead no more in this term.
	Resigned bool
	// StopFor is the successor for whom the server is stopped, or was, StopAt since when.
	StopFor Member
	StopAt  time.Duration
}

// Intent is what this instance was asked to do.
type Intent struct {
	// Stop is true after SIGTERM: the leader hands over, and the program ends.
	Stop bool
	// SwitchTo is true if the leader shall hand over and stay as a standby; Preferred is the name
	// of the successor, or "". If Only is true, nobody else may get it, unless the leader has to stop.
	SwitchTo  bool
	Preferred string
	Only      bool
}

// Observed is all that an instance knows when it decides. Only the methods in inputs.go change it.
type Observed struct {
	// Now is the time since the program started, from a clock that no one sets and that goes on
	// while the process is stopped.
	Now    time.Duration
	Config Config
	Me     Member
	PodUID string
	// Address is our IP address, and those of the others are in Peers.
	Address string
	// System is the id of the database system on the volume; "" without data.
	System string
	// Local is what shall be on the volume, and Saved what is.
	// Saving is true while a Save is under way. SaveFailedAt is when the last one failed; 0 if it
	// did not.
	Local, Saved Local
	Saving       bool
	SaveFailedAt time.Duration
	Server       Server
	Record       View
	Held         Held
	Intent       Intent
	Peers        []Peer
	// PingedAt is when the last pings were sent.
	PingedAt time.Duration
	// AskedAt is when the last Ask was sent, for the term Asked. 0 is never.
	AskedAt time.Duration
	Asked   uint64
	// StandsAt is when we may stand again after our own server failed as a leader: others, if there
	// are any, go first. 0 is at any time.
	StandsAt time.Duration
	// Jitter is a random duration, drawn anew for each Ask.
	Jitter time.Duration
}

// peer returns the peer of that name, nil if there is none.
func (o *Observed) peer(name string) *Peer {
	for i := range o.Peers {
		if o.Peers[i].Name == name {
			return &o.Peers[i]
		}
	}
	return nil
}

// holds reports whether this life of the program holds the record, and has promised nobody else
// since.
func (o *Observed) holds() bool {
	held := &o.Held
	return held.Term != 0 && o.Local.Promised.Term <= held.Term && o.Local.Seen.Term <= held.Term && o.recordIsMine()
}

// recordIsMine reports whether the record is one that this life wrote as holder. A record that is
// not believed leaves a leader what it holds: it is written anew.
func (o *Observed) recordIsMine() bool {
	if !o.believed() {
		return o.Held.RenewedAt != 0 && o.Held.Promoted && !o.Held.Releasing && o.mayWrite(o.Config.hold()+lastTry)
	}
	record := &o.Record.Record
	return record.Holder == Holder{Member: o.Me, PodUID: o.PodUID} &&
		record.Term == o.Held.Term && record.Seq >= o.Held.FromSeq
}

// believed reports whether the record may be decided on: it is known, could be decoded, belongs to
// our data, and is not older than what we have seen.
func (o *Observed) believed() bool {
	view := &o.Record
	return view.Known && !view.Damaged && view.Version != "" && !view.Record.olderThan(o.Local.Seen) &&
		(view.Record.System == "" || o.System == "" || view.Record.System == o.System) &&
		(view.Record.System != "" || o.System == "" || view.Record.Term == 0 && o.Local.Seen.Term == 0)
}

// Doubt says why the record is not believed, and what to do; "" if it is, or was not read yet, or
// if a leader is heard, which knows better.
func (o *Observed) Doubt() string {
	view := &o.Record
	record := &view.Record
	switch {
	case !view.Known || o.believed() || o.livingLeader() != nil:
		return ""
	case view.Damaged:
		return "the record in the Lease can't be read, because it was edited; the instances write a new one when all of them run"
	case view.Version == "":
		return "there is no Lease; the instances create a new one when all of them run"
	case o.Foreign() != "":
		return "the volume " + o.Foreign() + "; nothing was changed: give the instance its own volume, or an empty one"
	case record.olderThan(o.Local.Seen):
		return fmt.Sprintf("the record in the Lease was set back: it has term %d, but term %d was seen; "+
			"the instances write a new one when all of them run", record.Term, o.Local.Seen.Term)
	}
	return "the Lease is of a database that was never initialised, but the volume has data: nothing was changed"
}

// Foreign says of which database system the data are, and of which they would have to be; "" if the
// Lease names theirs or none, or a leader is heard.
func (o *Observed) Foreign() string {
	record := &o.Record.Record
	if !o.Record.Known || o.Record.Damaged || o.System == "" || record.System == "" || record.System == o.System || o.livingLeader() != nil {
		return ""
	}
	return fmt.Sprintf("has the data of another database (system %.40s, but the Lease has %.40s)",
		o.System, record.System)
}

// leads reports whether our server leads, or did in this life and still holds the record for it.
func (o *Observed) leads() bool { return o.Held.Promoted && o.holds() }

// answered returns the members that have answered a ping of this term that was sent within the
// time.
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

// mayWrite reports whether a leader holds: it renewed lately, or enough of its members answered
// lately, or one of its rules waits for nobody.
func (o *Observed) mayWrite(within time.Duration) bool {
	if o.Held.RenewedAt != 0 && o.Now-o.Held.RenewedAt < within {
		return true
	}
	return o.heldByRule(within)
}

// heldByRule reports whether one of our rules keeps everybody else from leading: it waits for
// nobody, or enough of its members have answered within the time.
func (o *Observed) heldByRule(within time.Duration) bool {
	heard := o.answered(within)
	return slices.ContainsFunc(o.rules(), func(rule Rule) bool {
		return rule.Leader == o.Me && (rule.alone() || rule.Acks > 0 && rule.counts(heard) >= rule.Acks)
	})
}

// rules returns the rules that a leader works under.
func (o *Observed) rules() []Rule { return o.Held.Record.Rules }

// leaderAlive reports whether a leader must be assumed to live: one was heard within Config.After,
// or this program has not listened that long. A record by which nobody leads says that none does.
func (o *Observed) leaderAlive(vacant bool) bool {
	if vacant {
		return false
	}
	if o.Now < o.Config.After {
		return true
	}
	return o.livingLeader() != nil
}

// isVacant reports whether nobody leads by the record: it is released, or its holder has resigned,
// and could not say so there.
func (o *Observed) isVacant() bool {
	record := &o.Record.Record
	return o.believed() && (record.Released() || o.hasResigned(record.Holder.Member, record.Term))
}

// hasResigned reports whether the member has said that it leads no more in the term.
func (o *Observed) hasResigned(leader Member, term uint64) bool {
	peer := o.peer(leader.Name)
	return peer != nil && peer.Ping.Resigned && peer.Ping.Leader == leader && peer.Ping.Term == term
}

// isKnownGone reports whether the leader of the term has resigned, or its program is known to have
// ended: then a record that it wrote a moment ago need not rest.
func (o *Observed) isKnownGone(leader Member, term uint64) bool {
	peer := o.peer(leader.Name)
	return peer != nil && peer.Gone && peer.Ping.Leader == leader && peer.Ping.Term == term
}

// livingLeader returns the peer that was last heard to lead in a term that we may follow, nil if
// none was heard within Config.After.
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

// Follows returns the leader that this member follows, or would if it could; false if none was
// heard lately.
func (o *Observed) Follows() (Source, bool) {
	leader := o.livingLeader()
	if leader == nil {
		return Source{}, false
	}
	return Source{Leader: leader.Ping.Leader, Term: leader.Ping.Term}, true
}

// Quiet returns the leader that this member follows, and for how long no ping of it came. It is ""
// if this member follows nobody, or knows that the leader has gone.
func (o *Observed) Quiet() (leader string, silence time.Duration) {
	found := o.livingLeader()
	if found == nil {
		return "", 0
	}
	return found.Name, o.Now - found.PingAt
}

// Leads reports whether this instance leads: its server is to be writable.
func (o *Observed) Leads() bool { return o.leads() }

// mayFollow reports whether the promise that we gave last allows to follow who sends the ping.
func (o *Observed) mayFollow(ping *Ping) bool {
	promised := o.Local.Promised
	return ping.Term > promised.Term || ping.Term == promised.Term && ping.Leader == promised.Candidate
}
