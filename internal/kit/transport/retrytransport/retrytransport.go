// Package retrytransport retries the reads of a cache while the API server, or the network to it,
// is down.
//
// The reflectors of client-go wait up to 30 s after a failure, so a standby would notice late that
// the API server is back. And nothing notices a watch whose server has gone silent while its
// connection lives, because a proxy or a load balancer in between keeps it: HTTP/2 pings reach only
// the next hop.
package retrytransport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

const (
	// pause is the minimum time between two attempts of a request without a response. spread is the
	// random part that is added, so that the watches of all replicas do not reconnect in one
	// moment.
	pause  = time.Second
	spread = 1.0
	// silence is how long a watch may send nothing. The API server sends a bookmark about once a
	// minute to clients that want bookmarks, also if nothing has changed.
	//
	// Source: KEP-956 (watch bookmarks).
	silence = 3 * time.Minute
	// reminder is the interval at which a wait is logged.
	reminder = time.Minute
)

// Config returns a copy of a configuration with Transport, whose log has this name.
func Config(config *rest.Config, name string) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(Transport(ctrl.Log.WithName(name), clock.RealClock{}))
	return config
}

// Transport returns a transport for the requests of a cache, and for nothing that must fail in
// time. It retries while there is no response and the context of the request is not done, and ends
// watches that have gone silent. An error response of the API server is a response. That of a proxy
// or a load balancer that did not reach the API server is not. Requests other than GET pass
// unchanged. log gets the waits.
func Transport(log logr.Logger, clock clock.WithTicker) func(http.RoundTripper) http.RoundTripper {
	o := &outage{log: log, clock: clock}
	return func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				return next.RoundTrip(request)
			}
			query := request.URL.Query()
			if query.Get("watch") != "true" || query.Get("allowWatchBookmarks") != "true" {
				return o.do(next, request)
			}
			ctx, cancel := context.WithCancelCause(request.Context())
			response, err := o.do(next, request.WithContext(ctx))
			if err != nil {
				cancel(nil)
				return nil, err
			}
			response.Body = newListener(response.Body, clock, cancel)
			return response, nil
		})
	}
}

// outage retries until there is a response, and logs the wait once for all requests.
type outage struct {
	log   logr.Logger
	clock clock.WithTicker

	mutex sync.Mutex
	// since is when the first waiting request failed; zero while none waits. logged is when the
	// wait was last logged.
	since, logged time.Time
	waiting       int
}

// do sends a request until the API server responds or the request's context ends.
func (o *outage) do(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	waited := false
	defer func() {
		if waited {
			o.end(request.Context().Err() == nil)
		}
	}()
	for {
		response, err := next.RoundTrip(request)
		if err == nil && isFromProxy(response) {
			err = fmt.Errorf("response %s is not from the API server", response.Status)
			_ = response.Body.Close()
		}
		if err == nil || request.Context().Err() != nil {
			return response, err
		}
		o.logWaiting(err, !waited)
		waited = true
		select {
		case <-request.Context().Done():
			return nil, context.Cause(request.Context())
		case <-o.clock.After(wait.Jitter(pause, spread)):
		}
	}
}

// isFromProxy reports whether a response is from a proxy between us and an API server that is down.
// `kubectl proxy` responds 500, load balancers 502, 503 or 504, in plain text or HTML. The API
// server's own errors are a Status, in JSON or protobuf.
func isFromProxy(response *http.Response) bool {
	if response.StatusCode < http.StatusInternalServerError {
		return false
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err != nil || !strings.HasPrefix(kind, "application/")
}

// logWaiting records that a request waits, and logs it now and then. first reports that the
// request has not waited before.
func (o *outage) logWaiting(err error, first bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if first {
		o.waiting++
	}
	now := o.clock.Now()
	if o.since.IsZero() {
		o.since = now
	}
	if now.Sub(o.logged) >= reminder {
		o.logged = now
		o.log.Info("Waiting for the API server to respond", "because", err.Error(), "since", o.since, "requests", o.waiting)
	}
}

// end records that a request no longer waits. The last one ends the outage.
func (o *outage) end(answered bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.waiting--; o.waiting > 0 {
		return
	}
	if answered {
		o.log.Info("The API server responds again", "after", o.clock.Since(o.since).String())
	}
	o.since, o.logged = time.Time{}, time.Time{}
}

// errSilent is why a watch was ended.
var errSilent = errors.New("the watch sent nothing, not even a bookmark, for " + silence.String())

// listener is the body of a watch. It ends the watch when nothing has been read for a while.
type listener struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	timer  clock.Timer
	closed chan struct{}
	close  sync.Once
}

// newListener returns the body of a watch, with a goroutine that cancels it after a silence. Close
// ends the goroutine.
func newListener(body io.ReadCloser, clock clock.WithTicker, cancel context.CancelCauseFunc) *listener {
	l := &listener{ReadCloser: body, cancel: cancel, timer: clock.NewTimer(silence), closed: make(chan struct{})}
	go func() {
		select {
		case <-l.timer.C():
			cancel(errSilent)
		case <-l.closed:
		}
	}()
	return l
}

// Read restarts the timer. A watch may be ended just after it has sent something, between the end
// of the timer and its restart. It is then reopened where it was.
func (l *listener) Read(into []byte) (int, error) {
	n, err := l.ReadCloser.Read(into)
	if n > 0 {
		l.timer.Reset(silence)
	}
	return n, err
}

// Close ends the watch.
func (l *listener) Close() error {
	l.close.Do(func() {
		l.timer.Stop()
		close(l.closed)
	})
	err := l.ReadCloser.Close()
	l.cancel(nil)
	return err
}
