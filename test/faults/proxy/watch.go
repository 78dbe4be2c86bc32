package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errCut makes the proxy close a client's connection.
var errCut = errors.New("cut by the proxy")

// stream is the body of a watch's answer: events as JSON, one after the other. It passes them on until it is told to
// do otherwise.
type stream struct {
	ctx  context.Context
	body io.ReadCloser
	from *json.Decoder
	// rule says what happens after some events; nil lets all pass.
	rule *Rule
	// passed is how many events that count have been passed on, and rest what of the last was not read yet.
	passed int
	rest   []byte
	ended  bool

	mutex sync.Mutex
	// told is what happens next by command, without waiting for an event.
	told Rule
	wake chan struct{}
}

func newStream(ctx context.Context, body io.ReadCloser, rule *Rule) *stream {
	return &stream{ctx: ctx, body: body, from: json.NewDecoder(body), rule: rule, wake: make(chan struct{})}
}

// tell lets a watch fail now, or, if it stalls, from its next event on.
func (s *stream) tell(rule Rule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.told.Fault == "" {
		s.told = rule
		close(s.wake)
	}
}

func (s *stream) command() *Rule {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.told.Fault == "" {
		return nil
	}
	return &s.told
}

// Read passes on what there is of an event, or the next.
func (s *stream) Read(into []byte) (int, error) {
	if len(s.rest) == 0 {
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(into, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Close ends the request to the API server.
func (s *stream) Close() error { return s.body.Close() }

// next reads an event into rest, or does what was planned or told instead.
func (s *stream) next() error {
	if s.ended {
		return io.EOF
	}
	event, err := s.event()
	if rule := s.command(); rule != nil {
		return s.fail(rule)
	}
	if err != nil {
		return err
	}
	counts := !isBookmark(event)
	if s.rule != nil && counts && s.passed >= s.rule.AfterEvents {
		return s.fail(s.rule)
	}
	if counts {
		s.passed++
	}
	s.rest = event
	return nil
}

// event waits for the next event, or for a command that interrupts that.
func (s *stream) event() ([]byte, error) {
	type read struct {
		event json.RawMessage
		err   error
	}
	// The reader is left to itself once a command came: nothing reads after it, and Close ends it.
	result := make(chan read, 1)
	go func() {
		var next read
		next.err = s.from.Decode(&next.event) // the API server puts nothing between events
		result <- next
	}()
	select {
	case got := <-result:
		return got.event, got.err
	case <-s.wake:
		return nil, errCut
	}
}

// fail does what a rule says.
func (s *stream) fail(rule *Rule) error {
	switch rule.Fault {
	case Stall:
		return s.stall(rule.For.Duration)
	case Expire:
		s.ended = true
		event, err := json.Marshal(metav1.WatchEvent{Type: string(watch.Error), Object: rawStatus(expired())})
		s.rest = event
		return err
	default:
		return errCut
	}
}

// stall says nothing until the client gives up, or the time is over.
func (s *stream) stall(last time.Duration) error {
	var over <-chan time.Time
	if last > 0 {
		timer := time.NewTimer(last)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-s.ctx.Done():
	case <-over:
	}
	return errCut
}

// isBookmark tells an event that carries nothing but a resource version.
func isBookmark(event []byte) bool {
	var read struct {
		Type watch.EventType `json:"type"`
	}
	return json.Unmarshal(event, &read) == nil && read.Type == watch.Bookmark
}

// expired is what an API server says when it no longer has what a client wants to go on from.
func expired() metav1.Status {
	return apierrors.NewResourceExpired("too old resource version (a planned fault)").Status()
}
