package main

import (
	"path/filepath"
	"testing"
	"time"
)

// TestBudgets: `make test` takes as long as its longer lane. That is 20 minutes with the kinds that
// there were then, what each kind since may add, and what faults of databases take, and 35 with all
// that are to come.
func TestBudgets(t *testing.T) {
	kinds, err := filepath.Glob(filepath.Join(repository, "internal", "kinds", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(kinds) != firstKinds+laterKinds {
		t.Errorf("%d kinds are there: adjust laterKinds in budgets.go", len(kinds))
	}
	// There were two of the later kinds when the 20 minutes were promised for all of them.
	const within = 2
	present := 20*time.Minute + databasesAllowance + (laterKinds-within)*endToEndAllowance
	for later, promised := range map[int]time.Duration{laterKinds: present, plannedKinds: 35 * time.Minute} {
		lanes := map[lane]time.Duration{}
		for _, l := range layers {
			if !l.onRequest {
				lanes[l.lane] += l.limitWith(later)
			}
		}
		for lane, budget := range lanes {
			if budget > promised {
				t.Errorf("with %d later kinds the layers of the lane %s may take %s, more than %s", later, lane, budget, promised)
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
