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
	clocktesting "k8s.io/utils/clock/testing"
)

// scripted is a session whose answers the test sets: "announced", "gone", "late" and "late
// announcement" (after away), "hung", or that it answers.
type scripted struct {
	*dials
	id     string
	closed bool
}

func (s *scripted) wait(ctx context.Context) (bool, error) {
	takes := pingInterval + s.slow
	select {
	case answer := <-s.script:
		switch answer {
		case "gone":
			return false, errors.New("the session has ended")
		case "announced":
			return true, nil
		case "hung":
			<-ctx.Done()
			return false, ctx.Err()
		}
		if err := pass(ctx, s.away); err != nil {
			return false, err
		}
		return answer == "late announcement", nil
	case <-time.After(takes):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// pass returns after a time, or with the error of the context.
func pass(ctx context.Context, after time.Duration) error {
	select {
	case <-time.After(after):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *scripted) server() string { return s.id }

func (s *scripted) close() { s.closed = true }

// listenerCase is what happens to a listener, and what it tells PgBouncer, and when.
type listenerCase struct {
	// answers are those of the first sessions, and away is how long after the first one began the next
	// primary answers.
	answers []string
	away    time.Duration
	want    string
	// login is how long a login takes. If isFull is true, the primary refuses all but the first of
	// several logins at once. If isDead is true, the primary does not answer while it is away.
	login          time.Duration
	isFull, isDead bool
	// slow is how long the primary takes for each answer. If isHeard is true, it answers an attempt to
	// log in after 3 s while it is away, but does not let us in in time.
	slow    time.Duration
	isHeard bool
	// isSame is true if all sessions are with the same server.
	isSame bool
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
	const again = "0s PAUSE, 0s RECONNECT, 0s RESUME, 0s PAUSE, 0s RECONNECT, 0s RESUME"
	const slowFirst = "5s PAUSE, 6s RESUME, 6s PAUSE, 6s RECONNECT, 6s RESUME, 11s PAUSE, 11s RESUME"
	const long = 40 * time.Second
	gone, hung, late := []string{"gone"}, []string{"hung"}, []string{"late"}
	slowGoneHung, lateHandover := []string{"late", "gone", "hung"}, []string{"late announcement"}
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
		"every answer takes 3 s":         {slow: 3 * time.Second, away: time.Hour, isHeard: true, want: ""},
		"every answer takes 6 s":         {slow: 6 * time.Second, away: time.Hour, isHeard: true, want: "5s PAUSE, 7s RESUME"},
		"it is hung, and the next leads": {answers: hung, away: 12 * time.Second, isDead: true, want: "5s PAUSE, 13s RECONNECT, 13s RESUME"},
		"it is hung for long":            {answers: hung, away: long, isDead: true, logs: 2, want: "5s PAUSE, 41s RECONNECT, 41s RESUME"},
		"it answers late":                {answers: late, away: 20 * time.Second, isDead: true, isSame: true, want: "5s PAUSE, 20s RESUME"},
		"it is too slow for logins":      {answers: gone, away: long, isHeard: true, isSame: true, want: "0s PAUSE, 16s RESUME", logs: 2},
		"the console is late":            {answers: []string{"gone", "gone"}, fails: 1, want: again},
		"logins take less than answers":  {slow: 6 * time.Second, login: time.Second, isSame: true, want: "6s PAUSE, 7s RESUME"},
		"only the session is gone":       {answers: gone, away: time.Second, isSame: true, want: "0s PAUSE, 1s RESUME"},
		"it announces late":              {answers: lateHandover, away: 8 * time.Second, isDead: true, want: "5s PAUSE, 14s RESUME"},
		"the next one is not slow":       {answers: slowGoneHung, away: 6 * time.Second, isDead: true, want: slowFirst},
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
	script   chan string
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
	case d.isDead, d.isHeard:
		began := time.Now()
		<-ctx.Done()
		if d.isHeard && time.Since(began) > 3*time.Second {
			return nil, errSlow
		}
		time.Sleep(time.Millisecond) // The last error is that of a later attempt.
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

// next is another session; all but the first are with the next server.
func (d *dials) next() *scripted {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := &scripted{dials: d, id: "the first"}
	if len(d.sessions) > 0 && !d.isSame {
		one.id = "the next"
	}
	d.sessions = append(d.sessions, one)
	return one
}

func checkListener(t *testing.T, test listenerCase) {
	ctx, end := context.WithCancel(t.Context())
	began, commands := time.Now(), make(chan string, 100)
	primaries := &dials{listenerCase: test, began: began, script: make(chan string, len(test.answers))}
	for _, answer := range test.answers {
		primaries.script <- answer
	}
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

// TestNote: the limit of silence is twice the silence lately, within its bounds.
func TestNote(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Now())
	l := &listener{limit: silenceTimeout, clock: now, session: &session{answered: now.Now()}}
	answers := func(count int, after time.Duration) {
		for range count {
			now.SetTime(now.Now().Add(after))
			l.note()
		}
	}
	for _, step := range []struct {
		count         int
		after         time.Duration
		least, atMost time.Duration
	}{
		{1, time.Second, silenceTimeout, silenceTimeout},
		{1, 4 * time.Second, 8 * time.Second, 8 * time.Second},
		{10, time.Second, 7 * time.Second, 8*time.Second - 1},
		{1, time.Minute, refusalTimeout, refusalTimeout},
		{60, time.Second, silenceTimeout + 1, 10 * time.Second},
		{60, time.Second, silenceTimeout, silenceTimeout},
	} {
		if answers(step.count, step.after); l.limit < step.least || l.limit > step.atMost {
			t.Errorf("after %d answers in %s the limit is %s, want %s to %s", step.count, step.after, l.limit, step.least, step.atMost)
		}
	}
}
