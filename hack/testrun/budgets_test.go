package main

import (
	"path/filepath"
	"testing"
	"time"
)

// TestBudgets: `make test` takes as long as its longer lane, and the second lane begins when that
// of the first cluster is over. Together they keep to what the present kinds may take, and to what
// each further one may add.
func TestBudgets(t *testing.T) {
	kinds, err := filepath.Glob(filepath.Join(repository, "internal", "kinds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) != firstKinds+laterKinds {
		t.Errorf("%d kinds are there: adjust laterKinds in budgets.go", len(kinds))
	}
	for further := range 2 {
		budgets, promised := map[lane]time.Duration{}, presentBudget+time.Duration(further)*endToEndAllowance
		for _, l := range layers {
			if !l.onRequest {
				budgets[l.lane.beside()] += l.limitWith(laterKinds + further)
			}
		}
		for lane, budget := range budgets {
			if budget > promised {
				t.Errorf("with %d further kinds the layers of the lane %s may take %s, more than %s", further, lane, budget, promised)
			}
		}
	}
}

// TestAllowances: a kind adds to each layer what was agreed, and to no other.
func TestAllowances(t *testing.T) {
	want := map[string]time.Duration{
		"pure": 10 * time.Second, "integration": 25 * time.Second, "faults": 25 * time.Second, "e2e": 75 * time.Second,
	}
	for _, l := range layers {
		if l.perKind != want[l.name] {
			t.Errorf("a kind adds %s to %s, want %s", l.perKind, l.name, want[l.name])
		}
		if got := l.limitWith(3) - l.limitWith(1); got != 2*l.perKind {
			t.Errorf("%s: two kinds add %s", l.name, got)
		}
	}
}
