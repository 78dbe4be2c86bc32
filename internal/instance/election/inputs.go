package election

import "time"

// Outcome is the result of a WriteRecord.
type Outcome int

// The outcomes. Conflict means that the Lease has another version. Unanswered is any result after
// which it is unknown whether the write was done: a timeout, a reset, a server error.
const (
	Done Outcome = iota
	Conflict
	Unanswered
)

// ReadResult is the answer to a ReadRecord.
type ReadResult struct {
	// Sent is when the read was sent.
	Sent time.Duration
	// Failed is true if there was no answer; then all other fields but Sent are meaningless.
	Failed bool
	// Version is "" if there is no Lease.
	Version string
	Record  Record
	// Damaged is true if the annotation could not be decoded.
	Damaged bool
}

// Reading notes that the record is being read.
func (o *Observed) Reading() { o.Record.InFlight = true }

// HeardRecord notes the answer to a ReadRecord.
func (o *Observed) HeardRecord(result ReadResult) {
	view := &o.Record
	view.InFlight, view.TriedAt, view.Failed = false, result.Sent, result.Failed
	if result.Failed {
		return
	}
	view.HeardAt = o.Now
	if view.Version != result.Version || view.Since == 0 {
		view.Since = o.Now
	}
	if !result.Damaged && result.Version != "" {
		o.noteSuccessor(result.Record)
	}
	view.Known, view.Stale, view.ReadAt = true, false, result.Sent
	view.Version, view.Record, view.Damaged = result.Version, result.Record, result.Damaged
	if o.believed() {
		o.see(seenIn(view.Record))
		o.know(view.Record)
	} else if o.Held.Published {
		o.Held.Republish = true
	}
	if o.recordIsMine() && o.believed() {
		// This may be the result of a write of ours that had no answer. It is unknown which one, so it
		// counts as a renewal at the time of the first one, which made us the holder.
		o.Held.RenewedAt = max(o.Held.RenewedAt, o.Held.Claimed)
		o.Held.Record = view.Record
	}
}

func seenIn(record Record) Seen {
	return Seen{Term: record.Term, Seq: record.Seq, Timeline: record.Timeline}
}

// Writing notes that the record is being written. It may be one that names us as the holder, or a
// release. If a read finds that record before the answer arrives, the record counts as ours.
func (o *Observed) Writing(write WriteRecord) {
	o.Record.InFlight = true
	record := write.Record
	if o.beginsByName(record) {
		o.BegunSeq = record.Seq
	}
	isOver := record.Released() && record.Handover == nil && record.System != ""
	if isOver && len(o.Peers) > 0 && (o.Held.Promoted || record.Term != o.Held.Term) {
		o.StandsAt = o.Now + electionTime
	}
	if record.Released() && record.Term == o.Held.Term {
		if !o.Held.Releasing && !o.Held.Promoted {
			o.Unmet++
		}
		o.Held.Releasing = true
	}
	if record.Holder != (Holder{Member: o.Me, PodUID: o.PodUID}) {
		return
	}
	if record.Term == o.Held.Term {
		if o.Held.RenewedAt == 0 {
			// The same claim is tried again, perhaps for another reason.
			o.Held.Claimed, o.Held.Forced, o.Held.Vacant = o.Now, write.Forced, write.Vacant
			o.Held.Cause, o.Held.Heard = write.Cause, write.Heard
		}
		return
	}
	o.Held = Held{
		Term: record.Term, FromSeq: record.Seq, Claimed: o.Now,
		Promoted: record.Open, Forced: write.Forced, Vacant: write.Vacant, Cause: write.Cause, Heard: write.Heard,
	}
}

// HeardWrite notes the result of a WriteRecord that was sent at the time sent. version is the new
// version of the Lease, if the outcome is Done.
func (o *Observed) HeardWrite(write WriteRecord, sent time.Duration, outcome Outcome, version string) {
	view := &o.Record
	view.InFlight = false
	if outcome != Done {
		view.Stale, view.Failed = true, view.Failed || outcome == Unanswered
		return
	}
	view.Known, view.Stale, view.Damaged, view.Failed = true, false, false, false
	view.Version, view.Record, view.Since, view.ReadAt = version, write.Record, o.Now, sent
	o.see(seenIn(write.Record))
	if o.recordIsMine() {
		// A release without an answer carries an older version, so that it fails if it arrives
		// late.
		o.Held.Releasing = false
		o.Held.RenewedAt = max(o.Held.RenewedAt, sent)
		o.Held.Record = view.Record
	}
}

// RecordChanged notes that the Lease has this version. If it is another one than we know, its age
// counts from now, although it is read later.
func (o *Observed) RecordChanged(version string) {
	view := &o.Record
	if version != view.Version {
		view.Version, view.Since, view.Stale = version, o.Now, true
	}
}

// see notes a term, seq and timeline if they are the highest so far. They are saved before anything
// depends on them. Values that no number of elections can reach are ignored: an election needs
// higher ones, and there would be none.
func (o *Observed) see(seen Seen) {
	if seen.isPossible() {
		o.Local.Seen = o.Local.Seen.merge(seen)
	}
}

// Heartbeat notes the state of our server, as the loop has measured it. After a pause of the loop
// itself, the caller measures anew, because the pause says nothing about the server. After a time
// of degradeAfter or more in which the server did not say which members receive from it, their
// silence counts from the end of that time, which says nothing about them.
func (o *Observed) Heartbeat(server Server) {
	if server.ReceiversAt-o.Server.ReceiversAt >= degradeAfter {
		o.WatchedSince = server.ReceiversAt
	}
	o.Server = server
}

// Streams notes that, by our server, a member has received and flushed something, and whether it is
// near: about to have everything. It ignores a former member of the same pod.
func (o *Observed) Streams(member Member, near bool) {
	if peer := o.peer(member.Name); peer != nil && peer.Member == member {
		peer.StreamedAt, peer.Near = o.Now, near
	}
}

// HeardPing notes a ping and returns its answer. It returns false, and notes nothing, if the ping
// is from another database or from an unknown instance.
func (o *Observed) HeardPing(ping Ping) (Pong, bool) {
	peer := o.peer(ping.Leader.Name)
	if peer == nil || o.System != "" && ping.System != o.System || !(Seen{Term: ping.Term}).isPossible() {
		return Pong{}, false
	}
	o.see(ping.Seen)
	if o.mayFollow(&ping) && ping.Term >= peer.Ping.Term {
		peer.Member, peer.Ping, peer.PingAt, peer.Gone, o.Unmet = ping.Leader, ping, o.Now, ping.Resigned, 0
		o.learn(ping.Addresses)
		o.RecordChanged(ping.Version)
	}
	return Pong{
		Member: o.Me, Promised: o.Saved.Promised, Position: o.Server.Position, Seen: o.Saved.Seen, Diverged: o.diverged(ping),
		Unstored: o.Server.Unstored, Address: o.Address,
	}, true
}

// diverged reports whether our data can only be rebuilt: they are known not to be part of the
// leader's history, or to be damaged, or the leader's WAL no longer has what follows them.
func (o *Observed) diverged(ping Ping) bool {
	if o.Server.Damaged || o.Server.LacksLog && o.Server.Source == (Source{Leader: ping.Leader, Term: ping.Term}) {
		return true
	}
	return o.Server.State == Standby && o.Server.Final && o.Server.Source == Source{} &&
		!o.Config.Positions.Holds(ping.History, o.Server.whole())
}

// CloneFailed notes that the data of a leader could not be cloned, and until when that is not tried
// again.
func (o *Observed) CloneFailed(source Source, until time.Duration) {
	o.FailedClone, o.CloneAt = source, until
}

// HeardPong notes the answer to a ping that was sent at the time sent.
func (o *Observed) HeardPong(pong Pong, sent time.Duration) {
	peer := o.peer(pong.Member.Name)
	if peer == nil {
		return
	}
	o.see(pong.Seen)
	o.see(Seen{Term: pong.Promised.Term})
	if pong.Promised.Term == o.Held.Term && pong.Promised.Candidate != o.Me && o.leads() {
		// Two members claimed one term, so the record was set back in between. Only an election by
		// all members, in a higher term, is safe then (R16).
		o.see(Seen{Term: o.Held.Term + 1})
	}
	if sent > peer.PongSent {
		if peer.PongSent != 0 && peer.Pong.Member != pong.Member {
			peer.Before, peer.BeforeSent = peer.Pong, peer.PongSent
		}
		peer.Member, peer.Pong, peer.PongSent = pong.Member, pong, sent
		o.learn(map[string]string{pong.Member.Name: pong.Address})
	}
}

// learn notes the IP addresses of other instances, by the names of their pods.
func (o *Observed) learn(addresses map[string]string) {
	for i := range o.Peers {
		if address := addresses[o.Peers[i].Name]; address != "" {
			o.Peers[i].Address = address
		}
	}
}

// Addresses returns the known IP addresses of all instances, by the names of their pods.
func (o *Observed) Addresses() map[string]string {
	known := map[string]string{}
	if o.Address != "" {
		known[o.Me.Name] = o.Address
	}
	for i := range o.Peers {
		if address := o.Peers[i].Address; address != "" {
			known[o.Peers[i].Name] = address
		}
	}
	return known
}

// HeardAsk returns the answer to an Ask; false if it gets none. It changes nothing but the highest
// values seen. A member whose volume fails would promise nothing: each claim that waits for it in
// vain uses up a term and a timeline.
func (o *Observed) HeardAsk(ask Ask) (AskReply, bool) {
	if !o.Me.HasData() && o.saysEmpty(ask) {
		return AskReply{Term: ask.Term, Member: o.Me, Promised: o.Saved.Promised, Seen: o.Saved.Seen}, true
	}
	if !o.Me.HasData() || ask.System != o.System {
		return AskReply{}, false
	}
	o.see(ask.Seen)
	return AskReply{
		Term: ask.Term, Member: o.Me, Would: o.SaveFailedAt == 0 && o.wouldPromise(ask.Term, ask.Member, ask.Vacant),
		Promised: o.Saved.Promised, Position: o.Server.Position, Seen: o.Saved.Seen,
	}, true
}

// HeardAskReply notes the answer to our last Ask.
func (o *Observed) HeardAskReply(reply AskReply) {
	if peer := o.peer(reply.Member.Name); peer != nil && reply.Term == o.Asked {
		o.see(reply.Seen)
		peer.Member, peer.AskReply = reply.Member, reply
	}
}

// HeardPromiseRequest notes a request for our promise. Decide returns the Reply. A request for
// another database is ignored.
func (o *Observed) HeardPromiseRequest(request PromiseRequest) {
	peer := o.peer(request.Candidate.Name)
	if peer == nil || !o.Me.HasData() || request.System != o.System || !(Seen{Term: request.Term}).isPossible() {
		return
	}
	// A promise is requested after the record was claimed, so the previous leader has lost the
	// record.
	o.see(request.Seen)
	o.see(Seen{Term: request.Term})
	if peer.Request == nil || peer.Request.Term <= request.Term {
		peer.Request = &request
	}
}

// Replied notes that the peer's request for a promise was answered.
func (o *Observed) Replied(name string) {
	if peer := o.peer(name); peer != nil {
		peer.Request = nil
	}
}

// HeardPromise notes the answer to our PromiseRequest.
func (o *Observed) HeardPromise(reply PromiseReply) {
	peer := o.peer(reply.Member.Name)
	if peer == nil || reply.Term != o.Held.Term {
		return
	}
	o.see(reply.Seen)
	peer.Member, peer.PromiseReply = reply.Member, reply
}

// Refused notes that no more pings arrived from a peer, and that its port has refused two
// connections since. With Asynchronous it is ignored, because there only time keeps a former leader
// from accepting writes.
func (o *Observed) Refused(name string) {
	if peer := o.peer(name); peer != nil && o.Config.Durability != Asynchronous {
		peer.Gone = true
	}
}

// SavingLocal notes that something is being written to the volume.
func (o *Observed) SavingLocal() { o.Saving = true }

// SaveFailed notes that a Save failed. It is retried after a pause.
func (o *Observed) SaveFailed() { o.Saving, o.SaveFailedAt = false, o.Now }

// SavedLocal notes that a Save succeeded.
func (o *Observed) SavedLocal(local Local) {
	o.Saved, o.Local.Promised, o.Saving, o.SaveFailedAt = local, local.Promised, false, 0
	o.see(local.Seen)
}

// Asking notes that an Ask for the term is sent. jitter is a random duration, by which the
// candidate waits longer for answers.
func (o *Observed) Asking(term uint64, jitter time.Duration) {
	for i := range o.Peers {
		peer := &o.Peers[i]
		peer.EarlierReply = AskReply{}
		if o.hasAsked() && peer.AskReply.Term == o.Asked {
			peer.EarlierReply = peer.AskReply
		}
		peer.AskReply = AskReply{}
	}
	o.Asked, o.AskedAt, o.Jitter = term, o.Now, jitter
}

// Requested notes that the promises are requested.
func (o *Observed) Requested() { o.Held.RequestedAt = o.Now }

// Pinged notes that pings are sent, and whether they say that this leader has resigned.
func (o *Observed) Pinged(resigned bool) {
	if resigned && !o.Held.Resigned {
		o.Held.ResignedAt = o.Now
	}
	o.PingedAt, o.Held.Resigned = o.Now, resigned
}

// Promoting notes that the promotion of the server begins.
func (o *Observed) Promoting() { o.Held.Promoted, o.Unmet = true, 0 }

// StoppingFor notes that the server is being stopped for a handover to the member; the zero value
// means none.
func (o *Observed) StoppingFor(member Member) { o.Held.StopFor, o.Held.StopAt = member, o.Now }

// Publishing notes that our address is being put into the EndpointSlice, if it is not there.
func (o *Observed) Publishing() { o.Held.PublishAt = o.Now }

// PublishFailed notes that the EndpointSlice may not have our address. It is tried again soon.
func (o *Observed) PublishFailed() { o.Held.Republish = o.Held.Published }

// PublishedAddress notes that the EndpointSlice has our address, in that term.
func (o *Observed) PublishedAddress(term uint64) {
	if o.Held.Term != term {
		return
	}
	o.Held.Published, o.Held.Republish = true, false
	if o.Held.Heard != 0 && o.Held.Gap == 0 {
		o.Held.Gap = o.Now - o.Held.Heard
	}
}

// Became notes that our data were replaced, or lost: we are another member now, of that database
// system, and answers to what the former one has asked no longer count. timeline is the highest
// that the new data know of.
func (o *Observed) Became(me Member, system string, timeline uint32) {
	if o.Me.HasData() && o.Config.Ephemeral {
		o.Former = append(o.Former, o.Me)
	}
	o.Me, o.System, o.Asked, o.AskedAt = me, system, 0, 0
	o.see(Seen{Timeline: timeline})
}

// Found notes to which database system the data on our volume belong, and the highest timeline that
// they know of. An earlier program may have made them, and have ended before it could store that.
func (o *Observed) Found(system string, timeline uint32) {
	o.System = system
	o.see(Seen{Timeline: timeline})
}

// Began notes that this process has initialised our data, as those of a new database.
func (o *Observed) Began() { o.Begun = o.System }

// Configured notes the settings, and the names of the other instances that should exist. Messages
// of an instance that should no longer exist are still processed, because a rule may need it.
func (o *Observed) Configured(config Config, others []string) {
	wasAlone := o.Config.Instances == 1 && !o.mustHear()
	o.Config, o.Others = config, others
	if wasAlone && o.mustHear() {
		o.AloneUntil = o.Now
	}
	for _, name := range others {
		if name != o.Me.Name && o.peer(name) == nil {
			o.Peers = append(o.Peers, Peer{Name: name})
		}
	}
}
