package election

import (
	"cmp"
	"slices"
	"time"
)

// elect collects promises for the term that we have claimed, and promotes our server when they
// cover every rule (R10, R11).
func elect(o *Observed) Action {
	if !o.holds() || !o.believed() {
		return nil
	}
	record := o.Record.Record
	if waited := o.Now - o.Held.Claimed; waited >= o.electionTime() || waited >= silentAfter && o.memberAhead() != "" {
		// We have not promoted, so nothing was acknowledged under the rule that the claim added, and it
		// is removed. The same rule may also be there from an earlier term of ours: that one stays.
		if len(record.Rules) > 1 { // The only rule is that of new data, which no other member has.
			record.Rules = slices.Clone(record.Rules[:len(record.Rules)-1])
		}
		record.Handover = nil
		return o.release(record, "too few promises: "+cmp.Or(o.memberAhead(), o.unready(), "not enough members answered"))
	}
	// An election may take longer than a leader may write without having renewed.
	if !o.Record.InFlight && !o.Record.Stale && o.Now-o.Held.RenewedAt >= o.Config.renewEvery() {
		return o.write(record, "renewing while the promises are collected")
	}
	if action := o.promiseTo(Promised{Term: o.Held.Term, Candidate: o.Me}); action != nil {
		return action
	}
	if action := o.isolate(); action != nil {
		return action
	}
	forced := o.Held.Forced && o.memberAhead() == "" && o.Held.RequestedAt != 0 && o.Now-o.Held.RequestedAt >= answerTime
	if forced || cover(record.Rules, o.promisedAndNotAhead()) {
		if !o.Server.Rule.Equal(record.newest()) {
			return SetRule{Rule: record.newest()}
		}
		if o.Held.Releasing || !o.mayWrite(o.Config.writeTime()) {
			return o.wait("the record to be renewed, before the server leads", o.Now+pingEvery)
		}
		return Promote{Term: o.Held.Term, Timeline: record.Timeline}
	}
	if o.Held.RequestedAt == 0 || o.Now-o.Held.RequestedAt >= readEvery {
		return RequestPromises{Request: PromiseRequest{
			System: o.System, Term: o.Held.Term, Candidate: o.Me, Seen: o.Saved.Seen, Vacant: o.Held.Vacant,
		}}
	}
	return o.wait("promises", min(o.Held.RequestedAt+readEvery, o.Held.Claimed+o.electionTime()))
}

// electionTime returns how long we collect promises before we leave the election to others.
func (o *Observed) electionTime() time.Duration {
	return min(electionTime<<min(o.Unmet, 8), longestElection)
}

// promisedAndNotAhead returns the members that count towards our promotion: ourselves, those that
// have promised and have nothing that we lack, and a leader that has handed over to us.
func (o *Observed) promisedAndNotAhead() []Member {
	members := []Member{o.Me}
	for i := range o.Peers {
		reply := &o.Peers[i].PromiseReply
		if reply.Term == o.Held.Term && reply.Given && !o.isAhead(reply.Position) {
			members = append(members, reply.Member)
		}
	}
	return append(members, o.handedOver()...)
}

// handedOver returns the leader that stopped cleanly for us, if we have everything up to its final
// position, which is in the record. It counts as having answered.
func (o *Observed) handedOver() []Member {
	handover := o.Record.Record.Handover
	if handover == nil || handover.To != o.Me || o.isAhead(handover.Position) {
		return nil
	}
	return []Member{handover.From}
}

// isAhead reports whether data up to the position may contain something that we lack.
func (o *Observed) isAhead(position Position) bool {
	related := o.Config.Positions.Compare(position, o.Server.Position)
	return related == Ahead || related == Incomparable
}

// memberAhead returns "NAME is ahead" for a member that has promised and may have data that we
// lack; "" if there is none. That member should be the candidate.
func (o *Observed) memberAhead() string {
	for i := range o.Peers {
		if reply := &o.Peers[i].PromiseReply; reply.Term == o.Held.Term && reply.Given && o.isAhead(reply.Position) {
			return reply.Member.Name + " is ahead"
		}
	}
	return ""
}

// restart decides for a program that finds its own pod as the holder of an open term, because an
// earlier process of the pod ended without releasing it (R15). It releases the record if other
// members can take over, because crash recovery may take any time, or might have more than we do.
// Otherwise it goes on as the leader.
func restart(o *Observed) Action {
	record := o.Record.Record
	switch {
	case o.Server.State != Stopped:
		return nil
	case o.Held.Term != 0 && o.Record.InFlight:
		return o.wait("the answer of the API server", o.Now+pingEvery)
	case o.Held.Term != 0:
		return nil
	}
	if !o.Record.Known && (o.Record.TriedAt == 0 || o.Record.InFlight) {
		return o.read()
	}
	holder := Holder{Member: o.Me, PodUID: o.PodUID}
	if !o.believed() || record.Holder != holder || !record.Open || record.Term < o.Local.Promised.Term {
		return nil
	}
	answers, all := o.askedAnswers()
	switch {
	case o.AskedAt == 0:
		return SendAsk{Ask: o.ask(record.Term + 1)}
	case cover(record.Rules, answers):
		return o.release(record, "the server is down, and another member can lead")
	case !all && o.Now-o.AskedAt < silentAfter:
		return o.wait("the answers of the other members", o.AskedAt+silentAfter)
	case o.lacksWrites() && len(answers) > 0:
		return o.release(record, "the server ended before it stored its data, and another member may have more")
	}
	record.Seq++
	return o.write(record, "continuing to lead after a restart")
}

// askedAnswers returns the members that have answered the last Ask and have made no promise in a
// higher term than the record's, and whether all peers have answered.
func (o *Observed) askedAnswers() (members []Member, all bool) {
	all = true
	for i := range o.Peers {
		reply := &o.Peers[i].AskReply
		if o.Asked == 0 || reply.Term != o.Asked {
			all = false
			continue
		}
		if reply.Promised.Term <= o.Record.Record.Term {
			members = append(members, reply.Member)
		}
	}
	return members, all
}

func (o *Observed) ask(term uint64) Ask {
	return Ask{
		System: o.System, Term: term, Member: o.Me, Seen: o.Saved.Seen, Vacant: o.isVacant(),
	}
}

// stand claims the record if no leader is alive, and the members that would promise cover every
// rule (R8, R9). A member whose volume is busy or has failed does not stand, because it could not
// store its own promise. Nor does one whose server is busy, because that could not be promoted: it
// may be replaying for minutes, while the others wait for its claim.
func stand(o *Observed) Action {
	if o.Saving || o.SaveFailedAt != 0 || o.Server.Busy {
		return nil
	}
	if o.Server.State != Standby || !o.Me.HasData() || !o.leaderIsQuiet() || o.isOutOfDate() {
		return nil
	}
	view := &o.Record
	if view.InFlight || view.Stale || !view.Known || view.isOld(o.Now) && o.Now-view.ReadAt >= readEvery {
		return o.readWhileQuiet()
	}
	if when := o.mayStandAt(); o.Now < when || o.leaderAlive(o.isVacant()) {
		return nil
	}
	if base, ok := o.firstTerm(); ok {
		return o.claim(base, false)
	}
	return o.askThenClaim()
}

// readWhileQuiet returns a ReadRecord if a read is due; otherwise nil, so that the member goes on
// with other actions.
func (o *Observed) readWhileQuiet() Action {
	if action, isRead := o.read().(ReadRecord); isRead {
		return action
	}
	return nil
}

// leaderIsQuiet reports whether no ping of a leader arrived within silentAfter, which is a reason
// to read the record.
func (o *Observed) leaderIsQuiet() bool {
	leader := o.livingLeader()
	return leader == nil || o.Now-leader.PingAt > silentAfter
}

// mayStandAt returns when we may stand: when the record allows an election, and, if our own server
// has just failed as a leader, other members have had time to stand.
func (o *Observed) mayStandAt() time.Duration {
	view := &o.Record
	record := &view.Record
	switch {
	case !o.believed():
		return view.Since + o.Config.After
	case record.Released() && record.Handover == nil:
		return o.StandsAt
	case record.Released() && record.Handover.To == o.Me:
		return 0
	case record.Released():
		return view.Since + handoverTime
	case o.isKnownGone(record.Holder.Member, record.Term):
		return o.StandsAt
	case record.Term == 0:
		return 0
	case !record.Open && !record.newest().Async:
		return view.Since + electionTime
	}
	// A candidate may lead before its term is open. With an asynchronous rule, only its clock ends
	// that, if it is cut off then.
	return view.Since + o.Config.After
}

// firstTerm returns the record; true if its database has never had a leader and we are the instance
// that has initialised the data.
func (o *Observed) firstTerm() (Record, bool) {
	record := o.Record.Record
	return record, o.believed() && record.System == "" && record.Initialise == o.Me.Name && o.isNew()
}

// base returns the record on which a claim is based: the one that was read, or, if that is not
// believed, one which says that the writes may be anywhere, so that every member must answer (R16).
// It returns false if the answer of one is missing.
func (o *Observed) base() (Record, bool) {
	if o.believed() {
		return o.Record.Record, true
	}
	everybody := []Member{o.Me}
	for i := range o.Peers {
		if reply := &o.Peers[i].AskReply; o.Asked != 0 && reply.Term == o.Asked && reply.Member.HasData() {
			everybody = append(everybody, reply.Member)
		}
	}
	seen := o.Local.Seen
	record := Record{System: o.System, Term: seen.Term, Seq: seen.Seq, Timeline: seen.Timeline}
	record.Rules = []Rule{{Set: sorted(everybody), Acks: 1}}
	return record, len(everybody) == max(o.Config.Instances, 1+len(o.Peers))
}

// askThenClaim asks all members whether they would promise, and claims the record if enough would.
// If a member is ahead of us, it waits longer, so that the member can stand first.
func (o *Observed) askThenClaim() Action {
	record, complete := o.base()
	term := max(o.Asked, 1+max(record.Term, o.Local.Seen.Term, o.Local.Promised.Term))
	if o.AskedAt == 0 || o.Asked < term || o.AskedAt < o.Record.Since {
		// Answers that we got before this record may be older than the record that it replaced.
		return SendAsk{Ask: o.ask(term)}
	}
	willing, someAhead, all := o.poll()
	waitFor := answerTime + o.Jitter
	if someAhead {
		waitFor += answerTime
	} else if all {
		waitFor = 0
	}
	if o.Now-o.AskedAt < waitFor {
		return o.wait("the answers of the other members", o.AskedAt+waitFor)
	}
	covered := complete && cover(record.Rules, willing)
	if !covered {
		record = o.withoutLost(record)
		covered = complete && cover(record.Rules, willing)
	}
	forced := o.Config.AcceptLoss != 0 && o.Config.AcceptLoss == record.Term && !o.hearsAhead()
	switch again := o.AskedAt + waitFor + readEvery; {
	case covered && (all || slices.Contains(willing, record.newest().Leader) || !o.isWaking()) || forced:
		return o.claim(record, !covered)
	case o.Now >= again:
		return SendAsk{Ask: o.ask(term)}
	default:
		return o.wait("promises from enough members", again)
	}
}

// isWaking reports whether all instances may just have started, and the former leader may have
// acknowledged writes that no rule speaks of: with Asynchronous, a leader that was stopped together
// with the others has released the record without a successor.
func (o *Observed) isWaking() bool {
	record := &o.Record.Record
	return o.Config.Durability == Asynchronous && !o.Config.Ephemeral && o.Now < o.Config.After && record.Released() && record.Handover == nil
}

// poll evaluates the answers to the last Ask. It returns the members that would promise and are not
// ahead of us, whether one that would promise is ahead of us, and whether all have answered.
func (o *Observed) poll() (willing []Member, someAhead, all bool) {
	before := o.handedOver()
	willing, all = append([]Member{o.Me}, before...), true
	for i := range o.Peers {
		reply := &o.Peers[i].AskReply
		switch {
		case slices.Contains(before, o.Peers[i].Member):
			// Its answer is in the record, and it may have ended.
		case reply.Term != o.Asked:
			all = false
		case o.isAhead(reply.Position):
			someAhead = someAhead || reply.Would
		case reply.Would:
			willing = append(willing, reply.Member)
		}
	}
	return willing, someAhead, all
}

// hearsAhead reports whether a member that has answered the last Ask may have data that we lack,
// even if it would not promise now, for example because its volume is full. A loss that was
// accepted is that of members that do not answer.
func (o *Observed) hearsAhead() bool {
	before := o.handedOver()
	for i := range o.Peers {
		reply := &o.Peers[i].AskReply
		if slices.Contains(before, o.Peers[i].Member) || reply.Term != o.Asked || !reply.Member.HasData() {
			continue
		}
		if o.isAhead(reply.Position) {
			return true
		}
	}
	return false
}

// claim returns the write that claims the record: for a new term, on a new timeline, with our own
// rule after all others (R10).
func (o *Observed) claim(base Record, forced bool) Action {
	seen := o.Local.Seen
	record := base
	record.System, record.Open = o.System, false
	record.Term = 1 + max(base.Term, seen.Term, o.Local.Promised.Term)
	record.Timeline = 1 + max(base.Timeline, seen.Timeline)
	record.Seq = 1 + max(base.Seq, seen.Seq)
	record.Holder = Holder{Member: o.Me, PodUID: o.PodUID}
	record.Rules = append(distinct(base.Rules), o.firstRule(base))
	if rule, ok := o.merged(base.Rules, forced); ok && len(record.Rules) > maxRules {
		record.Rules = []Rule{rule, o.firstRule(base)}
	}
	if base.Handover != nil && base.Handover.To != o.Me {
		record.Handover = nil
	}
	cause, heard := o.cause(base, forced)
	return WriteRecord{
		Record: record, Version: o.Record.Version, Forced: forced, Cause: cause, Heard: heard,
		Vacant: o.isVacant(), Why: "claiming a new term",
	}
}

// firstRule returns our own rule, under which the first writes of our term wait.
func (o *Observed) firstRule(base Record) Rule {
	var set []Member
	if o.Config.Durability == Required {
		for _, rule := range base.Rules {
			set = append(append(set, rule.Leader), rule.Set...)
		}
	} else {
		for i := range o.Peers {
			if reply := &o.Peers[i].AskReply; o.Asked != 0 && reply.Term == o.Asked {
				set = append(set, reply.Member)
			}
		}
	}
	set = sorted(slices.DeleteFunc(set, func(m Member) bool { return m == o.Me || !m.HasData() }))
	acks := o.Config.acks(len(set))
	if acks == 0 || acks > len(set) {
		return Rule{Leader: o.Me}
	}
	return Rule{Leader: o.Me, Set: set, Acks: acks, Async: o.Config.Durability == Asynchronous}
}
