package pooler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/utils/clock"
)

// scripted is a session whose answers the test sets: "announced", "gone", or none.
type scripted struct {
	answers chan string
	closed  bool
}

func (s *scripted) wait(ctx context.Context) (bool, error) {
	select {
	case answer := <-s.answers:
		if answer == "gone" {
			return false, errors.New("the session has ended")
		}
		return answer == "announced", nil
	case <-time.After(replyTimeout):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (s *scripted) close() { s.closed = true }

// listenerCase is what happens to a listener, and what it tells PgBouncer, and when.
type listenerCase struct {
	// answers are those of the first session, and away is how long after it began the next primary
	// answers.
	answers []string
	away    time.Duration
	want    string
	// login is how long a login takes. If isFull is true, the primary refuses all but the first of
	// several logins at once. If isDead is true, the primary does not answer while it is away.
	login          time.Duration
	isFull, isDead bool
	// refusal is the SQLSTATE with which the server refuses sessions while it is away, and fails is
	// how many commands fail first.
	refusal string
	fails   int
	isIdle  bool
	// logs is how often the test expects a log line about the missing session.
	logs int
}

// TestListener: statements are held back from an announcement, or from the loss of the primary,
// until a primary answers, until it has refused us for too long, or until a handover counts as
// cancelled.
func TestListener(t *testing.T) {
	const slow = 4950 * time.Millisecond // No attempt begins when one ends.
	const long = 40 * time.Second
	gone := []string{"gone"}
	for name, test := range map[string]listenerCase{
		"nothing happens":                {want: ""},
		"it refuses us for long":         {answers: gone, away: long, refusal: "53300", logs: 3, want: "0s PAUSE, 15s RESUME, 40s RECONNECT"},
		"it starts for long":             {answers: gone, away: long, refusal: "57P03", want: "0s PAUSE, 40s RECONNECT, 40s RESUME", logs: 3},
		"the console does not answer":    {answers: gone, away: time.Second, fails: 2, want: "0s PAUSE, 1s RECONNECT, 1s RESUME, 1s RESUME"},
		"sessions are kept":              {answers: []string{"announced", "gone"}, away: time.Second, isIdle: true, want: "1s RECONNECT"},
		"a handover":                     {answers: []string{"announced", "gone"}, away: 2 * time.Second, want: "0s PAUSE, 2s RECONNECT, 2s RESUME"},
		"a failover":                     {answers: gone, away: time.Second, want: "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"it is cancelled":                {answers: []string{"announced"}, want: "0s PAUSE, 6s RESUME"},
		"no primary answers for long":    {answers: gone, away: long, want: "0s PAUSE, 40s RECONNECT, 40s RESUME", logs: 3},
		"two announcements of the same":  {answers: []string{"announced", "announced", "gone"}, away: time.Second, want: "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"logins take long":               {answers: gone, login: 5 * time.Second, want: "5s PAUSE, 10s RECONNECT, 10s RESUME"},
		"logins take long, others fail":  {answers: gone, login: slow, isFull: true, want: "4s PAUSE, 10s RECONNECT, 10s RESUME"},
		"it is dead, and the next leads": {answers: gone, away: 3 * time.Second, isDead: true, want: "0s PAUSE, 4s RECONNECT, 4s RESUME"},
		"it is gone before it says more": {answers: gone, want: "0s PAUSE, 0s RECONNECT, 0s RESUME"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkListener(t, test) })
		})
	}
}

// dials answers attempts to connect: with a first primary at once, and with the next one after
// away.
type dials struct {
	listenerCase
	began    time.Time
	mu       sync.Mutex
	underWay int
	sessions []*scripted
}

func (d *dials) dial(ctx context.Context) (primary, error) {
	if d.login > 0 {
		if others := d.count(1); others > 1 && d.isFull {
			d.count(-1)
			return nil, &pgconn.PgError{Code: "53300"}
		}
		time.Sleep(d.login) // It may be too late then.
		d.count(-1)
	}
	switch {
	case len(d.given()) == 0 || time.Since(d.began) >= d.away:
		return d.next(), nil
	case d.isDead:
		<-ctx.Done()
		return nil, ctx.Err()
	case d.refusal != "":
		return nil, &pgconn.PgError{Code: d.refusal}
	default:
		return nil, errors.New("refused")
	}
}

// count adds to the attempts that are under way, and returns how many there are.
func (d *dials) count(more int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.underWay += more
	return d.underWay
}

// given are the sessions that there were.
func (d *dials) given() []*scripted {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.sessions)
}

// next is another session; the first one has the answers of the case.
func (d *dials) next() *scripted {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &scripted{answers: make(chan string, len(d.answers))}
	if len(d.sessions) == 0 {
		for _, answer := range d.answers {
			one.answers <- answer
		}
	}
	d.sessions = append(d.sessions, one)
	return one
}

func checkListener(t *testing.T, test listenerCase) {
	ctx, end := context.WithCancel(t.Context())
	began, commands := time.Now(), make(chan string, 10)
	primaries := &dials{listenerCase: test, began: began}
	var logs atomic.Int32
	log := funcr.New(func(_, text string) {
		if strings.Contains(text, "no session with a primary") {
			logs.Add(1)
		}
	}, funcr.Options{})
	l := &listener{
		dial: primaries.dial,
		send: func(ctx context.Context, command string) error {
			commands <- time.Since(began).Truncate(time.Second).String() + " " + command
			switch {
			case command == "PAUSE":
				<-ctx.Done() // A statement is under way for ever.
			case test.fails > 0:
				test.fails--
				return errors.New("no answer")
			}
			return nil
		},
		isIdle: test.isIdle, clock: clock.RealClock{}, log: log,
	}
	go l.run(ctx)
	time.Sleep(time.Minute)
	end()
	synctest.Wait()
	close(commands)
	var said []string
	for command := range commands {
		said = append(said, command)
	}
	if got := strings.Join(said, ", "); got != test.want {
		t.Errorf("got  %s\nwant %s", got, test.want)
	}
	if int(logs.Load()) != test.logs {
		t.Errorf("the log says %d times why there is no session, want %d", logs.Load(), test.logs)
	}
	for i, session := range primaries.given() {
		if !session.closed {
			t.Errorf("session %d is not closed", i)
		}
	}
}
