package election

import (
	"slices"
	"strings"
	"time"
)

// An instance without data makes new ones by itself in two cases. If data are ephemeral, when all
// instances have lost theirs: see ephemeral.go. If they are stored, when the database never had a
// leader, and no instance has data: volumes that a former database of the name has left need not
// have any, for example if its image could never be pulled. The manager can't see that: it permits
// an instance to initialise only where there are no volumes.
//
// In both cases all instances must have answered that they have no data: one that does not answer
// may have some. Their answers are newer than the record, and the write fails if the record has
// changed since. So no instance can have got data in between: it would have cloned those of a
// leader, or have been permitted to initialise, and both change the record first.

// beginAnew decides for an instance without data to which no leader sends pings. It releases a
// record that an earlier process of its pod still holds. When no instance has data, the one with
// the lowest name writes to the record that it begins, with empty data.
func (o *Observed) beginAnew() Action {
	view := &o.Record
	record := view.Record
	if !o.believed() || !o.mayBegin(record) {
		return nil
	}
	if record.Holder.Member.Name == o.Me.Name && record.Holder.PodUID == o.PodUID {
		return o.release(record, "an earlier process of this pod led, and its data ended with it")
	}
	if slices.ContainsFunc(o.mustAnswer(Record{}), func(name string) bool { return name < o.Me.Name }) {
		return nil // The instance of that name does so.
	}
	if o.mayBeHeld() {
		return o.wait("a former leader to end by itself, if it still runs", view.Since+o.Config.After)
	}
	if o.noneHasData(record) {
		record.System, record.Holder, record.Open, record.Rules, record.Handover = "", Holder{}, false, nil, nil
		record.Initialise = o.Me.Name
		record.Seq++
		return o.write(record, "no instance has data: beginning with empty ones")
	}
	if o.AskedAt != 0 && o.Now-o.AskedAt < o.beginEvery() {
		return o.wait("the other instances to say whether they have data", o.AskedAt+o.beginEvery())
	}
	term := max(record.Term, o.Local.Seen.Term, o.Local.Promised.Term)
	if !o.Config.Ephemeral {
		// Each question has a term of its own, so that no answer to an earlier one counts. Nothing is
		// promised for it.
		term = max(term, o.Asked)
	}
	return SendAsk{Ask: o.ask(1 + term)}
}

// beginEvery returns how often the others are asked whether they have data, and how long their
// answers count. If data are stored, an answer that arrives later does not count at all.
func (o *Observed) beginEvery() time.Duration {
	if o.Config.Ephemeral {
		return readEvery
	}
	return 3 * readEvery
}

// mayBegin reports whether the record, and what else this instance knows, allow it to begin with
// empty data if no other instance has any.
func (o *Observed) mayBegin(record Record) bool {
	if o.Config.Ephemeral {
		isForAnother := record.System == "" && slices.Contains(o.Others, record.Initialise)
		return !isForAnother && !o.Succeeded
	}
	return o.neverLed(record) && !o.Me.HasData() && !o.HasRemains && !o.Config.Stale
}

// neverLed reports whether the record is that of a database that never had a leader and that no
// instance may initialise yet, and this instance has never heard of a leader either.
func (o *Observed) neverLed(record Record) bool {
	return record.Term == 0 && record.System == "" && record.Initialise == "" && o.Local.Seen.Term == 0 && o.Local.Promised.Term == 0
}

// noneHasData reports whether all other instances have answered an Ask, sent after the record was
// seen, that they have no data. A loss that the user accepts is that of instances that do not
// answer.
func (o *Observed) noneHasData(record Record) bool {
	if o.Asked == 0 || o.AskedAt < o.Record.Since || o.Now-o.AskedAt >= o.beginEvery() {
		return false
	}
	isForced := o.Config.AcceptLoss != 0 && o.Config.AcceptLoss == record.Term
	_, all := o.answeredAll(record)
	return (all || isForced) && !slices.ContainsFunc(o.Peers, func(peer Peer) bool {
		return peer.AskReply.Term == o.Asked && o.mayHaveData(peer.AskReply)
	})
}

// mayHaveData reports whether, by its answer, an instance has data. If data are stored, one that
// has heard of a leader counts as if it had: that leader has data, or had.
func (o *Observed) mayHaveData(reply AskReply) bool {
	return reply.Member.HasData() || !o.Config.Ephemeral && max(reply.Seen.Term, reply.Promised.Term) > 0
}

// mustAnswer returns the names of the other instances that may have data: those that should exist,
// and those that the record names. If data are stored, also those that should have existed at any
// time since this program began, because their volumes stay.
func (o *Observed) mustAnswer(record Record) []string {
	names := append(o.named(record), o.Others...)
	if !o.Config.Ephemeral {
		for i := range o.Peers {
			names = append(names, o.Peers[i].Name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

// answeredAll returns the answers to the last Ask from all other instances that may have data. It
// returns false if one is missing.
func (o *Observed) answeredAll(record Record) (replies []AskReply, all bool) {
	names := o.mustAnswer(record)
	for _, name := range names {
		peer := o.peer(name)
		if peer == nil || o.Asked == 0 || peer.AskReply.Term != o.Asked {
			return nil, false
		}
		replies = append(replies, peer.AskReply)
	}
	return replies, o.Config.Ephemeral || len(names) >= o.Config.Instances-1
}

// saysEmpty reports whether this instance, which has no data, may say so in answer to an Ask. With
// that answer, the others no longer wait for its data. If data are ephemeral, it therefore needs
// the conditions of a promise. If they are stored, only an instance without data gets the answer,
// and only while nothing makes or may still have data here.
func (o *Observed) saysEmpty(ask Ask) bool {
	if o.Config.Ephemeral {
		return !o.leaderAlive(ask.Vacant)
	}
	return !ask.Member.HasData() && !o.HasRemains && !o.Server.Busy && o.livingLeader() == nil
}

// lackingToBegin returns why this instance, which has no data, does not initialise the database;
// "" if it does, or if another instance would. The answers to one Ask arrive one by one, so it
// names the instances that have answered none: the reason must not change each second.
func (o *Observed) lackingToBegin() string {
	record := o.Record.Record
	if o.AskedAt == 0 || o.Now-o.AskedAt > 2*o.beginEvery() || !o.believed() || !o.mayBegin(record) {
		return ""
	}
	var silent, having []string
	for _, name := range o.mustAnswer(record) {
		switch peer := o.peer(name); {
		case peer == nil || peer.Member == Member{}:
			silent = append(silent, name)
		case peer.Member.HasData():
			having = append(having, name)
		}
	}
	switch {
	case len(having) > 0:
		return "has no data, and does not initialise the database, because there are data on " + strings.Join(having, ", ")
	case len(silent) > 0:
		return "has no data, and initialises the database only after an answer that there are none on " + strings.Join(silent, ", ")
	}
	return ""
}
