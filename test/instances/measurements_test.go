package instances

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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

// String is a table of the median, the 95th percentile and the longest.
func (m *measurements) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var table strings.Builder
	fmt.Fprintf(&table, "%-70s %6s %8s %8s %8s\n", "", "rounds", "p50", "p95", "max")
	for _, name := range slices.Sorted(maps.Keys(m.gaps)) {
		gaps := slices.Sorted(slices.Values(m.gaps[name]))
		at := func(percent int) string { return gaps[(len(gaps)-1)*percent/100].Round(10 * time.Millisecond).String() }
		fmt.Fprintf(&table, "%-70s %6d %8s %8s %8s\n", name, len(gaps), at(50), at(95), at(100))
	}
	return table.String()
}
