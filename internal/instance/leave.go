package instance

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// After a handover, the program of a leader that was asked to end goes on without its server for as
// long as the write Service may still route clients to its pod. Their connections are refused at
// once. If the pod were gone, nothing would answer them, and they would wait until their own
// timeout, long after the next leader has taken over.
const (
	// rerouteTime is how long clients may still be routed to a former leader once it knows the next
	// one, whose address is about to be published: kube-proxy applies changes once a second
	// (minSyncPeriod).
	rerouteTime = 1500 * time.Millisecond
	// successorTimeout is how long the program waits for the next leader. An election takes longer
	// only if it fails.
	successorTimeout = 4 * time.Second
)

// leaving returns what the program still waits for before it ends; false if it ends now. Once
// leavesAt is set, the instance is gone for the other members: it makes no more decisions, and does
// not answer them.
func (i *Instance) leaving() (election.Wait, bool) {
	now := i.core.Now
	if i.unansweredResignations > 0 {
		return election.Wait{Until: now + pingTime, For: "the other members to receive its resignation"}, true
	}
	next, isKnown := i.core.Follows()
	isSucceeded := isKnown && next.Term > i.core.Held.Term
	if i.leavesAt == 0 {
		if !i.ledAtStop || !i.core.OthersGoOn() || !isSucceeded && i.isUnheard() {
			return election.Wait{}, false
		}
		i.leavesAt = now + successorTimeout
		i.kill("clients are refused until they are sent to the next leader")
	}
	if isSucceeded && !i.isSucceeded {
		i.isSucceeded, i.leavesAt = true, min(i.leavesAt, now+rerouteTime)
	}
	return election.Wait{Until: i.leavesAt, For: "clients to be sent to the next leader"}, now < i.leavesAt
}

// isLeaving reports whether this instance only waits for its end, and no longer takes part in
// elections.
func (i *Instance) isLeaving() bool { return i.leavesAt != 0 }

// isUnheard reports whether no successor can be expected: this leader has not resigned, no other
// member has answered a ping since it did, or the Lease is gone because the database is deleted.
func (i *Instance) isUnheard() bool {
	view, resigned := &i.core.Record, i.core.Held.ResignedAt
	return view.Known && view.Version == "" || resigned == 0 ||
		!slices.ContainsFunc(i.core.Peers, func(peer election.Peer) bool { return peer.PongSent >= resigned })
}
