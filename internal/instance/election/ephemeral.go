package election

import "slices"

// Data that end with their server make two things necessary, and safe. A member that has no data
// any more is not waited for: its pod says so itself, and nothing can bring them back. And if every
// instance says that it has none, nothing is lost that an instance with new data would replace. An
// instance that does not answer may have data: nothing begins anew without it, except by
// Config.AcceptLoss.

// An instance whose pod was deleted by force may still run on an unreachable node, beside the
// new pod of its name. So that such a leader does not write beside the next one:
//
//   - a leader of several instances that hears none of them must renew the Lease, even under a rule
//     that names no other member (mustHear);
//   - an instance without data answers an Ask only where it could promise: while it hears a leader
//     it does not, nor until its program has run for Config.After, unless the record is free;
//   - data are neither begun anew nor taken for lost until a record that is held has not changed
//     for Config.After, after which its holder has fenced itself (R5);
//   - a leader that reads the record of newer data ends (isReplaced).
//
// What remains: a leader whose replica was deleted by force with it, and that still hears that one;
// and a single instance, which does not depend on the API server. Both end when they reach the API
// server again.

// mustHear reports whether a leader needs the answer of another instance, or of the API server, to
// know that its data were not given up. A single instance would lose its data with each outage of
// the API server.
func (o *Observed) mustHear() bool { return o.Config.Ephemeral && o.Config.Instances > 1 }

// isReplaced reports whether the record is of data that were begun after ours were given up.
func (o *Observed) isReplaced() bool {
	view := &o.Record
	return o.Config.Ephemeral && view.Known && !view.Damaged && view.Version != "" && o.System != "" &&
		view.Record.System != o.System && view.Record.Term > 0 && !view.Record.olderThan(o.Local.Seen)
}

// noteSuccessor notes, of a record that was read, that a later pod of our name has led, followed,
// or begun anew: we were deleted, and must not begin anew beside it.
func (o *Observed) noteSuccessor(record Record) {
	var named []Member
	for _, rule := range record.Rules {
		named = append(append(named, rule.Leader), rule.Set...)
	}
	isOther := func(member Member) bool {
		return member.Name == o.Me.Name && member != o.Me && !slices.Contains(o.Former, member)
	}
	named = slices.DeleteFunc(named, func(member Member) bool { return !isOther(member) })
	if !o.Record.Known { // What was there before us is the former pods'.
		o.FirstTerm, o.Former = record.Term, append(o.Former, named...)
		return
	}
	holder := record.Holder
	isLed := holder.Member.Name == o.Me.Name && holder.PodUID != o.PodUID && record.Term > o.FirstTerm
	isBegun := o.beginsByName(record) && record.Seq != o.BegunSeq
	o.Succeeded = o.Succeeded || len(named) > 0 || isLed || isBegun
}

// beginsByName reports whether an instance of our name wrote the record to begin anew.
func (o *Observed) beginsByName(record Record) bool {
	return o.Config.Ephemeral && record.Term > 0 && record.System == "" && record.Initialise == o.Me.Name
}

// isNew reports whether our data may be those of the database that the record says is to begin.
// When data are begun anew, an earlier pod of our name may still have the former ones.
func (o *Observed) isNew() bool {
	return !o.Config.Ephemeral || o.Record.Record.Term == 0 || o.System != "" && o.Begun == o.System && o.Record.Record.Seq == o.BegunSeq
}

// isOutOfDate reports whether our data are not those of the record, which is of newer ones.
func (o *Observed) isOutOfDate() bool {
	return o.isReplaced() && (o.Record.Record.System != "" || !o.isNew())
}

// mayBeHeld reports whether the holder of the record may still write: it has not released it, and
// the record has changed within the time after which its holder has fenced itself.
func (o *Observed) mayBeHeld() bool {
	return !o.Record.Record.Released() && o.Now < o.Record.Since+o.Config.After
}

// named returns the names of the instances other than this one that the record knows of.
func (o *Observed) named(record Record) []string {
	var names []string
	add := func(members ...Member) {
		for _, member := range members {
			if member.Name != "" && member.Name != o.Me.Name && !slices.Contains(names, member.Name) {
				names = append(names, member.Name)
			}
		}
	}
	add(record.Holder.Member)
	for _, rule := range record.Rules {
		add(rule.Leader)
		add(rule.Set...)
	}
	return names
}

// know notes the instances of the record, so that they are asked too: one that should not exist any
// more may have data.
func (o *Observed) know(record Record) {
	if !o.Config.Ephemeral {
		return
	}
	for _, name := range o.named(record) {
		if o.peer(name) == nil {
			o.Peers = append(o.Peers, Peer{Name: name})
		}
	}
}

// answeredAll returns the answers to the last Ask of all other instances that should exist, and of
// those that the record names; false if one is missing.
func (o *Observed) answeredAll(record Record) (replies []AskReply, all bool) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(o.named(record), o.Others...)))) {
		peer := o.peer(name)
		if peer == nil || o.Asked == 0 || peer.AskReply.Term != o.Asked {
			return nil, false
		}
		replies = append(replies, peer.AskReply)
	}
	return replies, true
}

// withoutLost returns the record on which a claim is based when all instances have answered, and
// one that the rules name is another member by now: then every member with data must promise, and
// none must be ahead, and that is all that there is. It is the record itself if that is not so.
func (o *Observed) withoutLost(record Record) Record {
	replies, all := o.answeredAll(record)
	if !o.Config.Ephemeral || !o.believed() || !all || record.Term == 0 || o.mayBeHeld() {
		return record
	}
	now := []Member{o.Me}
	for _, reply := range replies {
		if reply.Member.HasData() {
			now = append(now, reply.Member)
		}
	}
	isThere := func(member Member) bool { return slices.Contains(now, member) }
	lost := slices.ContainsFunc(record.Rules, func(rule Rule) bool {
		return !isThere(rule.Leader) || slices.ContainsFunc(rule.Set, func(member Member) bool { return !isThere(member) })
	})
	if lost {
		record.Rules = []Rule{{Set: sorted(now), Acks: 1}}
	}
	return record
}

// beginsAnew reports whether the record is one of a database whose data were all lost, and this
// instance makes new ones.
func (o *Observed) beginsAnew() bool {
	return o.Config.Ephemeral && o.Record.Record.Initialise == o.Me.Name
}

// beginAnew decides for an instance without data, without a leader, and without a reason to wait
// for one. It releases what an earlier process of its pod still holds, and when no instance has
// data, the first of them writes that it makes new ones.
func (o *Observed) beginAnew() Action {
	view := &o.Record
	record := view.Record
	isForAnother := record.System == "" && slices.Contains(o.Others, record.Initialise)
	if !o.Config.Ephemeral || !o.believed() || isForAnother || o.Succeeded {
		return nil
	}
	if record.Holder.Member.Name == o.Me.Name && record.Holder.PodUID == o.PodUID {
		return o.release(record, "an earlier process of this pod led, and its data ended with it")
	}
	if slices.ContainsFunc(o.Others, func(name string) bool { return name < o.Me.Name }) {
		return nil // That one does so.
	}
	if o.mayBeHeld() {
		return o.wait("a former leader to end by itself, if it still runs", o.Record.Since+o.Config.After)
	}
	isForced := o.Config.AcceptLoss != 0 && o.Config.AcceptLoss == record.Term
	_, all := o.answeredAll(record)
	hasData := slices.ContainsFunc(o.Peers, func(peer Peer) bool { return peer.AskReply.Term == o.Asked && peer.AskReply.Member.HasData() })
	if (all || isForced) && !hasData && o.Asked > 0 && o.AskedAt >= view.Since && o.Now-o.AskedAt < readEvery {
		record.System, record.Holder, record.Open, record.Rules, record.Handover = "", Holder{}, false, nil, nil
		record.Initialise = o.Me.Name
		record.Seq++
		return o.write(record, "no instance has data: beginning with empty ones")
	}
	if o.AskedAt != 0 && o.Now-o.AskedAt < readEvery {
		return o.wait("the other instances to say whether they have data", o.AskedAt+readEvery)
	}
	return SendAsk{Ask: o.ask(1 + max(record.Term, o.Local.Seen.Term, o.Local.Promised.Term))}
}
