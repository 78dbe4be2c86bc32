package election

import "slices"

// follow decides for a member that neither leads nor is a candidate (R3, R15).
func follow(o *Observed) Action {
	if o.Server.Busy {
		return o.wait("the server", o.Now+readEvery)
	}
	leader := o.livingLeader()
	if leader != nil {
		if action := o.promiseTo(Promised{Term: leader.Ping.Term, Candidate: leader.Ping.Leader}); action != nil {
			return action
		}
	}
	switch {
	case o.Server.State == NoData:
		return o.obtainData(leader)
	case o.Server.State == Standby && o.isOutOfDate():
		return Kill{Why: "the instances have begun anew without its data"}
	case o.Server.State == Stopped && o.Server.Damaged && leader != nil && slices.Contains(leader.Ping.Free, o.Me):
		return o.replace(leader.Ping)
	case o.Server.State == Stopped:
		return Start{}
	case leader == nil:
		return o.wait("a leader", o.Now+readEvery)
	}
	return o.receive(leader.Ping)
}

// receive makes the server receive from a leader whose history contains our data. Data that are not
// part of it, or whose continuation the leader has already removed from its WAL, are rebuilt once
// the leader reports that no rule needs them (Ping.Free).
func (o *Observed) receive(ping Ping) Action {
	source := Source{Leader: ping.Leader, Term: ping.Term}
	switch {
	case o.Server.Source == source && o.Server.LacksLog && slices.Contains(ping.Free, o.Me):
		return o.replace(ping)
	case o.Server.Source == source:
		return nil
	case o.Server.Source != Source{}:
		return Unfollow{}
	case !o.Server.Final:
		return o.wait("the position to be final", o.Now+pingEvery)
	case o.Config.Positions.Holds(ping.History, o.Server.whole()):
		return Follow{Leader: ping.Leader, Term: ping.Term}
	case slices.Contains(ping.Free, o.Me):
		return o.replace(ping)
	}
	return o.wait("the leader to no longer need our diverged data", o.Now+pingEvery)
}

// replace rebuilds our data from those of the leader, unless that failed too recently: for each
// attempt, the leader's server sends all its data.
func (o *Observed) replace(ping Ping) Action {
	source := Source{Leader: ping.Leader, Term: ping.Term}
	if o.FailedClone == source && o.Now < o.CloneAt {
		return o.wait("the next attempt to rebuild the data", min(o.Now+readEvery, o.CloneAt))
	}
	return Replace(source)
}

// obtainData clones the data of a leader, or initialises those of a new database if the record
// names this instance for that. Otherwise it waits, because other members may have data.
func (o *Observed) obtainData(leader *Peer) Action {
	if leader != nil {
		return o.replace(leader.Ping)
	}
	view := &o.Record
	if view.InFlight || view.Stale || !view.Known || view.isOld(o.Now) {
		return o.read()
	}
	if o.believed() && view.Record.System == "" && view.Record.Initialise == o.Me.Name && (o.Local.Seen.Term == 0 || o.Config.Ephemeral) &&
		(view.Record.Term == 0 || view.Record.Seq == o.BegunSeq && !o.Succeeded || !o.Config.Ephemeral) {
		return Initialise{}
	}
	if action := o.beginAnew(); action != nil {
		return action
	}
	return o.wait("a leader whose data could be cloned", o.Now+readEvery)
}
