package election

import "slices"

// changeRule changes what commits wait for, one step at a time (R7): the new rule is appended to
// the record, then set in the server, and when it is settled there, the older ones are dropped.
// Until then, a candidate must cover both.
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

// appended returns the rules with one moved or added to their end.
func appended(rules []Rule, rule Rule) []Rule {
	return append(slices.DeleteFunc(slices.Clone(rules), rule.Equal), rule)
}

// distinct returns the rules, each once.
func distinct(rules []Rule) []Rule {
	var kept []Rule
	for _, rule := range rules {
		if !slices.ContainsFunc(kept, rule.Equal) {
			kept = append(kept, rule)
		}
	}
	return kept
}

// blocked reports whether the first write of a term waits for too few members, while others have
// diverged and may not rebuild their data, because an older rule names them. All that was
// acknowledged is on us, which is why we could promote, so a rule that names no other member may
// replace every older one. It does not while our own disk is slow, because the others may have to
// go on without us.
func (o *Observed) blocked(newest Rule) bool {
	if since := o.Server.UnflushedSince; since != 0 && o.Now-since >= silent {
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

// serverAnswers reports whether our own server says who receives from it. While it hangs, no write
// goes on, whatever that waits for, and a rule that names no other member lets none of them lead.
func (o *Observed) serverAnswers() bool { return o.Now-o.Server.ReceiversAt < silent }

// wantedRule returns the rule for the members that answer and receive now.
func (o *Observed) wantedRule(newest Rule) Rule {
	if o.Config.Instances <= 1 {
		return Rule{Leader: o.Me}
	}
	set := o.joined(newest.Set)
	needed := o.Config.acks(len(set))
	set = o.withoutGone(set, needed)
	needed = o.Config.acks(len(set))
	if o.Config.Durability != Required && o.serverAnswers() && o.missing(set, needed) {
		return Rule{Leader: o.Me}
	}
	if needed > len(set) {
		return newest
	}
	return Rule{Leader: o.Me, Set: set, Acks: needed, Async: o.Config.Durability == Asynchronous}
}

// joined returns the set with the members that follow us and have nearly all data.
func (o *Observed) joined(set []Member) []Member {
	joined := slices.Clone(set)
	for _, member := range o.answered(pingEvery + silent) {
		peer := o.peer(member.Name)
		if peer.Near && o.Now-peer.StreamedAt < silent && !slices.Contains(joined, member) && member.HasData() {
			joined = append(joined, member)
		}
	}
	return sorted(joined)
}

// withoutGone returns the set without the members that will not acknowledge soon: silent for long,
// diverged, or replaced by another member. At least as many stay as a commit needs.
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

func (o *Observed) isGone(member Member) bool {
	peer := o.peer(member.Name)
	if peer == nil || peer.Member.HasData() && peer.Member != member {
		return true
	}
	return o.silence(member) >= leaveAfter || o.isDiverged(member)
}

// missing reports whether too few of the set have answered recently, so that commits wait.
func (o *Observed) missing(set []Member, needed int) bool {
	there := 0
	for _, member := range set {
		if o.silence(member) < degradeAfter {
			there++
		}
	}
	return there < needed
}
