package engine

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
)

// Pause waits for a duration, or until the context ends, and then returns its cause.
func Pause(ctx context.Context, c clock.Clock, duration time.Duration) error {
	timer := c.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}

// Until calls done, with a pause after each call, until it returns true or an error, or the context
// ends.
func Until(ctx context.Context, c clock.Clock, pause time.Duration, done func() (bool, error)) error {
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		if err := Pause(ctx, c, pause); err != nil {
			return err
		}
	}
}

// Patiently calls do until it succeeds or the context ends. It fails at once only with an error
// that isLasting: one that the server would answer the next time, too. After a failed operation the
// server is killed, and has to recover, or has lost its data: too high a price for one slow answer.
func Patiently(ctx context.Context, c clock.Clock, pause time.Duration, isLasting func(error) bool, do func() error) error {
	var last error
	err := Until(ctx, c, pause, func() (bool, error) {
		last = do()
		return last == nil || isLasting(last), nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return cmp.Or(last, err)
}
