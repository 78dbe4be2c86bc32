package instance

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine/scripted"
)

// parameters gives these parameters to all instances, now and at their next starts.
func (d *database) parameters(set map[string]string) {
	d.set = set
	for _, pod := range pods {
		d.programs[pod].instance.Configure(context.Background(), d.config(pod))
	}
}

// TestNewParameters: all servers use the parameters of a user while they run and after a restart,
// and report if one takes effect only at a restart.
func TestNewParameters(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		set := map[string]string{"work_mem": "8MB", scripted.Restarts: "1GB"}
		d.parameters(set)
		d.await("parameters that all servers use", time.Minute, func() bool {
			return !slices.ContainsFunc(pods, func(pod string) bool { return !maps.Equal(d.engines[pod].Parameters(), set) })
		})
		restarts := func(pod string) bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.reports[pod].PendingRestart
		}
		d.await("reports of a restart to come", time.Minute, func() bool { return restarts("db-0") && restarts("db-1") && restarts("db-2") })
		d.parameters(maps.Clone(set)) // The same again changes nothing.
		d.crash("db-1")
		d.start("db-1")
		d.await("start with the parameters", time.Minute, func() bool {
			return !restarts("db-1") && maps.Equal(d.engines["db-1"].Parameters(), set)
		})
		for pod, want := range map[string]int{"db-0": 1, "db-1": 0, "db-2": 1} {
			if got := strings.Count(strings.Join(d.engines[pod].Operations(), " "), "Reload"); got != want {
				t.Errorf("%s reloaded %d times, want %d", pod, got, want)
			}
		}
	})
}
