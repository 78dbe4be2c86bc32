package instances

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// measurements are for how long no write was acknowledged, by what happened.
type measurements struct {
	mu   sync.Mutex
	gaps map[string][]time.Duration
}

func (m *measurements) add(name string, gap time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gaps == nil {
		m.gaps = map[string][]time.Duration{}
	}
	m.gaps[name] = append(m.gaps[name], gap)
}

// lines say for each fault for how long no write was acknowledged: the median, the 95th percentile
// and the longest.
func (m *measurements) lines() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(m.gaps)) {
		gaps := slices.Sorted(slices.Values(m.gaps[name]))
		at := func(percent int) time.Duration { return gaps[(len(gaps)-1)*percent/100].Round(10 * time.Millisecond) }
		lines = append(lines, fmt.Sprintf("%s: %d times, no write for p50 %s, p95 %s, max %s", name, len(gaps), at(50), at(95), at(100)))
	}
	return lines
}

// stillness notes for how long this process did not run when it wanted to. A machine that lets it
// wait lets databases wait as well, and some are elected anew for that.
type stillness struct {
	mu     sync.Mutex
	pauses map[time.Time]time.Duration
}

// watch notes pauses until the context ends.
func (s *stillness) watch(ctx context.Context) {
	const every = 50 * time.Millisecond
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for last := time.Now(); ctx.Err() == nil; last = time.Now() {
		<-ticker.C
		if pause := time.Since(last) - every; pause > every {
			s.mu.Lock()
			if s.pauses == nil {
				s.pauses = map[time.Time]time.Duration{}
			}
			s.pauses[time.Now()] = pause
			s.mu.Unlock()
		}
	}
}

// stoodStill reports whether this process stood still for so long since a time that a handover or a
// leader of this machine may have had too little time as well. It says so then: what depends on
// time is not judged.
func (d *Database) stoodStill(begun time.Time) bool {
	pause := still.since(begun)
	if pause > d.mostStill {
		d.t.Logf("this machine stood still for %s: not judged", pause)
	}
	return pause > d.mostStill
}

// since returns the longest pause since a time.
func (s *stillness) since(begun time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	longest := time.Duration(0)
	for at, pause := range s.pauses {
		if at.After(begun) {
			longest = max(longest, pause)
		}
	}
	return longest
}
