package instance

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// How long the instance waits for answers. A ping without an answer after some time counts as lost;
// a promise takes as long as a server needs to stop receiving.
const (
	pingTime        = 2 * time.Second
	resignationTime = 500 * time.Millisecond
	askTime         = 2 * time.Second
	promiseTime     = 10 * time.Second
	// maxPings is how many pings to one peer may be unanswered before no more are sent.
	maxPings = 2
)

var errEnding = errors.New("this instance is ending")

// HandlePing answers the ping of a leader; false if it is for another database, or if this instance
// is leaving.
func (i *Instance) HandlePing(ctx context.Context, ping election.Ping) (pong election.Pong, ok bool) {
	answered := make(chan struct{})
	posted := i.post(ctx, func() {
		defer close(answered)
		pong, ok = i.core.HeardPing(ping)
		ok = ok && !i.isLeaving()
	})
	if !posted {
		return election.Pong{}, false
	}
	<-answered
	return pong, ok
}

// HandleAsk answers whether this member would promise; false if it has no data of that database, or
// is leaving.
func (i *Instance) HandleAsk(ctx context.Context, ask election.Ask) (reply election.AskReply, ok bool) {
	answered := make(chan struct{})
	posted := i.post(ctx, func() {
		defer close(answered)
		reply, ok = i.core.HeardAsk(ask)
		ok = ok && !i.isLeaving()
	})
	if !posted {
		return election.AskReply{}, false
	}
	<-answered
	return reply, ok
}

// HandlePromise answers a request for a promise when the decision is durable and the server no
// longer receives. It fails if the request is for another database, or if the candidate asks again
// before that, or if this instance is leaving.
func (i *Instance) HandlePromise(ctx context.Context, request election.PromiseRequest) (election.PromiseReply, error) {
	candidate := request.Candidate.Name
	replies := make(chan election.PromiseReply, 1)
	leaves := false
	posted := i.post(ctx, func() {
		if leaves = i.isLeaving(); leaves {
			close(replies)
			return
		}
		if before, waits := i.requests[candidate]; waits {
			close(before)
		}
		i.requests[candidate] = replies
		i.core.HeardPromiseRequest(request)
	})
	if !posted {
		return election.PromiseReply{}, errEnding
	}
	select {
	case reply, ok := <-replies:
		switch {
		case ok:
			return reply, nil
		case leaves:
			return election.PromiseReply{}, errEnding
		}
		return election.PromiseReply{}, errors.New("the candidate has asked again")
	case <-i.done:
		return election.PromiseReply{}, errEnding
	case <-ctx.Done():
		i.post(context.WithoutCancel(ctx), func() { i.forget(candidate, replies) })
		return election.PromiseReply{}, ctx.Err()
	}
}

// forget drops the request of a peer that no longer waits, so that those of others are answered.
func (i *Instance) forget(candidate string, replies chan<- election.PromiseReply) {
	if i.requests[candidate] == replies {
		delete(i.requests, candidate)
		i.core.Replied(candidate)
	}
}

// reply answers the request of a peer.
func (i *Instance) reply(action election.Reply) {
	i.core.Replied(action.To)
	if replies, waits := i.requests[action.To]; waits {
		delete(i.requests, action.To)
		replies <- action.Promise
	}
	i.Log.Info("a promise was requested", "by", action.To, "term", action.Promise.Term, "given", action.Promise.Given)
}

// others returns the names of the other instances.
func (i *Instance) others() []string {
	var names []string
	for index := range i.core.Peers {
		names = append(names, i.core.Peers[index].Name)
	}
	return names
}

// sendPings sends a ping to every peer. A peer that does not answer gets no more than it could
// answer at once after its return.
func (i *Instance) sendPings(ctx context.Context, ping election.Ping) {
	i.core.Pinged(ping.Resigned)
	sent, limit := i.now(), pingTime
	if ping.Resigned {
		limit = resignationTime
	}
	for _, to := range i.others() {
		if i.pinging[to] >= maxPings && !ping.Resigned {
			continue
		}
		i.pinging[to]++
		i.unansweredResignations += asNumber(ping.Resigned)
		i.inBackground(ctx, limit, func(ctx context.Context) func() {
			pong, err := i.Peers.Ping(ctx, to, ping)
			return func() {
				i.pinging[to]--
				i.unansweredResignations -= asNumber(ping.Resigned)
				if err == nil {
					i.core.HeardPong(pong, sent)
				}
			}
		})
	}
}

func asNumber(is bool) int {
	if is {
		return 1
	}
	return 0
}

// sendAsk asks every peer whether it would promise.
func (i *Instance) sendAsk(ctx context.Context, ask election.Ask) {
	i.core.Asking(ask.Term, randomJitter())
	for _, to := range i.others() {
		i.inBackground(ctx, askTime, func(ctx context.Context) func() {
			reply, err := i.Peers.Ask(ctx, to, ask)
			return func() {
				if err == nil {
					i.core.HeardAskReply(reply)
				}
			}
		})
	}
}

// requestPromises asks every peer for its promise, unless an answer is pending.
func (i *Instance) requestPromises(ctx context.Context, request election.PromiseRequest) {
	i.core.Requested()
	for _, to := range i.others() {
		if i.asking[to] == request.Term {
			continue
		}
		i.asking[to] = request.Term
		i.inBackground(ctx, promiseTime, func(ctx context.Context) func() {
			reply, err := i.Peers.Promise(ctx, to, request)
			return func() {
				if i.asking[to] == request.Term {
					i.asking[to] = 0
				}
				if err == nil {
					i.core.HeardPromise(reply)
				}
			}
		})
	}
}

// quiet is the time without a ping after which the instance checks whether the leader's port
// refuses connections, because its program has ended.
const quiet = 700 * time.Millisecond

// probeEvery is how often the port of a quiet leader is checked.
const probeEvery = 500 * time.Millisecond

// never is a time that no instance reaches.
const never = time.Duration(math.MaxInt64)

// probeLeader checks whether the port of a quiet leader refuses connections.
func (i *Instance) probeLeader(ctx context.Context) {
	leader, silence := i.core.Quiet()
	if i.probing || leader == "" || silence < quiet || time.Now().Before(i.nextProbe) {
		return
	}
	i.probing, i.nextProbe = true, time.Now().Add(probeEvery)
	i.inBackground(ctx, pingTime, func(ctx context.Context) func() {
		refused := i.Peers.Refused(ctx, leader)
		return func() {
			i.probing = false
			if now, silence := i.core.Quiet(); refused && now == leader && silence >= quiet {
				i.Log.Info("the leader's port refuses connections: its program has ended", "leader", leader)
				i.core.Refused(leader)
			}
		}
	})
}

// probesLeaderAt returns when the leader will have been quiet for long enough to check its port.
func (i *Instance) probesLeaderAt() time.Duration {
	leader, silence := i.core.Quiet()
	if i.probing || leader == "" {
		return never
	}
	return i.now() + max(quiet-silence, time.Until(i.nextProbe), 0)
}

// inBackground runs a function in another goroutine, and passes its result to the loop.
func (i *Instance) inBackground(ctx context.Context, limit time.Duration, do func(context.Context) func()) {
	go func() {
		limited, cancel := context.WithTimeout(ctx, limit)
		note := do(limited)
		cancel()
		i.post(ctx, note)
	}()
}
