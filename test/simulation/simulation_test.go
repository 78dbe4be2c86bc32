package simulation

import (
	"flag"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mainstay-platform/mainstay/test/cases"
)

var (
	schedules = flag.Uint64("schedules", 1000, "how many schedules are tried")
	firstSeed = flag.Uint64("seed", 0, "the first seed; 0 is 1, or a new one in `make nightly`")
	most      = flag.Int64("failures", 3, "after how many failures no more schedules are tried")
	only      = flag.String("only", "", "the one invariant that is checked; all if empty")
	verbose   = flag.Bool("story", false, "print what happens in the first schedule, and try no other")
)

// TestSchedules tries many schedules. A failure is repeated with -seed=N -story.
func TestSchedules(t *testing.T) {
	first := *firstSeed
	if first == 0 {
		first = cases.First(t, 1)
	}
	if *verbose {
		if violation := Run(first, *only, t.Logf); violation != nil {
			t.Fatal(violation)
		}
		return
	}
	var next atomic.Uint64
	var failures atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for failures.Load() < *most {
				i := next.Add(1) - 1
				if i >= *schedules {
					return
				}
				if violation := Run(first+i, *only, nil); violation != nil {
					failures.Add(1)
					t.Error(violation)
				}
			}
		})
	}
	group.Wait()
}

// TestDeletedByForce tries schedules of databases in memory whose pods are deleted by force.
func TestDeletedByForce(t *testing.T) {
	for seed := range min(*schedules, 5000) {
		if violation := RunEphemeral(seed+1, *only, nil); violation != nil {
			_ = RunEphemeral(seed+1, *only, t.Logf)
			t.Fatal(violation)
		}
	}
}
