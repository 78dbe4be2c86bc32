package ledger

import (
	"context"
	"errors"
	"slices"
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
		if gap := l.LongestGapOf("client", begun); gap != l.LongestGap(begun) {
			t.Errorf("got %s, want that of all, because there is no other client", gap)
		}
		if gap := l.LongestGapOf("another", begun); gap != time.Since(begun) {
			t.Errorf("got %s, want all of %s", gap, time.Since(begun))
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

func TestForgive(t *testing.T) {
	const none = ""
	for name, c := range map[string]struct {
		servers []string
		there   []int
		lost    int
		want    string
	}{
		"nothing":                     {[]string{"a/1", "a/1", "b/2"}, []int{0, 1, 2}, 0, none},
		"the last ones":               {[]string{"a/1", "a/1", "a/1", "b/2"}, []int{0, 3}, 2, none},
		"all of a life":               {[]string{"a/1", "b/2", "b/2", "a/3"}, []int{0, 3}, 2, none},
		"one before one that is kept": {[]string{"a/1", "a/1", "a/1", "b/2"}, []int{0, 2, 3}, 1, "client 1 is lost, and client 2 is there"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := New()
				var rows []Entry
				for seq, name := range c.servers {
					s := &server{name: name}
					l.once(t.Context(), Entry{"client", seq}, time.Second, s.write)
					time.Sleep(time.Millisecond)
				}
				for _, seq := range c.there {
					rows = append(rows, Entry{"client", seq})
				}
				lost, wrong := l.Forgive(rows, time.Now())
				if got := strings.Join(wrong, "\n"); lost != c.lost || c.want == none && got != none || !strings.Contains(got, c.want) {
					t.Errorf("got %d and %q, want %d and %q", lost, got, c.lost, c.want)
				}
				if again := l.Check(rows, time.Now()); len(again) > 0 {
					t.Errorf("what is forgiven is not: %q", again)
				}
				if whole := l.Check(append(rows, Entry{"client", len(c.servers)}), time.Now()); len(whole) == 0 {
					t.Error("an entry of nobody is accepted")
				}
			})
		})
	}
}

func TestForgivenStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New()
		l.once(t.Context(), Entry{"client", 1}, time.Second, (&server{name: "a/1"}).write)
		time.Sleep(time.Millisecond)
		if lost, wrong := l.Forgive(nil, time.Now()); lost != 1 || len(wrong) > 0 {
			t.Errorf("got %d and %q", lost, wrong)
		}
		time.Sleep(time.Millisecond)
		if wrong := strings.Join(l.Check([]Entry{{"client", 1}}, time.Now()), "\n"); !strings.Contains(wrong, "client 1 is there again") {
			t.Errorf("got %q", wrong)
		}
	})
}

// TestFailures: the same failure in a row is described once, and other clients' are not.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, begun := New(), time.Now()
		write := func(client, problem string) {
			l.once(t.Context(), Entry{client, 1}, time.Second, func(context.Context, Entry) (string, error) {
				time.Sleep(time.Millisecond)
				return "", errors.New(problem)
			})
		}
		write("a", "early")
		later := time.Now()
		for _, problem := range []string{"away", "away", "read-only", "away"} {
			write("a", problem)
			write("b", "other")
		}
		var told []string
		for _, line := range l.Failures("a", later) {
			_, count, _ := strings.Cut(line, ": ")
			told = append(told, count)
		}
		if want := []string{"2 times: away", "1 times: read-only", "1 times: away"}; !slices.Equal(told, want) {
			t.Errorf("%q, want %q", told, want)
		}
		if told := l.Failures("a", begun); len(told) != 4 {
			t.Errorf("since the begin: %q, want 4 lines", told)
		}
	})
}
