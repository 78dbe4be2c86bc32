// Package leaseguard keeps a leader that has lost its lease from writing.
//
// Leader election alone can't: a process that was stopped for a while (SIGSTOP, a hypervisor's pause, a
// long collection of garbage) goes on where it was, before it notices that another leads. The API
// has no token by which the server could refuse it, so the client does, by its own clock.
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

// Fence knows when the lease was last renewed. It is safe for use by many goroutines.
type Guard struct {
	deadline time.Duration
	clock    clock.PassiveClock

	mutex sync.Mutex
	// renewed is when the last successful renewal was sent; zero before the first.
	renewed time.Time
	// shut tells that the lease has been given back.
	shut bool
	// answered is when the API server last answered the election, or the beginning.
	answered time.Time
}

// New is a fence that lets writes pass for as long as the last renewal is younger than deadline, which is
// the leader election's renew deadline: shorter than the lease, after which another may lead. The clock must
// not jump, as that of the Go runtime does not (it goes on while a process is stopped).
func New(deadline time.Duration, clock clock.PassiveClock) *Guard {
	return &Guard{deadline: deadline, clock: clock, answered: clock.Now()}
}

// Watch is a transport for leader election alone: it notes renewals, and whether there are answers.
func (f *Guard) ObserveElection(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		sent := f.clock.Now()
		response, err := next.RoundTrip(request)
		if err != nil {
			return response, err
		}
		f.mutex.Lock()
		defer f.mutex.Unlock()
		if response.StatusCode < http.StatusInternalServerError {
			f.answered = f.clock.Now()
		}
		if response.StatusCode < http.StatusMultipleChoices && isWrite(request) && strings.Contains(request.URL.Path, "/leases") {
			f.renewed = sent
		}
		return response, nil
	})
}

// Shut lets nothing pass from now on: the lease is being given back, and what is written to it for that renews nothing.
func (f *Guard) Close() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.shut = true
}

// Silence is for how long the API server has not answered the election, which asks every few seconds whether
// this process leads or not.
func (f *Guard) Silence() time.Duration {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.clock.Since(f.answered)
}

// Guard is a transport for all that only a leader may do: it refuses what changes something while this
// process may have lost the lease, and before it ever had it. Reads pass.
func (f *Guard) Transport(next http.RoundTripper) http.RoundTripper {
	return transport.Func(func(request *http.Request) (*http.Response, error) {
		if isWrite(request) {
			if err := f.check(); err != nil {
				if request.Body != nil {
					_ = request.Body.Close() // as a RoundTripper must
				}
				return nil, err
			}
		}
		return next.RoundTrip(request)
	})
}

// Leads reports whether this process leads for sure: whether Guard lets writes pass.
func (f *Guard) Leads() bool { return f.check() == nil }

func (f *Guard) check() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.renewed.IsZero() || f.shut {
		return errors.New("not sent: this process does not lead")
	}
	if since := f.clock.Since(f.renewed); since >= f.deadline {
		return fmt.Errorf("not sent: the lease was last renewed %s ago, and another may lead after %s", since.Round(time.Second), f.deadline)
	}
	return nil
}

func isWrite(request *http.Request) bool {
	return request.Method != http.MethodGet && request.Method != http.MethodHead && request.Method != http.MethodOptions
}
