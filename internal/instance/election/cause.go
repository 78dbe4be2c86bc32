package election

import "time"

// Cause is why the previous leader no longer leads, as far as the next one knows.
type Cause string

// The causes. The empty one means that the cause is unknown, for example because the candidate has
// just started.
const (
	// HandedOver: it stopped cleanly, and the successor has all of its writes.
	HandedOver Cause = "HandedOver"
	// Released: it released the record.
	Released Cause = "Released"
	// Resigned: it resigned in its pings, because it could not write the record.
	Resigned Cause = "Resigned"
	// Gone: its program has ended. Its pings stopped, and its port refuses connections.
	Gone Cause = "Gone"
	// Silent: no ping from it arrived for Config.After.
	Silent Cause = "Silent"
	// Forced: a user has accepted that acknowledged writes may be lost, whatever the reason.
	Forced Cause = "Forced"
)

// lastLeader returns the peer that sent pings as the leader of the highest term; nil if none did.
func (o *Observed) lastLeader() *Peer {
	var last *Peer
	for i := range o.Peers {
		if peer := &o.Peers[i]; peer.PingAt != 0 && (last == nil || peer.Ping.Term > last.Ping.Term) {
			last = peer
		}
	}
	return last
}

// cause returns why the leader before a claim no longer leads, and when its last ping arrived; 0 if
// none did. base is the record on which the claim is based. Candidates may have claimed and
// released it since that leader did.
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
