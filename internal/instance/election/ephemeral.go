package election

import "slices"

// Data that end with their server make two things necessary, and safe. A member that has no data
// any more is not waited for: its pod says so itself, and nothing can bring them back. And if every
// instance says that it has none, nothing is lost that an instance with new data would replace. An
// instance that does not answer may have data: nothing begins anew without it, except by
// Config.AcceptLoss.

// answeredAll returns the answers of all other instances to the last Ask; false if one is missing.
func (o *Observed) answeredAll() (replies []AskReply, all bool) {
	for _, name := range o.Others {
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
	replies, all := o.answeredAll()
	if !o.Config.Ephemeral || !o.believed() || !all || record.Term == 0 {
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
	if !o.Config.Ephemeral || !o.believed() || isForAnother {
		return nil
	}
	if record.Holder.Member.Name == o.Me.Name && record.Holder.PodUID == o.PodUID {
		return o.release(record, "an earlier process of this pod led, and its data ended with it")
	}
	if slices.ContainsFunc(o.Others, func(name string) bool { return name < o.Me.Name }) {
		return nil // That one does so.
	}
	isForced := o.Config.AcceptLoss != 0 && o.Config.AcceptLoss == record.Term
	_, all := o.answeredAll()
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
