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

// stream is the body of a watch's answer: consecutive events as JSON. It passes them on until a
// rule or a command ends that.
type stream struct {
	ctx  context.Context
	body io.ReadCloser
	from *json.Decoder
	// rule is applied after some events. Nil lets all events pass.
	rule *Rule
	// passed is the number of counted events passed on, and rest the unread part of the last.
	passed int
	rest   []byte
	ended  bool

	mutex sync.Mutex
	// commanded is the rule that a command has set, which applies without an event.
	commanded Rule
	wake      chan struct{}
}

func newStream(ctx context.Context, body io.ReadCloser, rule *Rule) *stream {
	return &stream{ctx: ctx, body: body, from: json.NewDecoder(body), rule: rule, wake: make(chan struct{})}
}

// interrupt makes a watch fail now or, for a stall, from its next event on.
func (s *stream) interrupt(rule Rule) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.commanded.Fault == "" {
		s.commanded = rule
		close(s.wake)
	}
}

func (s *stream) command() *Rule {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.commanded.Fault == "" {
		return nil
	}
	return &s.commanded
}

// Read passes on the rest of an event, or the next event.
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

// next reads an event into rest, or applies the rule or command instead.
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

// event waits for the next event, or for a command that interrupts the wait.
func (s *stream) event() ([]byte, error) {
	type read struct {
		event json.RawMessage
		err   error
	}
	// After a command nothing uses the reader any more, and Close ends it.
	result := make(chan read, 1)
	go func() {
		var next read
		next.err = s.from.Decode(&next.event) // the API server sends nothing between events
		result <- next
	}()
	select {
	case got := <-result:
		return got.event, got.err
	case <-s.wake:
		return nil, errCut
	}
}

// fail applies a rule.
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

// stall sends nothing until the client gives up, or the time is over.
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

// isBookmark reports whether an event has nothing but a resource version.
func isBookmark(event []byte) bool {
	var read struct {
		Type watch.EventType `json:"type"`
	}
	return json.Unmarshal(event, &read) == nil && read.Type == watch.Bookmark
}

// expired returns the answer of an API server that no longer has the resource version at which a
// client wants to continue.
func expired() metav1.Status {
	return apierrors.NewResourceExpired("too old resource version (a planned fault)").Status()
}
