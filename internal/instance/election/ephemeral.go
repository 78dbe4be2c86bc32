package election

import "slices"

// If data end with their server, two things are necessary, and safe. No election waits for a member
// that has lost its data: its pod itself reports the loss, and nothing can bring the data back. And
// if every instance reports that it has no data, one of them may begin with new, empty data,
// because there is nothing left that could be lost. An instance that does not answer may still have
// data: the others do not begin anew without its answer, except by Config.AcceptLoss.

// An instance whose pod was deleted by force may still run on an unreachable node, at the same time
// as the new pod of its name. These rules keep such a leader from accepting writes while the next
// one does:
//
//   - the leader of several instances that gets no answer from any of them must renew the Lease,
//     even under a rule that names no other member (mustHear);
//   - an instance without data answers an Ask only under the conditions for a promise: not while
//     pings of a leader arrive, and not until its program has run for Config.After, unless the
//     record has no leader;
//   - while the record has a holder, no instance begins anew, and no data count as lost, until the
//     record has not changed for Config.After: by then its holder has fenced itself (R5);
//   - a leader that reads the record of newer data stops leading (isReplaced).
//
// Two cases remain: a leader that was deleted by force together with its replica, and still gets
// answers from that; and a single instance, which does not depend on the API server. Both stop when
// they reach the API server again.

// mustHear reports whether a leader needs an answer from another instance, or from the API server,
// to know that the other instances have not begun anew without its data. A single instance does
// not: it would lose its data with each outage of the API server.
func (o *Observed) mustHear() bool { return o.Config.Ephemeral && o.Config.Instances > 1 }

// isReplaced reports whether the record belongs to data with which other instances have begun anew,
// without ours.
func (o *Observed) isReplaced() bool {
	view := &o.Record
	return o.Config.Ephemeral && view.Known && !view.Damaged && view.Version != "" && o.System != "" &&
		view.Record.System != o.System && view.Record.Term > 0 && !view.Record.olderThan(o.Local.Seen)
}

// noteSuccessor notes whether a record that was read shows that a later pod of our name has led,
// followed, or begun anew. Then our pod was deleted, and we must not begin anew as well.
func (o *Observed) noteSuccessor(record Record) {
	var named []Member
	for _, rule := range record.Rules {
		named = append(append(named, rule.Leader), rule.Set...)
	}
	isOther := func(member Member) bool {
		return member.Name == o.Me.Name && member != o.Me && !slices.Contains(o.Former, member)
	}
	named = slices.DeleteFunc(named, func(member Member) bool { return !isOther(member) })
	if !o.Record.Known { // The first record that we read: what it names was there before us.
		o.FirstTerm, o.Former = record.Term, append(o.Former, named...)
		return
	}
	holder := record.Holder
	isLed := holder.Member.Name == o.Me.Name && holder.PodUID != o.PodUID && record.Term > o.FirstTerm
	isBegun := o.beginsByName(record) && record.Seq != o.BegunSeq
	o.Succeeded = o.Succeeded || len(named) > 0 || isLed || isBegun
}

// beginsByName reports whether the record was written by an instance of our name, to begin anew.
func (o *Observed) beginsByName(record Record) bool {
	return o.Config.Ephemeral && record.Term > 0 && record.System == "" && record.Initialise == o.Me.Name
}

// isNew reports whether our data may be the new ones with which, as the record says, an instance of
// our name began. When instances begin anew, an earlier pod of our name may still have the former
// data.
func (o *Observed) isNew() bool {
	return !o.Config.Ephemeral || o.Record.Record.Term == 0 || o.System != "" && o.Begun == o.System && o.Record.Record.Seq == o.BegunSeq
}

// isOutOfDate reports whether our data are former ones, and the record belongs to newer data.
func (o *Observed) isOutOfDate() bool {
	return o.isReplaced() && (o.Record.Record.System != "" || !o.isNew())
}

// mayBeHeld reports whether the holder of the record may still accept writes: it has not released
// the record, and the record has changed within Config.After, after which its holder has fenced
// itself.
func (o *Observed) mayBeHeld() bool {
	return !o.Record.Record.Released() && o.Now < o.Record.Since+o.Config.After
}

// named returns the names of the other instances in the record.
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

// know adds the instances of the record to the peers, so that they are asked too: an instance that
// should no longer exist may have data. It does nothing unless the data are ephemeral.
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

// withoutLost returns the record on which a claim is based, without rules that can't be covered any
// more because a member that they name has lost its data. It replaces them, if all instances have
// answered, by a rule which says that every member with data must promise: they have all the data
// that still exist. Otherwise it returns the record as it is.
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

// beginsAnew reports whether the record says that all data were lost, and that this instance makes
// new ones.
func (o *Observed) beginsAnew() bool {
	return o.Config.Ephemeral && o.Record.Record.Initialise == o.Me.Name
}
