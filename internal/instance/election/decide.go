package election

import "time"

// Decide returns what an instance does next. It is called after each message or result, and at the
// end of a Wait. The first row that applies decides:
//
//	| role     | decides                                            | actions                                          |
//	|----------|----------------------------------------------------|--------------------------------------------------|
//	| any      | a server that may not be writable is killed        | Kill                                             |
//	|          | a promise is given: stop, find the position, answer| Save, Kill, Unfollow, Reply                      |
//	| leader   | pings, hands over, is sick, renews, changes rules  | SendPings, StopCleanly, Kill, WriteRecord,       |
//	|          |                                                    | ReadRecord, SetRule, Publish, Resume             |
//	| candidate| collects promises, promotes, gives up              | Save, Unfollow, RequestPromises, SetRule,        |
//	|          |                                                    | Promote, WriteRecord                             |
//	| standby  | follows, rebuilds its data, stands, ends           | Save, Start, Follow, Unfollow, Replace, Exit,    |
//	|          |                                                    | Initialise, ReadRecord, SendAsk, WriteRecord     |
//
// The numbers R1 to R18 in the comments are the rules of docs/decisions/20261123-failover.md.
func Decide(o *Observed) Action {
	for _, decide := range []func(*Observed) Action{fence, promise, lead, leave, save, elect, restart, stand, follow} {
		if action := decide(o); action != nil {
			return action
		}
	}
	return o.wait("a leader", o.Now+readEvery)
}

// fence kills a server that may accept writes although this member must not lead (R4, R5). A server
// that was stopped cleanly accepts none.
func fence(o *Observed) Action {
	if !o.Server.writable() {
		return nil
	}
	switch {
	case !o.leads():
		return Kill{Why: "another member may lead: " + o.superseded()}
	case !o.mayWrite(o.Config.writeTime() + lastTryTime):
		return Kill{Why: "the Lease was not renewed, and too few members answered, for longer than spec.failover.after allows"}
	}
	return nil
}

// superseded returns why this member no longer leads in its term.
func (o *Observed) superseded() string {
	switch {
	case o.Held.Term == 0:
		return "this program never held the Lease"
	case o.Local.Seen.Term > o.Held.Term || o.Local.Promised.Term > o.Held.Term:
		return "a higher term was seen"
	}
	return "the Lease names another holder"
}

// save writes Observed.Local to the volume if it has changed, before anything depends on it. A
// leader does so last, so that its disk delays nothing that it must do in time. After a failure, it
// does so until it succeeds, even if only a promise could not be stored that is no longer asked
// for: until then this member neither stands nor would promise anything.
func save(o *Observed) Action {
	if o.Local == o.Saved && o.SaveFailedAt == 0 || o.cannotSave() {
		return nil
	}
	return Save{Local: o.Local}
}

// cannotSave reports whether the volume is busy, or has just failed to store something.
func (o *Observed) cannotSave() bool {
	return o.Saving || o.SaveFailedAt != 0 && o.Now-o.SaveFailedAt < readEvery
}

// promiseTo returns the action that makes a promise durable; nil if it is durable already.
func (o *Observed) promiseTo(candidate Promised) Action {
	switch {
	case o.Saved.Promised == candidate:
		return nil
	case o.cannotSave():
		return o.wait("the volume", o.Now+pingEvery)
	}
	return Save{Local: Local{Promised: candidate, Seen: o.Local.Seen}}
}

// wouldPromise reports whether a candidate of that term would get our promise (R1, R8).
func (o *Observed) wouldPromise(term uint64, candidate Member, vacant bool) bool {
	promised := o.Local.Promised
	if promised == (Promised{Term: term, Candidate: candidate}) {
		return true
	}
	if term <= promised.Term {
		return false
	}
	if o.leads() && o.Server.writable() {
		return false
	}
	return !o.leaderAlive(vacant)
}

// promise answers requests for promises, one after the other (R1). The promise is made durable
// before the server is killed or its source is removed, and the position is read after that.
func promise(o *Observed) Action {
	for i := range o.Peers {
		request := o.Peers[i].Request
		if request == nil {
			continue
		}
		if !o.Me.HasData() || !o.wouldPromise(request.Term, request.Candidate, request.Vacant) {
			return Reply{To: o.Peers[i].Name, Promise: o.reply(request.Term, false)}
		}
		if action := o.promiseTo(Promised{Term: request.Term, Candidate: request.Candidate}); action != nil {
			return action
		}
		if action := o.isolate(); action != nil {
			return action
		}
		return Reply{To: o.Peers[i].Name, Promise: o.reply(request.Term, true)}
	}
	return nil
}

func (o *Observed) reply(term uint64, given bool) PromiseReply {
	reply := PromiseReply{Term: term, Member: o.Me, Given: given, Promised: o.Saved.Promised, Seen: o.Saved.Seen}
	if given {
		reply.Position = o.Server.Position
	}
	return reply
}

// isolate returns the next action that makes the server a standby that does not receive and whose
// position is final; nil if it is one.
func (o *Observed) isolate() Action {
	switch {
	case o.Server.Busy:
		return o.wait("the server", o.Now+readEvery)
	case o.Server.writable():
		return Kill{Why: "this member promised to follow another candidate"}
	case o.Server.State == Stopped:
		return Start{}
	case o.Server.Source != Source{}:
		return Unfollow{}
	case !o.Server.Final:
		return o.wait("the position to be final", o.Now+readEvery)
	}
	return nil
}

// wait returns a Wait for what until the time until, or until the next ping is due if this instance
// leads.
func (o *Observed) wait(what string, until time.Duration) Action {
	if o.leads() && o.Server.History != "" && !o.isStranded() {
		until = min(until, o.PingedAt+o.pingPause())
	}
	return Wait{Until: max(until, o.Now), For: what}
}
