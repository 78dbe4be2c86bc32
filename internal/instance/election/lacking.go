package election

import (
	"slices"
	"time"
)

// askedLately is how long after an Ask its answers still say why this candidate does not lead. It
// is longer than the time until the next one: 2.3 s, and a read of the record before it.
const askedLately = 6 * time.Second

// hasAsked reports whether this candidate has sent an Ask lately.
func (o *Observed) hasAsked() bool { return o.AskedAt != 0 && o.Now-o.AskedAt <= askedLately }

// Lacking returns why this candidate does not lead, or does not initialise the database: the
// members without whose answers acknowledged writes could be lost. It returns "" if none is
// missing, or if it has not sent an Ask lately. It returns the same from one Ask to the next, and
// while their answers arrive, unless other members answer than before.
func (o *Observed) Lacking() string {
	if !o.Me.HasData() && !o.Config.Ephemeral {
		return o.lackingToBegin()
	}
	if unready := o.unready(); unready != "" && o.livingLeader() == nil {
		return unready
	}
	if o.leads() || !o.hasAsked() {
		return ""
	}
	known := o.withEarlierReplies()
	record, complete := known.base()
	willing, _, _ := known.poll()
	record = known.withoutLost(record)
	for _, rule := range record.Rules {
		if !rule.CoveredBy(willing) {
			return "may lack acknowledged writes, and needs the answer of " + rule.others(willing) + " to lead"
		}
	}
	if o.believed() && len(record.Rules) == 0 {
		return "has data that no primary has written yet, and does not know whether others have newer ones: " +
			"if none are needed, delete the database and its volumes, and create it again"
	}
	if !complete {
		return "needs the answers of all instances to lead, because the Lease does not say where the acknowledged writes are"
	}
	return ""
}

// unready says that this candidate's own server can't be promoted yet; "" if that is not so.
func (o *Observed) unready() string {
	if o.Server.State != Standby || !o.Server.Busy {
		return ""
	}
	return "this instance's own server is not ready: it still replays, or stores, what it has received"
}

// withEarlierReplies returns a copy in which a peer that has not answered the last Ask yet counts
// with its answer to the one before. It is only for texts: no election rests on such answers.
func (o *Observed) withEarlierReplies() *Observed {
	known := *o
	known.Peers = slices.Clone(o.Peers)
	for i := range known.Peers {
		if peer := &known.Peers[i]; peer.AskReply.Term != o.Asked && peer.EarlierReply.Term != 0 {
			peer.AskReply = peer.EarlierReply
			peer.AskReply.Term = o.Asked
		}
	}
	return &known
}

// Unheard returns the name of the leader in the record, if no pings of it arrive although it may
// well live: something keeps it from reaching this instance. It returns "" if there is none.
func (o *Observed) Unheard() string {
	record := &o.Record.Record
	holder := record.Holder.Member.Name
	isGone := record.Released() || o.isKnownGone(record.Holder.Member, record.Term)
	if !o.believed() || !record.Open || isGone || holder == o.Me.Name || o.livingLeader() != nil {
		return ""
	}
	return holder
}
