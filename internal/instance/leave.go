package instance

import (
	"slices"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// A leader that was asked to end stays after it has handed over, without its server, for as long as
// clients may still be sent to it. They are refused at once. When its pod is gone, nothing answers
// them: they wait until their own time is over, long after the next leader is there.
const (
	// rerouted is for how long clients may still be sent to a former leader once the next one is
	// about to be published: kube-proxy carries out changes once a second (minSyncPeriod).
	rerouted = 1500 * time.Millisecond
	// succession is how long the next leader is waited for. Elections take longer only if they fail.
	succession = 4 * time.Second
)

// leaving returns what a program waits for that may end; false if it ends now. A leader that begins
// to leave is gone for the other members: it decides nothing more, and answers none of them.
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
		i.leavesAt = now + succession
		i.kill("clients are refused until they are sent to the next leader")
	}
	if isSucceeded && !i.isSucceeded {
		i.isSucceeded, i.leavesAt = true, min(i.leavesAt, now+rerouted)
	}
	return election.Wait{Until: i.leavesAt, For: "clients to be sent to the next leader"}, now < i.leavesAt
}

// isLeaving reports whether this instance is gone for the other members.
func (i *Instance) isLeaving() bool { return i.leavesAt != 0 }

// isUnheard reports whether no other member has heard that this leader has resigned, or whether the
// database is deleted: then nobody leads next.
func (i *Instance) isUnheard() bool {
	view, resigned := &i.core.Record, i.core.Held.ResignedAt
	return view.Known && view.Version == "" || resigned == 0 ||
		!slices.ContainsFunc(i.core.Peers, func(peer election.Peer) bool { return peer.PongSent >= resigned })
}
