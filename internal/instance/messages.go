package instance

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// How long the instance waits for answers to its messages. A promise may take long: the server has
// to stop receiving first.
const (
	pingTime        = 2 * time.Second
	resignationTime = 500 * time.Millisecond
	askTime         = 2 * time.Second
	promiseTime     = 10 * time.Second
	// maxPings is how many pings to one peer may be unanswered at a time: until then no more are sent
	// to it.
	maxPings = 2
)

var errEnding = errors.New("this instance is ending")

// HandlePing returns the answer to a leader's ping; false if the ping is for another database, or
// if this instance is leaving.
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

// HandleAsk returns whether this member would promise; false if it has no data of that database, or
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

// HandlePromise returns the answer to a request for a promise, once the promise is durable and the
// server no longer receives. It fails if ctx ends first, if the candidate asks again meanwhile, or
// if this instance is leaving. A request for another database gets no answer before ctx ends.
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

// forget drops the request of a peer that no longer waits, so that others are answered.
func (i *Instance) forget(candidate string, replies chan<- election.PromiseReply) {
	if i.requests[candidate] == replies {
		delete(i.requests, candidate)
		i.core.Replied(candidate)
	}
}

// reply answers a peer's request for a promise.
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

// sendPings sends a ping to every peer, except those with maxPings unanswered pings: so a peer that
// comes back is not flooded. A resignation is always sent.
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
				i.noteAnswer(to, err)
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
				i.noteAnswer(to, err)
				if err == nil {
					i.core.HeardAskReply(reply)
				}
			}
		})
	}
}

// requestPromises asks every peer for its promise, except those whose answer for this term is
// pending.
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
				i.noteAnswer(to, err)
				if err == nil {
					i.core.HeardPromise(reply)
				}
			}
		})
	}
}

// quietAfter is the time without a ping after which the instance checks whether the leader's port
// refuses connections, because its program has ended.
const quietAfter = 700 * time.Millisecond

// probeEvery is how often the port of a quiet leader is checked.
const probeEvery = 500 * time.Millisecond

// never is a time of the election's clock that is never reached.
const never = time.Duration(math.MaxInt64)

// probeLeader checks whether the port of a quiet leader refuses connections.
func (i *Instance) probeLeader(ctx context.Context) {
	leader, silence := i.core.Quiet()
	if i.probing || leader == "" || silence < quietAfter || time.Now().Before(i.nextProbe) {
		return
	}
	i.probing, i.nextProbe = true, time.Now().Add(probeEvery)
	i.inBackground(ctx, pingTime, func(ctx context.Context) func() {
		refused := i.Peers.Refused(ctx, leader)
		return func() {
			i.probing = false
			if now, silence := i.core.Quiet(); refused && now == leader && silence >= quietAfter {
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
	return i.now() + max(quietAfter-silence, time.Until(i.nextProbe), 0)
}

// inBackground calls do in another goroutine, with a context that ends after limit. The loop then
// calls the function that do returns.
func (i *Instance) inBackground(ctx context.Context, limit time.Duration, do func(context.Context) func()) {
	go func() {
		limited, cancel := context.WithTimeout(ctx, limit)
		note := do(limited)
		cancel()
		i.post(ctx, note)
	}()
}
