// Package leaseguard prevents writes of a leader that has lost its lease.
//
// Leader election alone can't: a process that was stopped for a while (SIGSTOP, a frozen container,
// a node that swaps) continues before it notices that another process leads. The API has no fencing
// token by which the server could refuse it, so the client refuses, by its own clock. A paused
// virtual machine is not guarded, because that clock does not advance in it.
package leaseguard

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

// Guard knows when the lease was last renewed. It is safe for concurrent use.
type Guard struct {
	deadline time.Duration
	clock    clock.PassiveClock

	mutex sync.Mutex
	// renewed is when the last successful renewal was sent; zero before the first.
	renewed time.Time
	// isClosed reports that the lease has been released.
	isClosed bool
	// answered is when the API server last responded to the election. It starts with the creation
	// of the Guard.
	answered time.Time
}

// New returns a Guard that lets writes pass while the last renewal is younger than deadline.
// deadline is the renew deadline of the leader election: shorter than the lease, after which
// another process may lead. The clock must not jump; the monotonic clock of the Go runtime does
// not, and it continues while a process is stopped, though not while a machine is.
func New(deadline time.Duration, clock clock.PassiveClock) *Guard {
	return &Guard{deadline: deadline, clock: clock, answered: clock.Now()}
}

// ObserveElection returns a transport for the leader election only. It records renewals, and
// whether there are responses.
func (g *Guard) ObserveElection(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		sent := g.clock.Now()
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		g.mutex.Lock()
		defer g.mutex.Unlock()
		if response.StatusCode < http.StatusInternalServerError {
			g.answered = g.clock.Now()
		}
		if response.StatusCode < http.StatusMultipleChoices && isWrite(request) && strings.Contains(request.URL.Path, "/leases") {
			g.renewed = sent
		}
		return response, nil
	})
}

// Close refuses all writes from now on. The lease is being released, and the write that releases it
// renews nothing.
func (g *Guard) Close() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.isClosed = true
}

// Silence returns for how long the API server has not responded to the election, which sends a
// request every few seconds, whether this process leads or not.
func (g *Guard) Silence() time.Duration {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.clock.Since(g.answered)
}

// Transport returns a transport for everything that only a leader may do. It refuses writes before
// this process has the lease, and while it may have lost it. Reads pass.
func (g *Guard) Transport(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		if isWrite(request) {
			if err := g.check(); err != nil {
				if request.Body != nil {
					_ = request.Body.Close() // as http.RoundTripper requires
				}
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

// Leads reports whether this process certainly leads: whether Transport lets writes pass.
func (g *Guard) Leads() bool { return g.check() == nil }

// check returns why a write must not be sent; nil if this process certainly leads.
func (g *Guard) check() error {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.renewed.IsZero() || g.isClosed {
		return errors.New("not sent: this process is not the leader")
	}
	if since := g.clock.Since(g.renewed); since >= g.deadline {
		return fmt.Errorf("not sent: the lease was last renewed %s ago, and another process may lead after %s",
			since.Round(time.Second), g.deadline)
	}
	return nil
}

func isWrite(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead && request.Method != http.MethodOptions
}
