package election

import "time"

// Cause is why the leader before a term leads no more, as far as the next one knows.
type Cause string

// The causes. The empty one is that nothing is known: the candidate has just been started, say.
const (
	// HandedOver: it stopped cleanly for its successor.
	HandedOver Cause = "HandedOver"
	// Released: it wrote that it leads no more.
	Released Cause = "Released"
	// Resigned: it told the others so, because it could not write it.
	Resigned Cause = "Resigned"
	// Gone: its program has ended: the stream of pings was cut, and its port refuses connections.
	Gone Cause = "Gone"
	// Silent: it was not heard for Config.After.
	Silent Cause = "Silent"
	// Forced: it does not matter, because a user accepts that acknowledged writes may be lost.
	Forced Cause = "Forced"
)

// lastLeader returns the peer that was last heard to lead; nil if none was.
func (o *Observed) lastLeader() *Peer {
	var last *Peer
	for i := range o.Peers {
		if peer := &o.Peers[i]; peer.PingAt != 0 && (last == nil || peer.Ping.Term > last.Ping.Term) {
			last = peer
		}
	}
	return last
}

// cause returns why the leader before a claim on that record leads no more, and when it was last
// heard; 0 if it never was. Candidates may have claimed and released the record since.
func (o *Observed) cause(base Record, forced bool) (why Cause, heard time.Duration) {
	last := o.lastLeader()
	if last != nil {
		heard = last.PingAt
	}
	switch {
	case forced:
		why = Forced
	case base.Handover != nil && base.Handover.To == o.Me:
		why = HandedOver
	case last == nil:
	case base.Released() && base.Term == last.Ping.Term:
		why = Released
	case last.Ping.Resigned:
		why = Resigned
	case last.Gone:
		why = Gone
	case o.Now-last.PingAt >= o.Config.After:
		why = Silent
	}
	return why, heard
}
