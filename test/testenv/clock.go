package testenv

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Clock is the true time plus what Leap was given, so that cooldowns and windows pass without waiting. It is safe for use by
// many goroutines.
type Clock struct {
	clock.PassiveClock
	ahead atomic.Int64
}

// NewClock shows the true time.
func NewClock() *Clock { return &Clock{PassiveClock: clock.RealClock{}} }

// NewClockAt shows a given time now, and goes on from there.
func NewClockAt(now time.Time) *Clock {
	c := NewClock()
	c.Leap(time.Until(now))
	return c
}

// Leap moves the clock by a duration. Timers that are already set do not notice.
func (c *Clock) Leap(by time.Duration) { c.ahead.Add(int64(by)) }

// Now is the time that the clock shows.
func (c *Clock) Now() time.Time { return c.PassiveClock.Now().Add(time.Duration(c.ahead.Load())) }

// Since is the time between then and Now.
func (c *Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// WithClock makes a manager's controllers ask a clock.
func WithClock(asked clock.PassiveClock) func(*setup.Settings) {
	return func(settings *setup.Settings) { settings.Clock = asked }
}
