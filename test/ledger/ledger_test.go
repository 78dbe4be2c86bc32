package ledger

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// change changes how the server is broken.
func (s *server) change(hurt func(s *server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hurt(s)
}

// server is a database that a test breaks.
type server struct {
	mu   sync.Mutex
	name string
	rows []Entry
	fail error
	// loses is true if what is acknowledged is not kept; keeps is true if what fails is.
	loses, keeps bool
}

func (s *server) write(_ context.Context, entry Entry) (string, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loses && s.fail == nil || s.keeps {
		s.rows = append(s.rows, entry)
	}
	return s.name, s.fail
}

func TestLedger(t *testing.T) {
	for name, c := range map[string]struct {
		hurt  func(s *server)
		spoil func(rows []Entry) []Entry
		want  string
	}{
		"nothing":           {},
		"writes fail":       {hurt: func(s *server) { s.fail = errors.New("away") }},
		"failed but there":  {hurt: func(s *server) { s.fail, s.keeps = errors.New("away"), true }},
		"lost":              {hurt: func(s *server) { s.loses = true }, want: "is lost: a/1 acknowledged it"},
		"twice":             {spoil: func(rows []Entry) []Entry { return append(rows, rows[0]) }, want: "client 1 is there 2 times"},
		"of nobody":         {spoil: func(rows []Entry) []Entry { return append(rows, Entry{"client", 99999}) }, want: "but nobody wrote it"},
		"of another client": {spoil: func(rows []Entry) []Entry { return append(rows, Entry{"x", 1}) }, want: "x 1 is there, but nobody"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{name: "a/1"}
				l := New()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if c.hurt != nil {
					time.AfterFunc(500*time.Millisecond, func() { s.change(c.hurt) })
				}
				l.Client(ctx, "client", 10*time.Millisecond, time.Second, s.write)
				rows := s.rows
				if c.spoil != nil {
					rows = c.spoil(rows)
				}
				wrong := strings.Join(l.Check(rows, time.Now()), "\n")
				if c.want == "" && wrong != "" || !strings.Contains(wrong, c.want) {
					t.Errorf("got %q, want %q", wrong, c.want)
				}
			})
		})
	}
}

func TestLongestGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{name: "a/1"}
		l := New()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		begun := time.Now()
		time.AfterFunc(time.Second, func() { s.change(func(s *server) { s.fail = errors.New("away") }) })
		time.AfterFunc(2*time.Second, func() { s.change(func(s *server) { s.fail = nil }) })
		l.Client(ctx, "client", 10*time.Millisecond, time.Second, s.write)
		if gap := l.LongestGap(begun); gap < time.Second || gap > 1100*time.Millisecond {
			t.Errorf("got %s, want about 1s", gap)
		}
		if gap := l.LongestGap(begun.Add(2500 * time.Millisecond)); gap > 50*time.Millisecond {
			t.Errorf("got %s, want about 10ms", gap)
		}
	})
}

func TestTwoAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		want  bool
	}{
		"one server":               {[]string{"a/1", "a/1", "a/1"}, false},
		"one after the other":      {[]string{"a/1", "b/2", "b/2"}, false},
		"back again, another life": {[]string{"a/1", "b/2", "a/3"}, false},
		"two":                      {[]string{"a/1", "b/2", "a/1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New()
				for seq, name := range c.names {
					s := &server{name: name}
					l.once(t.Context(), Entry{"client", seq}, time.Second, s.write)
					time.Sleep(time.Millisecond)
				}
				if found := l.TwoAtOnce(); len(found) > 0 != c.want {
					t.Errorf("got %q", found)
				}
			})
		})
	}
}
