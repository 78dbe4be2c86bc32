package election

import "time"

// Cause is why the previous leader no longer leads, as far as the next one knows.
type Cause string

// The causes. The empty one means that the cause is unknown, for example because the candidate has
// just started.
const (
	// HandedOver: it stopped cleanly for its successor.
	HandedOver Cause = "HandedOver"
	// Released: it released the record.
	Released Cause = "Released"
	// Resigned: it resigned in its pings, because it could not write the record.
	Resigned Cause = "Resigned"
	// Gone: its program has ended. The stream of pings was cut, and its port refuses connections.
	Gone Cause = "Gone"
	// Silent: no ping of it arrived for Config.After.
	Silent Cause = "Silent"
	// Forced: it does not matter, because a user accepts that acknowledged writes may be lost.
	Forced Cause = "Forced"
)

// lastLeader returns the peer whose ping as leader arrived last; nil if there was none.
func (o *Observed) lastLeader() *Peer {
	var last *Peer
	for i := range o.Peers {
		if peer := &o.Peers[i]; peer.PingAt != 0 && (last == nil || peer.Ping.Term > last.Ping.Term) {
			last = peer
		}
	}
	return last
}

// cause returns why the leader before a claim on that record no longer leads, and when its last
// ping arrived; 0 if none did. Candidates may have claimed and released the record since.
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
