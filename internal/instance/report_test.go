package instance

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// TestEnded: a program that ends because of foreign data says what it found and what it needs.
func TestEnded(t *testing.T) {
	found := &engine.ForeignError{Found: "the data of PostgreSQL 16", Needed: "those of PostgreSQL 17"}
	foreign := fmt.Errorf("looking at the data: %w", found)
	want := contract.Report{
		State: "Ended", Foreign: "has the data of PostgreSQL 16, and needs those of PostgreSQL 17",
		Problem: "looking at the data: the volume has the data of PostgreSQL 16, and needs those of PostgreSQL 17; nothing was changed",
	}
	if got := Ended(foreign); got != want {
		t.Errorf("got %+v", got)
	}
	if got := Ended(errors.New(strings.Repeat("x", 9000))); got.Foreign != "" || len(got.Problem) > 400 {
		t.Errorf("got %+v", got)
	}
}

// TestUnstoredIsNoReplica: an instance that does not store yet what it receives is no replica, so
// that a rollout waits for it, and says why.
func TestUnstoredIsNoReplica(t *testing.T) {
	for unstored, want := range map[bool]contract.Role{false: contract.Replica, true: contract.NoRole} {
		i := &Instance{core: &election.Observed{Server: election.Server{State: election.Standby, Unstored: unstored}}}
		got := i.describe(engine.Observation{Connected: true, Problem: "not stored yet"})
		if got.Role != want || got.Problem != "not stored yet" || got.State != "Following" {
			t.Errorf("unstored: %t: got %+v", unstored, got)
		}
	}
}
