// Package retrytransport keeps the reads of a cache going while the API server, or the way to it, is not.
//
// client-go's reflectors wait up to 30 s after a failure, which is how late a standby would learn that the API
// server is back. And a watch whose server has gone silent, but whose connection lives (a proxy or a load
// balancer in between answers for it), is noticed by nobody: HTTP/2's pings go as far as the next hop.
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
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/kit/transport"
)

const (
	// pause is the least time between two tries of a request that got no answer, and spread what is added of it at
	// random, so that all the watches of all the replicas don't come back in one moment.
	pause  = time.Second
	spread = 1.0
	// silence is how long a watch may say nothing. The API server sends a bookmark about once a minute, for
	// clients that want bookmarks, also when nothing has changed.
	//
	// Source: KEP-956 (watch bookmarks).
	silence = 3 * time.Minute
	// reminder is how often a wait is told of.
	reminder = time.Minute
)

// Transport is a transport for the requests of a cache, and for nothing that has to fail in time: it asks again for
// as long as there is no answer and the request's context lives, and ends watches that have gone silent. An answer of
// the API server that is an error is an answer; that of a proxy or a load balancer which did not reach it is none. What is not
// a GET passes as it is. log is told of waits.
func Transport(log logr.Logger, clock clock.WithTicker) func(http.RoundTripper) http.RoundTripper {
	waits := &outage{log: log, clock: clock}
	return func(next http.RoundTripper) http.RoundTripper {
		return transport.Func(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet {
				return next.RoundTrip(request)
			}
			wanted := request.URL.Query()
			if wanted.Get("watch") != "true" || wanted.Get("allowWatchBookmarks") != "true" {
				return waits.ask(next, request)
			}
			ctx, cancel := context.WithCancelCause(request.Context())
			response, err := waits.ask(next, request.WithContext(ctx))
			if err != nil {
				cancel(nil)
				return nil, err
			}
			response.Body = newListener(response.Body, clock, cancel)
			return response, nil
		})
	}
}

// waits asks until there is an answer, and tells of it once for all requests.
type outage struct {
	log   logr.Logger
	clock clock.WithTicker

	mutex sync.Mutex
	// since is when the first request of those that wait got no answer; zero while none waits.
	since, told time.Time
	waiting     int
}

func (w *outage) ask(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	waited := false
	defer func() {
		if waited {
			w.end(request.Context().Err() == nil)
		}
	}()
	for {
		response, err := next.RoundTrip(request)
		if err == nil && isByAnother(response) {
			err = fmt.Errorf("answered %s, and not by the API server", response.Status)
			_ = response.Body.Close()
		}
		if err == nil || request.Context().Err() != nil {
			return response, err
		}
		w.logWaiting(err, !waited)
		waited = true
		select {
		case <-request.Context().Done():
			return nil, context.Cause(request.Context())
		case <-w.clock.After(wait.Jitter(pause, spread)):
		}
	}
}

// isByAnother tells the answer of who stands between us and an API server that is away: `kubectl proxy` says 500, load balancers
// 502, 503 or 504, in plain text or HTML. The API server's own errors are a Status, in JSON or protobuf.
func isByAnother(response *http.Response) bool {
	if response.StatusCode < http.StatusInternalServerError {
		return false
	}
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err != nil || !strings.HasPrefix(kind, "application/")
}

func (w *outage) logWaiting(err error, first bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if first {
		w.waiting++
	}
	now := w.clock.Now()
	if w.since.IsZero() {
		w.since = now
	}
	if now.Sub(w.told) >= reminder {
		w.told = now
		w.log.Info("Waiting for the API server to answer", "because", err.Error(), "since", w.since, "requests", w.waiting)
	}
}

func (w *outage) end(answered bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waiting--; w.waiting > 0 {
		return
	}
	if answered {
		w.log.Info("The API server answers again", "after", w.clock.Since(w.since).String())
	}
	w.since, w.told = time.Time{}, time.Time{}
}

// errSilent is why a watch was ended.
var errSilent = errors.New("the watch said nothing, not even a bookmark, for " + silence.String())

// listener is a watch's body. It ends the watch when nothing has been read for a while.
type listener struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
	timer  clock.Timer
	closed chan struct{}
	close  sync.Once
}

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

// Read puts the end off. Between the end of the time and that, a watch may be ended that has just spoken: it is
// opened again where it was.
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
