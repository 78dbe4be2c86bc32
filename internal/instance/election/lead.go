package election

import (
	"slices"
	"time"
)

// lead decides for the holder of the record whose server was promoted (R5, R7, R12, R13, R14).
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

// ping sends the pings. A loop that can't decide sends none.
func ping(o *Observed) Action {
	if o.Server.History == "" || o.Now-o.PingedAt < o.pingPause() || o.isStranded() {
		return nil
	}
	return SendPings{Ping: o.ping(false)}
}

// pingPause is the time between two pings. While writes wait for the successor to confirm that it
// has all, it is asked more often.
func (o *Observed) pingPause() time.Duration {
	if o.Server.Clean && o.Held.StopFor.HasData() {
		return pingEvery / 10
	}
	return pingEvery
}

// isStranded reports whether our server is down and the record can be neither released nor renewed.
// Then our pings would prevent an election.
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

// free returns the diverged members that may rebuild their data: what they have that we lack was
// never acknowledged (R3). One that can leave the set does that first. While the term is not open,
// older rules, of other leaders, may still need it.
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

// isDiverged reports whether the member has reported that its data are not part of our history.
func (o *Observed) isDiverged(member Member) bool {
	peer := o.peer(member.Name)
	return peer != nil && peer.PongSent != 0 && peer.Pong.Member == member && peer.Pong.Diverged
}

// sick kills a server whose disk has not completed a heartbeat for as long as others wait for a
// silent leader, if they can go on without it (R14). A heartbeat that waits for other members is no
// sign of a broken disk.
func sick(o *Observed) Action {
	since := o.Server.UnflushedSince
	if !o.Server.writable() || since == 0 || o.Now-since < o.Config.sick() || !o.othersCover() {
		return nil
	}
	return Kill{Why: "its disk has not completed a write for longer than spec.failover.after allows"}
}

// othersCover reports whether the members that answer have every acknowledged write without us.
func (o *Observed) othersCover() bool {
	return cover(o.rules(), o.answered(pingEvery+silent))
}

// OthersGoOn reports whether another member leads next, or does already, and can take writes
// without this one. With Required that needs as many others as each commit waits for, and a leader.
func (o *Observed) OthersGoOn() bool {
	others := 0
	for i := range o.Peers {
		if sent := o.Peers[i].PongSent; sent != 0 && o.Now-sent < pingEvery+silent {
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
// record can't be written, because the pod was deleted and its token with it, the leader resigns in
// its pings instead. After that it never leads in that term again, and ends, if it was asked to,
// without a release: nobody waits for it, and its server is down.
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

// confirmed reports whether the member has said that it has all that the stopped server has.
func (o *Observed) confirmed(member Member) bool {
	peer := o.peer(member.Name)
	if peer == nil || peer.Pong.Member != member {
		return false
	}
	related := o.Config.Positions.Compare(peer.Pong.Position, o.Server.Position)
	return related == Equal || related == Ahead
}

// successor returns a member of the set that has nearly all and answers, the preferred one if it is
// such; the zero value if there is none.
func (o *Observed) successor() Member {
	record := &o.Held.Record
	if !record.Open || len(record.Rules) != 1 {
		return Member{}
	}
	var found Member
	for _, member := range o.answered(pingEvery + silent) {
		peer := o.peer(member.Name)
		if !peer.Near || o.Now-peer.StreamedAt >= silent || !slices.Contains(record.newest().Set, member) {
			continue
		}
		isPreferred := member.Name == o.Intent.Preferred
		if o.Intent.Only && !o.Intent.Stop && !isPreferred {
			continue
		}
		if !found.HasData() || isPreferred {
			found = member
		}
	}
	return found
}

// died decides for a leader whose server is down: others go on at once if they can, or it is
// started again in the same term (R15). A promotion that failed is not repeated in its term.
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
	case held.Releasing || !o.mayWrite(o.Config.hold()):
		return o.write(record, "renewing, before the server is started again")
	case o.Server.State == Stopped:
		return Resume{Rule: record.newest()}
	}
	return Kill{Why: "it is a standby, but this instance leads"}
}

// rewrite writes the record again if the Lease was deleted, edited or set back (R16).
func rewrite(o *Observed) Action {
	if o.Record.Stale || o.believed() || !o.unchallenged() {
		return nil
	}
	return o.write(o.Held.Record, "the Lease does not say what was written last")
}

// unchallenged reports whether no other member can have been elected before the record was found
// lost: only we can cover one of our rules, or so many of its members have answered a ping that was
// sent after that, that the others can't cover it. Otherwise what we would write may be older than
// what was lost.
func (o *Observed) unchallenged() bool {
	return o.heldByRule(o.Now - o.Record.ReadAt)
}

// renew shows a silent member that this leader lives (R5). At rest nothing is written.
func renew(o *Observed) Action {
	heard := o.answered(pingEvery + silent)
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

// open publishes that writes are accepted, once one was (R12).
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

// publish puts the address into the EndpointSlice.
func publish(o *Observed) Action {
	held := &o.Held
	if held.Published || !held.Record.Open || held.PublishAt != 0 && o.Now-held.PublishAt < readEvery {
		return nil
	}
	return Publish{Term: held.Term}
}

// release writes the record without a holder. The rules stay, because they say where the writes
// are.
func (o *Observed) release(record Record, why string) Action {
	record.Holder = Holder{}
	record.Seq++
	return o.write(record, why)
}

// write writes the record, based on the version that is known; or reads it first.
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

// read reads the record, if the last attempt is long enough ago.
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

// leave ends the program when it was asked to end and does not lead, and tells the others that the
// record is released, so that they need not find out.
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

// silence is for how long the member has not answered, or was not seen to flush what we wrote; the
// claim counts as both. Only our server sees that a member flushes: while it says nothing, as one
// that hangs, nothing is known about the member, and that is no silence.
func (o *Observed) silence(member Member) time.Duration {
	peer := o.peer(member.Name)
	if peer == nil || peer.Member != member {
		return o.Now
	}
	unseen := o.Server.ReceiversAt - max(peer.StreamedAt, o.WatchedSince)
	return min(o.Now-o.Held.Claimed, max(o.Now-peer.PongSent, unseen))
}
