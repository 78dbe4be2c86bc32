package pooler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
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

// TestListener: statements are held back from an announcement, or the loss of the primary, until a
// primary answers, or too long; and a handover that is called off ends the wait.
func TestListener(t *testing.T) {
	for name, test := range map[string]struct {
		// answers are those of the first session, and awaits how long it takes until the next one.
		answers []string
		away    time.Duration
		want    string
	}{
		"nothing happens":                {want: ""},
		"a handover":                     {[]string{"announced", "gone"}, 2 * time.Second, "0s PAUSE, 2s RECONNECT, 2s RESUME"},
		"a failover":                     {[]string{"gone"}, time.Second, "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"it is called off":               {[]string{"announced"}, 0, "0s PAUSE, 6s RESUME"},
		"no primary answers for long":    {[]string{"gone"}, 40 * time.Second, "0s PAUSE, 15s RESUME, 40s RECONNECT"},
		"two announcements of the same":  {[]string{"announced", "announced", "gone"}, time.Second, "0s PAUSE, 1s RECONNECT, 1s RESUME"},
		"it is gone before it says more": {[]string{"gone"}, 0, "0s PAUSE, 0s RECONNECT, 0s RESUME"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				first := &scripted{answers: make(chan string, 10)}
				began := time.Now()
				var said []string
				commands := make(chan string, 10)
				sessions := []*scripted{first, {answers: make(chan string)}}
				l := &listener{
					connect: func(context.Context) (primary, error) {
						if len(sessions) == 1 && time.Since(began) < test.away {
							return nil, errors.New("refused")
						}
						next := sessions[0]
						sessions = sessions[1:]
						return next, nil
					},
					send: func(ctx context.Context, command string) error {
						commands <- time.Since(began).Truncate(time.Second).String() + " " + command
						if command == "PAUSE" {
							<-ctx.Done() // A statement is under way for ever.
						}
						return nil
					},
					clock: clock.RealClock{}, log: logr.Discard(),
				}
				go func() { _ = l.run(ctx) }()
				for _, answer := range test.answers {
					first.answers <- answer
				}
				time.Sleep(time.Minute)
				end()
				synctest.Wait()
				close(commands)
				for command := range commands {
					said = append(said, command)
				}
				if got := strings.Join(said, ", "); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				if gone := slices.Contains(test.answers, "gone"); first.closed != gone && gone {
					t.Error("the session that has ended is not closed")
				}
			})
		})
	}
}
