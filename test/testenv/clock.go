package testenv

import (
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/setup"
)

// Clock is the real time plus the durations given to Leap. With it, cooldowns and windows pass
// without waiting. It is safe for use by multiple goroutines.
type Clock struct {
	clock.PassiveClock
	ahead atomic.Int64
}

// NewClock returns a clock that shows the real time.
func NewClock() *Clock { return &Clock{PassiveClock: clock.RealClock{}} }

// NewClockAt returns a clock that starts at the given time.
func NewClockAt(now time.Time) *Clock {
	c := NewClock()
	c.Leap(time.Until(now))
	return c
}

// Leap moves the clock forward by a duration. It does not affect timers that are already set.
func (c *Clock) Leap(by time.Duration) { c.ahead.Add(int64(by)) }

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time { return c.PassiveClock.Now().Add(time.Duration(c.ahead.Load())) }

// Since returns the time between then and Now.
func (c *Clock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// WithClock returns a change of the settings that makes a manager's controllers use the clock.
func WithClock(clock clock.PassiveClock) func(*setup.Settings) {
	return func(settings *setup.Settings) { settings.Clock = clock }
}
