package election

import "slices"

// changeRule changes what commits wait for, one step at a time (R7): the new rule is appended to
// those in the record, then set in the server, and once it is settled there, the older rules are
// dropped. Until then, a candidate must cover all of them.
func changeRule(o *Observed) Action {
	record := o.Held.Record
	newest := record.newest()
	if o.Server.State != Leading {
		return nil
	}
	if !o.Server.Rule.Equal(newest) {
		if o.Server.Busy {
			return o.wait("the server's current operation to end, before its rule is set", o.Now+pingEvery)
		}
		return SetRule{Rule: newest}
	}
	if record.Open && len(record.Rules) > 1 && o.Server.Settled {
		record.Rules = []Rule{newest}
		record.Seq++
		return o.write(record, "the newest rule is settled")
	}
	if !record.Open && o.blocked(newest) {
		record.Rules = []Rule{{Leader: o.Me}}
		record.Seq++
		return o.write(record, "its first write would wait for members with diverged data, which are rebuilt only when no rule names them")
	}
	wanted := o.wantedRule(newest)
	if wanted.Equal(newest) || len(record.Rules) >= maxRules {
		return nil
	}
	record.Rules = appended(record.Rules, wanted)
	record.Seq++
	return o.write(record, "the rule changes")
}

// appended returns the rules with rule at their end: added, or moved there.
func appended(rules []Rule, rule Rule) []Rule {
	return append(slices.DeleteFunc(slices.Clone(rules), rule.Equal), rule)
}

// merged returns one rule in place of those of a record that has no room for another one. Answers
// that cover it cover all of them: all members that it names must answer, and together these cover
// each rule. They are as few as possible, of those that would promise or, if a loss was accepted,
// of those that the rules name. It returns false if there is no such rule.
func (o *Observed) merged(rules []Rule, forced bool) (Rule, bool) {
	members, _, _ := o.poll()
	if forced && !cover(rules, members) {
		members = nil
		for _, rule := range rules {
			members = append(append(members, rule.Leader), rule.Set...)
		}
	}
	members = slices.DeleteFunc(sorted(slices.Clone(members)), func(m Member) bool { return !m.HasData() })
	for _, member := range slices.Clone(members) {
		rest := slices.DeleteFunc(slices.Clone(members), func(other Member) bool { return other == member })
		if cover(rules, rest) {
			members = rest
		}
	}
	return Rule{Set: members, Acks: 1}, cover(rules, members)
}

// distinct returns the rules without duplicates.
func distinct(rules []Rule) []Rule {
	var kept []Rule
	for _, rule := range rules {
		if !slices.ContainsFunc(kept, rule.Equal) {
			kept = append(kept, rule)
		}
	}
	return kept
}

// blocked reports whether the first write of a term can't get enough acknowledgements, because
// members have diverged and may not rebuild their data as long as an older rule names them. We have
// everything that was acknowledged, or we could not have been promoted, so a rule that names no
// other member may then replace all older ones. It returns false while our own disk is slow,
// because the others may have to go on without us.
func (o *Observed) blocked(newest Rule) bool {
	if since := o.Server.UnflushedSince; since != 0 && o.Now-since >= silentAfter {
		return false
	}
	named := func(member Member) bool {
		return slices.ContainsFunc(o.Held.Record.Rules, func(rule Rule) bool { return rule.names(member) })
	}
	diverged := slices.ContainsFunc(o.Peers, func(peer Peer) bool { return o.isDiverged(peer.Member) && named(peer.Member) })
	var able []Member
	for _, member := range newest.Set {
		if !o.isDiverged(member) {
			able = append(able, member)
		}
	}
	return diverged && o.missing(able, max(newest.Acks, o.Config.acks(len(newest.Set))))
}

// serverAnswers reports whether our own server has recently said which members receive from it.
// While it hangs, the rule is not reduced to one that names no other member: that would let no
// write proceed, and would keep the other members from leading.
func (o *Observed) serverAnswers() bool { return o.Now-o.Server.ReceiversAt < silentAfter }

// wantedRule returns the rule that fits the members which answer and receive at present.
func (o *Observed) wantedRule(newest Rule) Rule {
	if o.Config.Instances <= 1 {
		return Rule{Leader: o.Me}
	}
	set := o.joined(newest.Set)
	needed := o.Config.acks(len(set))
	set = o.withoutUnwanted(o.withoutGone(set, needed))
	needed = o.Config.acks(len(set))
	if o.Config.Durability != Required && o.serverAnswers() && o.missing(set, needed) {
		return Rule{Leader: o.Me}
	}
	if needed > len(set) {
		return newest
	}
	return Rule{Leader: o.Me, Set: set, Acks: needed, Async: o.Config.Durability == Asynchronous}
}

// joined returns the set, with the members added that follow us, receive, and are near.
func (o *Observed) joined(set []Member) []Member {
	joined := slices.Clone(set)
	for _, member := range o.answered(pingEvery + silentAfter) {
		peer := o.peer(member.Name)
		if peer.Near && o.Now-peer.StreamedAt < silentAfter && !slices.Contains(joined, member) && member.HasData() {
			joined = append(joined, member)
		}
	}
	return sorted(joined)
}

// withoutGone returns the set without the members that will not acknowledge soon: see isGone. At
// least needed members stay.
func (o *Observed) withoutGone(set []Member, needed int) []Member {
	var kept []Member
	for i, member := range set {
		left := len(kept) + len(set) - i
		if o.isGone(member) && left > needed {
			continue
		}
		kept = append(kept, member)
	}
	return kept
}

// withoutUnwanted returns the set without the members whose instances should no longer exist, as
// soon as commits can do without them: the manager removes no pod that a rule names.
func (o *Observed) withoutUnwanted(set []Member) []Member {
	if len(o.Others) == 0 {
		return set // The settings do not say which should exist.
	}
	rest := slices.DeleteFunc(slices.Clone(set), func(member Member) bool { return !slices.Contains(o.Others, member.Name) })
	if needed := max(o.Config.acks(len(rest)), 1); o.missing(rest, needed) {
		return set
	}
	return rest
}

// isGone reports whether the member has been silent for leaveAfter, has diverged, or was replaced
// by another member of its pod.
func (o *Observed) isGone(member Member) bool {
	peer := o.peer(member.Name)
	if peer == nil || peer.Member.HasData() && peer.Member != member {
		return true
	}
	return o.silence(member) >= leaveAfter || o.isDiverged(member)
}

// missing reports whether fewer than needed members of the set have been silent (see silence) for
// less than degradeAfter, so that commits wait.
func (o *Observed) missing(set []Member, needed int) bool {
	there := 0
	for _, member := range set {
		if o.silence(member) < degradeAfter {
			there++
		}
	}
	return there < needed
}
