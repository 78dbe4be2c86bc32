package summary_test

import (
	"testing"

	"github.com/mainstay-platform/mainstay/internal/kit/summary"
)

// TestFirst: the order of the rules decides, and a rule without a message does not apply.
func TestFirst(t *testing.T) {
	rules := []summary.Rule[int]{
		summary.When(summary.Failed, "Large", func(n int) string { return summary.If(n > 100, "%d is large", n) }),
		summary.When(summary.Degraded, "Odd", func(n int) string { return summary.If(n%2 == 1, "odd") }),
		summary.When(summary.Working, "Fine", func(int) string { return "fine" }),
	}
	for number, want := range map[int]summary.Summary{
		101: summary.Of(summary.Failed, "Large", "101 is large"),
		7:   summary.Of(summary.Degraded, "Odd", "odd"),
		8:   summary.Of(summary.Working, "Fine", "fine"),
	} {
		if got := summary.First(number, rules); got != want {
			t.Errorf("%d: got %v, want %v", number, got, want)
		}
	}
	if got := summary.First(8, rules[:2]); got != (summary.Summary{}) {
		t.Errorf("no rule applies: got %v", got)
	}
}
