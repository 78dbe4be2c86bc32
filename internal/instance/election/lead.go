package election

import (
	"slices"
	"time"
)

// lead decides for a leader: it holds the record, and its server was promoted (R5, R7, R12, R13,
// R14).
func lead(o *Observed) Action {
	if !o.leads() {
		return nil
	}
	for _, decide := range []func(*Observed) Action{ping, sick, handOver, died, rewrite, renew, open, changeRule, publish, save} {
		if action := decide(o); action != nil {
			return action
		}
	}
	return o.wait("a reason to act as leader", o.Now+readEvery)
}

// ping sends the pings when they are due. They are sent by the loop that decides, so a leader whose
// loop hangs sends none.
func ping(o *Observed) Action {
	if o.Server.History == "" || o.Now-o.PingedAt < o.pingPause() || o.isStranded() {
		return nil
	}
	return SendPings{Ping: o.ping(false)}
}

// pingPause is the time between two pings. It is shorter during a handover, while clients wait for
// the successor to confirm that it has all writes.
func (o *Observed) pingPause() time.Duration {
	if o.Server.Clean && o.Held.StopFor.HasData() {
		return pingEvery / 10
	}
	return pingEvery
}

// isStranded reports whether our server is down, and the API server did not answer the last read or
// write of the record. Then we send no pings: they would prevent an election, and we could not
// release the record.
func (o *Observed) isStranded() bool {
	return !o.Server.writable() && !o.Server.Busy && o.Record.Failed
}

func (o *Observed) ping(resigned bool) Ping {
	return Ping{
		System: o.System, Leader: o.Me, Seen: o.Saved.Seen, Term: o.Held.Term, History: o.Server.History,
		Version: o.Record.Version, Resigned: resigned || o.Held.Resigned, Free: o.free(),
		Addresses: o.Addresses(),
	}
}

// free returns the diverged members that may rebuild their data, because no rule needs them: what
// they have and we lack was never acknowledged (R3). A member that can be removed from the newest
// rule's set is removed first. While the term is not open, older rules, of other leaders, may still
// need the member.
func (o *Observed) free() []Member {
	var members []Member
	record := &o.Held.Record
	newest := record.newest()
	for i := range o.Peers {
		member := o.Peers[i].Member
		others := func(rule Rule) bool { return rule.names(member) && (rule.Leader != o.Me || !record.Open) }
		if !o.isDiverged(member) || slices.ContainsFunc(record.Rules, others) {
			continue
		}
		if !newest.names(member) || len(newest.Set) <= newest.Acks {
			members = append(members, member)
		}
	}
	return members
}

// isDiverged reports whether the member has answered that its data have diverged: see
// Pong.Diverged.
func (o *Observed) isDiverged(member Member) bool {
	peer := o.peer(member.Name)
	return peer != nil && peer.PongSent != 0 && peer.Pong.Member == member && peer.Pong.Diverged
}

// sick kills a server whose disk has not completed a heartbeat (a small write) for about as long as
// other members wait for a silent leader, if they can go on without it (R14). UnflushedSince counts
// only writes that wait for the local disk, not those that wait for other members.
func sick(o *Observed) Action {
	since := o.Server.UnflushedSince
	if !o.Server.writable() || since == 0 || o.Now-since < o.Config.sickAfter() || !o.othersCover() {
		return nil
	}
	return Kill{Why: "its disk has not completed a write for longer than spec.failover.after allows"}
}

// othersCover reports whether the members that have recently answered have, without us, every
// acknowledged write.
func (o *Observed) othersCover() bool {
	return cover(o.rules(), o.answered(pingEvery+silentAfter))
}

// OthersGoOn reports whether another member will lead next, or leads already, and can accept writes
// without this one. With Required, that takes a leader and as many other members as each commit
// waits for.
func (o *Observed) OthersGoOn() bool {
	others := 0
	for i := range o.Peers {
		if sent := o.Peers[i].PongSent; sent != 0 && o.Now-sent < pingEvery+silentAfter {
			others++
		}
	}
	if others == 0 || o.Config.Durability == Required && others <= o.Config.acks(0) {
		return false
	}
	record := &o.Record.Record
	return o.Local.Seen.Term > o.Held.Term || record.Term == o.Held.Term && record.Handover != nil || o.othersCover()
}

// handOver stops the server cleanly for a successor, and releases the record to it (R13). If the
// record can't be written, because the pod was deleted and its token has become invalid, the leader
// resigns in its pings instead. After that it never leads in that term again. If it was asked to
// end, it does so after resignTime without a release: its server is down, and the other members do
// not wait for it.
func handOver(o *Observed) Action {
	held := &o.Held
	switch {
	case held.StopAt == 0 && !o.Intent.Stop && !o.Intent.SwitchTo && !held.Resigned:
		return nil
	case o.Server.Busy && o.Server.State != StoppingCleanly:
		return o.wait("the server's current operation to end, before it is stopped", o.Now+readEvery)
	case o.Server.State == Leading:
		successor := o.successor()
		if !o.Intent.Stop && !successor.HasData() {
			return nil
		}
		return StopCleanly{Successor: successor}
	case o.Server.State == StoppingCleanly && o.Now-held.StopAt >= stopTime:
		return Kill{Why: "it could not be stopped cleanly in time"}
	case o.Server.State == StoppingCleanly:
		return o.wait("the server to stop", held.StopAt+stopTime)
	}
	record := o.Held.Record
	if o.Server.Clean && held.StopFor.HasData() {
		if o.confirmed(held.StopFor) {
			record.Handover = &Handover{From: o.Me, To: held.StopFor, Position: o.Server.Position}
		} else if o.Now-held.StopAt < stopTime+confirmTime {
			return o.wait("the successor to have all that was written", o.Now+o.pingPause())
		}
	}
	switch {
	case !o.isStranded():
	case o.Intent.Stop && held.Resigned && o.Now-held.ResignedAt >= resignTime:
		return Exit{}
	case !held.Resigned || o.Now-o.PingedAt >= pingEvery:
		return SendPings{Ping: o.ping(true)}
	}
	return o.release(record, "handing over")
}

// confirmed reports whether the member has answered that it has everything that our stopped server
// has.
func (o *Observed) confirmed(member Member) bool {
	peer := o.peer(member.Name)
	if peer == nil || peer.Pong.Member != member {
		return false
	}
	related := o.Config.Positions.Compare(peer.Pong.Position, o.Server.Position)
	return related == Equal || related == Ahead
}

// successor returns the member to which this leader should hand over: one of the set that answers,
// receives, is near, and stores what it receives. It prefers Intent.Preferred, and with Intent.Only
// accepts no other. If this instance has to stop, it accepts the best that there is: one that does
// not store yet has everything too, as long as its server does not end. It returns the zero value
// if there is none.
func (o *Observed) successor() Member {
	record := &o.Held.Record
	if !record.Open || len(record.Rules) != 1 {
		return Member{}
	}
	var found Member
	best := 0
	for _, member := range o.answered(pingEvery + silentAfter) {
		peer := o.peer(member.Name)
		if !peer.Near || o.Now-peer.StreamedAt >= silentAfter || !slices.Contains(record.newest().Set, member) {
			continue
		}
		isPreferred, stores := member.Name == o.Intent.Preferred, !peer.Pong.Unstored
		if !o.Intent.Stop && (!stores || o.Intent.Only && !isPreferred) {
			continue
		}
		rank := 1
		if isPreferred {
			rank++
		}
		if stores {
			rank += 2
		}
		if rank > best {
			found, best = member, rank
		}
	}
	return found
}

// died decides for a leader whose server is down: it releases the record if others can go on
// without it, or might have more, and otherwise starts the server again in the same term (R15). A
// promotion that failed is not repeated in its term.
func died(o *Observed) Action {
	if o.Server.writable() || o.Server.Busy {
		return nil
	}
	held, record := &o.Held, o.Held.Record
	switch {
	case o.Server.State == NoData && o.Config.Ephemeral:
		return o.release(record, "the server ended, and its data with it")
	case !record.Open:
		return o.release(record, "the promotion failed")
	case o.othersCover():
		return o.release(record, "the server crashed, and another member can lead")
	case o.lacksWrites() && slices.ContainsFunc(o.answered(pingEvery+silentAfter), Member.HasData):
		return o.release(record, "the server ended before it stored its data, and another member may have more")
	case held.Releasing || !o.mayWrite(o.Config.writeTime()):
		return o.write(record, "renewing, before the server is started again")
	case o.Server.State == Stopped:
		return Resume{Rule: record.newest()}
	}
	return Kill{Why: "it is a standby, but this instance leads"}
}

// lacksWrites reports whether our server, which does not run, has ended before it stored its data:
// then a member that our rule does not name may have more than we do.
func (o *Observed) lacksWrites() bool {
	return o.Server.State == Stopped && o.Server.Unstored && !o.Config.Ephemeral
}

// rewrite writes the record again if the Lease was deleted, edited, or restored from a backup
// (R16).
func rewrite(o *Observed) Action {
	if o.Record.Stale || o.believed() || !o.unchallenged() {
		return nil
	}
	return o.write(o.Held.Record, "the Lease does not say what was written last")
}

// unchallenged reports whether no other member can have been elected before we found the record
// lost. That is so if one of our rules can only be covered by us, or if so many of its members have
// answered a ping that was sent after we read it that the others can't cover it. Otherwise the
// record that we would write may be older than the one that was lost.
func (o *Observed) unchallenged() bool {
	return o.heldByRule(o.Now-o.Record.ReadAt, Member.HasData)
}

// renew renews the Lease while a member is silent, so that the member sees that this leader is
// alive (R5). While all members answer, nothing is written.
func renew(o *Observed) Action {
	heard := o.answered(pingEvery + silentAfter)
	for _, member := range o.Held.Record.newest().Set {
		if !slices.Contains(heard, member) && o.Now-o.Held.RenewedAt >= o.Config.renewEvery() {
			return o.write(o.Held.Record, "renewing, because "+member.Name+" does not answer")
		}
	}
	if len(heard) == 0 && o.mustHear() && o.Held.Record.newest().alone() && o.Now-o.Held.RenewedAt >= o.Config.renewEvery() {
		return o.write(o.Held.Record, "renewing, because no other instance answers")
	}
	if o.Record.Stale {
		return o.read()
	}
	return nil
}

// open writes to the record that the term is open, once the first write was committed (R12).
func open(o *Observed) Action {
	record, server := o.Held.Record, &o.Server
	newest := record.newest()
	if record.Open || server.State != Leading || !server.Committed || !server.Settled || !server.Rule.Equal(newest) {
		return nil
	}
	if o.Config.Durability == Required && newest.Acks < o.Config.acks(len(newest.Set)) {
		return nil
	}
	record.Open, record.Rules, record.Handover = true, []Rule{newest}, nil
	record.Seq++
	return o.write(record, "the first write of the term was committed")
}

// publish writes our address to the EndpointSlice, once the term is open. From then on it checks
// every republishEvery that the address is there, and at once after the Lease had to be written
// anew: a restored backup has an older EndpointSlice too.
func publish(o *Observed) Action {
	held, pause := &o.Held, readEvery
	if held.Published && !o.believed() {
		return nil // The Lease is repaired first.
	}
	if held.Published && !held.Republish {
		pause = republishEvery
	}
	if !held.Record.Open || held.PublishAt != 0 && o.Now-held.PublishAt < pause {
		return nil
	}
	return Publish{Term: held.Term}
}

// release writes the record without a holder. The rules stay, because they say which members have
// the acknowledged writes.
func (o *Observed) release(record Record, why string) Action {
	record.Holder = Holder{}
	record.Seq++
	return o.write(record, why)
}

// write writes the record if its current version is known, and otherwise reads it first. why is the
// purpose, for the log.
func (o *Observed) write(record Record, why string) Action {
	if o.Record.InFlight {
		return o.wait("the answer of the API server", o.Now+pingEvery)
	}
	if o.Record.Stale || !o.Record.Known {
		return o.read()
	}
	if o.leads() && !o.believed() && !o.unchallenged() {
		return o.wait("enough members to answer, because the Lease does not say what was written last", o.Now+pingEvery)
	}
	if record.Seq < o.Local.Seen.Seq || !o.believed() {
		record.Seq = o.Local.Seen.Seq + 1
	}
	record.Timeline = max(record.Timeline, o.Local.Seen.Timeline)
	return WriteRecord{Record: record, Version: o.Record.Version, Why: why}
}

// read reads the record, unless the last attempt was too recent: then it waits.
func (o *Observed) read() Action {
	view := &o.Record
	pause := pingEvery / 5
	if view.Failed {
		pause = readEvery
	}
	if view.InFlight {
		return o.wait("the answer of the API server", o.Now+readEvery)
	}
	if view.TriedAt != 0 && o.Now-view.TriedAt < pause {
		return o.wait("the next read of the Lease", view.TriedAt+pause)
	}
	return ReadRecord{}
}

// leave ends the program if it was asked to end and does not lead. A leader that has released the
// record first tells the others in its pings, so that they need not read it.
func leave(o *Observed) Action {
	record := &o.Record.Record
	if o.Held.Promoted && !o.Held.Resigned && o.believed() && record.Released() && record.Term == o.Held.Term {
		return SendPings{Ping: o.ping(true)}
	}
	if o.Intent.Stop {
		return Exit{}
	}
	return nil
}

// silence returns for how long the member has not answered, or was not seen to flush what we wrote,
// whichever is longer, but at most the time since our claim. Only our server sees that a member
// flushes. While the server itself does not answer, that time does not count as time without a
// flush. For a member that is no longer there it is all time since the start.
func (o *Observed) silence(member Member) time.Duration {
	peer := o.peer(member.Name)
	if peer == nil || peer.Member != member {
		return o.Now
	}
	unseen := o.Server.ReceiversAt - max(peer.StreamedAt, o.WatchedSince)
	return min(o.Now-o.Held.Claimed, max(o.Now-peer.PongSent, unseen))
}
