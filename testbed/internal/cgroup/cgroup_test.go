package cgroup

import (
	"maps"
	"testing"
)

// TestWeights: pods get what those of as many machines would get, within what Linux accepts.
func TestWeights(t *testing.T) {
	for _, test := range []struct {
		nodes, processors int
		want              map[string]int
	}{
		{1, 1, map[string]int{"cpu.shares": 1024, "cpu.weight": 100}},
		{3, 2, map[string]int{"cpu.shares": 6144, "cpu.weight": 600}},
		{9, 64, map[string]int{"cpu.shares": 262144, "cpu.weight": 10000}},
	} {
		if got := weights(test.nodes, test.processors); !maps.Equal(got, test.want) {
			t.Errorf("%d nodes with %d processors: %v, want %v", test.nodes, test.processors, got, test.want)
		}
	}
}
