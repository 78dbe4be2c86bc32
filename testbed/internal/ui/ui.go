// Package ui prints what a long command is doing, one line a step.
package ui

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// tick is how often a long step says how far it is: often enough that nobody
// thinks it hangs, seldom enough for a CI log.
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
	// A progress line that cannot be written must not fail the work itself.
	_, _ = fmt.Fprintf(p.out, "%7.1fs  %s\n", time.Since(p.begin).Seconds(), fmt.Sprintf(format, arguments...))
}

// Step runs work, then prints its name and how long it took. While it runs, detail
// (nil: nothing to tell) is asked every 20 s for one more line.
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
				text := "still at it"
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
