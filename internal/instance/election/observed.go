package election

import (
	"fmt"
	"slices"
	"time"
)

// Durability is what a commit waits for.
type Durability int

// The durabilities. With Required, writes wait rather than be acknowledged by too few members. With
// Preferred, they wait while enough members are available. With Asynchronous, they wait for no
// other member, and only the clock keeps a former leader from writing beside the next one.
const (
	Required Durability = iota
	Preferred
	Asynchronous
)

// The fixed durations of the protocol. The others follow from Config.After.
const (
	pingEvery = 500 * time.Millisecond
	// silent is the time without an answer after which a member counts as silent, so that the
	// leader renews the Lease.
	silent = time.Second
	// lastTry is how long one more attempt to renew may take, before the server is killed.
	lastTry = time.Second
	// electing is how long an election may take before other candidates start.
	electing = 5 * time.Second
	// leaveAfter is the silence after which a member leaves the set.
	leaveAfter = 30 * time.Second
	// degradeAfter is the time without enough answers after which Preferred and Asynchronous wait
	// for no other member.
	degradeAfter = 5 * time.Second
	// handoverTime is how long the named successor is the only candidate.
	handoverTime = 2 * time.Second
	// stopTime is how long a clean stop for a handover may take.
	stopTime = 10 * time.Second
	// confirmTime is how long the successor may take to confirm the final position.
	confirmTime = 2 * time.Second
	// resignTime is how long a leader that was asked to end, and has resigned, still tries to release
	// the record: several attempts. Of a database that is deleted the token goes first, and no attempt
	// succeeds.
	resignTime = 5 * time.Second
	// answerTime is how long a candidate waits for the answers to an Ask; a member that is ahead of
	// us gets the same time to go first.
	answerTime = 500 * time.Millisecond
	// readEvery is how often the record is read while there is a reason to.
	readEvery = time.Second
)

// Config is what the user has set.
type Config struct {
	// Instances is the desired number, from 1 to 5.
	Instances  int
	Durability Durability
	// After is how long a leader must be silent before an election: 5 s to 5 min.
	After time.Duration
	// AcceptLoss is the term of a record whose rules need not be covered, because the user accepts
	// that acknowledged writes may be lost. 0 is none.
	AcceptLoss uint64
	// Ephemeral is true if the data of an instance end with its server. Then those of members that
	// have none any more are not waited for, and if no instance has data, one of them makes new ones.
	Ephemeral bool
	Positions Positions
}

// hold is how long a leader may accept writes without an answer of the API server or its members.
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
	// Promoting is a server whose promotion has begun; it may be writable already.
	Promoting
	Leading
	// StoppingCleanly is a leader that accepts no more writes, and sends what it has.
	StoppingCleanly
)

// Source is the member that a standby receives from, and the term. The zero value is none.
type Source struct {
	Leader Member
	Term   uint64
}

// Server is what is known about this instance's server.
type Server struct {
	State ServerState
	// Busy is true while an operation of the server is in progress. Only Kill can interrupt it.
	Busy bool
	// Source is the member that it receives from.
	Source Source
	// Position is the end of what is flushed. It is final if Final is true: no receiver or
	// restore_command is left, and nothing waits to be replayed.
	Position Position
	Final    bool
	// Whole is the end of the last complete WAL record that is flushed. It is before Position if
	// the WAL ends in an incomplete record, which was never acknowledged. "" means Position.
	Whole Position
	// LacksLog is true if its source has removed the WAL that it needs next, so that the data can
	// only be rebuilt.
	LacksLog bool
	// Damaged is true if it does not run, and its data were repeatedly found damaged: they can only
	// be rebuilt.
	Damaged bool
	// Clean is true if it was a leader and shut down after all that it had written was sent and
	// flushed.
	Clean bool
	// History and Timeline are those of a leading server.
	History  History
	Timeline uint32
	// Rule is the last rule that was set. Settled is true when everything that counts
	// acknowledgements uses it, and enough of its set have flushed all that was written before.
	Rule    Rule
	Settled bool
	// Committed is true when a heartbeat of the current leadership was committed under Rule.
	Committed bool
	// UnflushedSince is when the oldest heartbeat that waits for the local disk was written; 0 if
	// none waits.
	UnflushedSince time.Duration
	// ReceiversAt is when the server last said which members receive from it; 0 if it has not since
	// it leads.
	ReceiversAt time.Duration
}

// whole is the end of the last complete record.
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
	// the Lease was seen to change: then it is read again before any decision.
	Known, Stale bool
	// Damaged is true if the annotation could not be decoded.
	Damaged bool
	// Since is when this version was first seen, and ReadAt when the last read that found it was
	// sent.
	Since, ReadAt time.Duration
	// TriedAt is when the last read was sent. Failed is true if the last read or write had no answer.
	TriedAt time.Duration
	Failed  bool
	// InFlight is true while a read or write has no answer yet.
	InFlight bool
}

// Held is the term that this process has written, or tried to write, as holder. A record that names
// us and does not match was written by an earlier process.
type Held struct {
	Term uint64
	// FromSeq is the Seq of the first record that this process tried to write in the term.
	FromSeq uint64
	// Claimed is when the claim was sent, and RenewedAt when the last write was sent that
	// succeeded; 0 if none did.
	Claimed, RenewedAt time.Duration
	// Record is the last of the term that is known to have been written.
	Record Record
	// Promoted is true once the promotion of the server was requested.
	Promoted bool
	// Releasing is true once the release of the term was sent. Whatever its result, another member
	// may hold the next term.
	Releasing bool
	// Forced is true if the claim was made by a user's AcceptLoss.
	Forced bool
	// Vacant is true if the record that the claim replaced had no leader.
	Vacant bool
	// Cause is why the previous leader no longer leads, and Heard when its last ping arrived; 0 if
	// none did. Gap is the time from then until the address of this term was published.
	Cause Cause
	Heard time.Duration
	Gap   time.Duration
	// RequestedAt is when the promises were last requested.
	RequestedAt time.Duration
	// Published is true once the address of this term is in the EndpointSlice, PublishAt when that
	// was last tried.
	Published bool
	PublishAt time.Duration
	// Resigned is true once our pings have said that we no longer lead in this term, and ResignedAt
	// is when they said so first.
	Resigned   bool
	ResignedAt time.Duration
	// StopFor is the successor for which the server is, or was, stopped, and StopAt when that
	// began.
	StopFor Member
	StopAt  time.Duration
}

// Intent is what this instance was requested to do.
type Intent struct {
	// Stop is true after SIGTERM: the leader hands over, and the program ends.
	Stop bool
	// SwitchTo is true if the leader should hand over and stay as a standby. Preferred is the name
	// of the successor, or "". If Only is true, no other member may take over, unless the leader
	// has to stop.
	SwitchTo  bool
	Preferred string
	Only      bool
}

// Observed is all that an instance knows when it decides. Only the methods in inputs.go change it.
type Observed struct {
	// Now is the time since the program started, from a monotonic clock that goes on while the
	// process is stopped.
	Now    time.Duration
	Config Config
	Me     Member
	PodUID string
	// Address is our IP address, and those of the others are in Peers.
	Address string
	// System is the id of the database system on the volume; "" without data.
	System string
	// Begun is the System that this process has initialised; "" if it has not.
	Begun string
	// FirstTerm is the term of the first record that was read. Succeeded is true once one was read
	// that another pod of our name has written since, to lead or to begin anew. BegunSeq is the Seq
	// of the last record to begin anew that this process has written, or tried to.
	// Former are earlier members of our name, of this process or of pods before ours.
	FirstTerm uint64
	Former    []Member
	Succeeded bool
	BegunSeq  uint64
	// Local is what should be on the volume, and Saved what is. Saving is true while a Save is
	// under way. SaveFailedAt is when the last one failed; 0 if it did not.
	Local, Saved Local
	Saving       bool
	SaveFailedAt time.Duration
	Server       Server
	// WatchedSince is since when our server says, without a long gap, which members receive from it.
	// What they received in a gap is unknown.
	WatchedSince time.Duration
	Record       View
	Held         Held
	Intent       Intent
	Peers        []Peer
	// Others are the names of the other instances that should exist.
	Others []string
	// PingedAt is when the last pings were sent.
	PingedAt time.Duration
	// AskedAt is when the last Ask was sent, for the term Asked. 0 is never.
	AskedAt time.Duration
	Asked   uint64
	// StandsAt is when we may stand again after our own server failed as a leader: other candidates
	// go first. 0 is at any time.
	StandsAt time.Duration
	// Jitter is a random duration, new for each Ask.
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

// holds reports whether this process holds the record, and has made no promise since.
func (o *Observed) holds() bool {
	held := &o.Held
	return held.Term != 0 && o.Local.Promised.Term <= held.Term && o.Local.Seen.Term <= held.Term && o.recordIsMine()
}

// recordIsMine reports whether this process wrote the record as holder. A record that is not
// believed does not end a leadership: the leader writes it again.
func (o *Observed) recordIsMine() bool {
	if o.isReplaced() {
		return false
	}
	if !o.believed() {
		return o.Held.RenewedAt != 0 && o.Held.Promoted && !o.Held.Releasing && o.mayWrite(o.Config.hold()+lastTry)
	}
	record := &o.Record.Record
	return record.Holder == Holder{Member: o.Me, PodUID: o.PodUID} &&
		record.Term == o.Held.Term && record.Seq >= o.Held.FromSeq
}

// believed reports whether decisions may use the record: it is known, could be decoded, belongs to
// our data, and is not older than what we have seen.
func (o *Observed) believed() bool {
	view := &o.Record
	return view.Known && !view.Damaged && view.Version != "" && !view.Record.olderThan(o.Local.Seen) &&
		(view.Record.System == "" || o.System == "" || view.Record.System == o.System) &&
		(view.Record.System != "" || o.System == "" || view.Record.Term == 0 && o.Local.Seen.Term == 0 || o.beginsAnew())
}

// Doubt returns why the record is not believed, and the remedy; "" if it is believed, was not read
// yet, or if pings of a leader arrive, which knows better.
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

// leads reports whether our server leads, or did in this process, and still holds the record.
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

// answeredBefore returns the members that have answered such a ping and have lost their data since:
// they promise nothing to another candidate, because they never come back. That gives the leader of
// a replica which was emptied the time to renew.
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

// mayWrite reports whether a leader may still accept writes: it renewed recently, enough of its
// members answered recently, or one of its rules waits for no other member.
func (o *Observed) mayWrite(within time.Duration) bool {
	if o.Held.RenewedAt != 0 && o.Now-o.Held.RenewedAt < within {
		return true
	}
	return o.heldByRule(within)
}

// heldByRule reports whether one of our rules prevents another leader: it names no other member, or
// enough of its members have answered within the time. A rule that names no other member is not
// enough if new data may replace ours (mustHear).
func (o *Observed) heldByRule(within time.Duration) bool {
	heard := append(o.answered(within), o.answeredBefore(within)...)
	holdsAlone := !o.mustHear() || len(heard) > 0
	return slices.ContainsFunc(o.rules(), func(rule Rule) bool {
		return rule.Leader == o.Me && (rule.alone() && holdsAlone || rule.Acks > 0 && rule.counts(heard) >= rule.Acks)
	})
}

// rules returns the rules that a leader works under.
func (o *Observed) rules() []Rule { return o.Held.Record.Rules }

// leaderAlive reports whether a leader must be assumed to be alive: a ping of one arrived within
// Config.After, or this program has not run that long. A record without a leader says that none is.
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

// isKnownGone reports whether the program of the term's leader is known to have ended: then a
// candidate need not wait until the record is old enough.
func (o *Observed) isKnownGone(leader Member, term uint64) bool {
	peer := o.peer(leader.Name)
	return peer != nil && peer.Gone && peer.Ping.Leader == leader && peer.Ping.Term == term
}

// livingLeader returns the leader whose ping arrived last, of a term that we may follow; nil if
// none arrived within Config.After.
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

// Follows returns the leader that this member follows, or would if it could; false if no ping
// arrived recently.
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

// Leads reports whether this instance leads, so that its server should be writable.
func (o *Observed) Leads() bool { return o.leads() }

// mayFollow reports whether our last promise allows us to follow the sender of the ping.
func (o *Observed) mayFollow(ping *Ping) bool {
	promised := o.Local.Promised
	return ping.Term > promised.Term || ping.Term == promised.Term && ping.Leader == promised.Candidate
}
