package pooler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/utils/clock"
)

// scripted is a session whose answers are given beforehand: announced, silent, or gone.
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
	case <-time.After(answers):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (s *scripted) close() { s.closed = true }

// listenerCase is what happens to a listener, and what it tells PgBouncer, and when.
type listenerCase struct {
	// answers are those of the first session, and away is how long it takes until the next one.
	answers []string
	away    time.Duration
	want    string
	// login is how long a primary takes to let it in, and isDead: while it is away, it says nothing.
	login  time.Duration
	isDead bool
	// refusal is the error of the server while it is away, and fails how many commands fail first.
	refusal string
	fails   int
	isIdle  bool
}

// TestListener: statements are held back from an announcement, or the loss of the primary, until a
// primary answers, or too long; and a handover that is called off ends the wait.
func TestListener(t *testing.T) {
	for name, test := range map[string]listenerCase{
		"nothing happens":                {want: ""},
		"it refuses us for long":         {answers: []string{"gone"}, away: 40 * time.Second, refusal: "53300", want: "0s PAUSE, 15s RESUME, 40s RECONNECT"},
		"it starts for long":             {answers: []string{"gone"}, away: 40 * time.Second, refusal: "57P03", want: "0s PAUSE, 40s RECONNECT, 40s RESUME"},
		"the console does not answer":    {answers: []string{"gone"}, away: time.Second, fails: 2, want: "0s PAUSE, 1s RECONNECT, 1s RESUME, 1s RESUME"},
		"sessions are kept":              {answers: []string{"announced", "gone"}, away: time.Second, isIdle: true, want: "1s RECONNECT"},
		"a handover":                     {answers: []string{"announced", "gone"}, away: 2 * time.Second, want: "0s PAUSE, 2s RECONNECT, 2s RESUME"},
		"a failover":                     {answers: []string{"gone"}, away: time.Second, want: "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"it is called off":               {answers: []string{"announced"}, want: "0s PAUSE, 6s RESUME"},
		"no primary answers for long":    {answers: []string{"gone"}, away: 40 * time.Second, want: "0s PAUSE, 40s RECONNECT, 40s RESUME"},
		"two announcements of the same":  {answers: []string{"announced", "announced", "gone"}, away: time.Second, want: "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"logins take long":               {answers: []string{"gone"}, login: 5 * time.Second, want: "5s PAUSE, 10s RECONNECT, 10s RESUME"},
		"it is dead, and the next leads": {answers: []string{"gone"}, away: 3 * time.Second, isDead: true, want: "0s PAUSE, 4s RECONNECT, 4s RESUME"},
		"it is gone before it says more": {answers: []string{"gone"}, want: "0s PAUSE, 0s RECONNECT, 0s RESUME"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { checkListener(t, test) })
		})
	}
}

// dials is what the attempts to connect meet: the first primary at once, and the next one when the
// first has been away.
type dials struct {
	listenerCase
	began    time.Time
	mu       sync.Mutex
	sessions []*scripted
}

func (d *dials) dial(ctx context.Context) (primary, error) {
	time.Sleep(d.login)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if next := d.next(); next != nil {
		return next, nil
	}
	switch {
	case d.isDead:
		<-ctx.Done()
		return nil, ctx.Err()
	case d.refusal != "":
		return nil, &pgconn.PgError{Code: d.refusal}
	default:
		return nil, errors.New("refused")
	}
}

// next is the session with the primary that there is now, if any.
func (d *dials) next() *scripted {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isFirst := len(d.sessions) == 2; !isFirst && time.Since(d.began) < d.away {
		return nil
	}
	next := d.sessions[0]
	d.sessions = d.sessions[1:]
	return next
}

func checkListener(t *testing.T, test listenerCase) {
	ctx, end := context.WithCancel(t.Context())
	first := &scripted{answers: make(chan string, 10)}
	began, commands := time.Now(), make(chan string, 10)
	primaries := &dials{listenerCase: test, began: began, sessions: []*scripted{first, {answers: make(chan string)}}}
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
		isIdle: test.isIdle, clock: clock.RealClock{}, log: logr.Discard(),
	}
	go l.run(ctx)
	for _, answer := range test.answers {
		first.answers <- answer
	}
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
	if gone := slices.Contains(test.answers, "gone"); gone && !first.closed {
		t.Error("the session that has ended is not closed")
	}
}
