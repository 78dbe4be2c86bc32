package instance

import "testing"

// TestAVolumeAtTheEdge: how full and how large a volume is, is reported in steps, and not each time
// that a log file is created or removed.
func TestAVolumeAtTheEdge(t *testing.T) {
	run(t, func(t *testing.T, d *database) {
		t.Helper()
		for _, volume := range []struct{ percent, full, calls int }{
			{49, 45, 3}, {50, 50, 3}, {49, 50, 0}, {51, 50, 0}, {48, 50, 0}, {47, 45, 3}, {50, 50, 3}, {8, 5, 3}, {0, 0, 3}, {100, 100, 3},
		} {
			said, calls := d.measured(func() { d.full.Store(int64(volume.percent)) })
			if said.Full != volume.full || calls != volume.calls {
				t.Errorf("at %d %% the pods say %d after %d calls, want %d after %d", volume.percent, said.Full, calls, volume.full, volume.calls)
			}
		}
		for _, volume := range []struct {
			size, said int64
			calls      int
		}{{1000, 1000, 3}, {1019, 1000, 0}, {981, 1000, 0}, {1020, 1020, 3}, {2000, 2000, 3}} {
			said, calls := d.measured(func() { d.size.Store(volume.size) })
			if said.Size != volume.said || calls != volume.calls {
				t.Errorf("of %d MiB the pods say %d after %d calls, want %d after %d", volume.size, said.Size, calls, volume.said, volume.calls)
			}
		}
	})
}
