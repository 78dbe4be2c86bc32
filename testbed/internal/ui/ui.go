// Package ui prints what a long command is doing, one line a step.
package ui

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// tick is the interval between two progress lines of a long step: short enough to show that it
// works, long enough for a CI log.
const tick = 20 * time.Second

// Progress prints steps with the time since the command began. Safe for concurrent use.
type Progress struct {
	mu    sync.Mutex
	out   io.Writer
	begin time.Time
}

// New returns a Progress that writes to out and counts from now.
func New(out io.Writer) *Progress { return &Progress{out: out, begin: time.Now()} }

// Say prints one line.
func (p *Progress) Say(format string, arguments ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A failure to print progress must not fail the work itself.
	_, _ = fmt.Fprintf(p.out, "%7.1fs  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, arguments...))
}

// Step runs work, then prints its name and its duration. While work runs, Step prints the result of
// detail every 20 s. detail may be nil.
func (p *Progress) Step(name string, detail func() string, work func() error) error {
	start := time.Now()
	done := make(chan struct{})
	var waiter sync.WaitGroup
	waiter.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				text := "still running"
				if detail != nil {
					text = detail()
				}
				p.Say("%s: %s (%s so far)", name, text, time.Since(start).Round(time.Second))
			}
		}
	})
	err := work()
	close(done)
	waiter.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.Say("%s (%.1fs)", name, time.Since(start).Seconds())
	return nil
}
