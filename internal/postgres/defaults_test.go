package postgres

import (
	"fmt"
	"strings"
	"testing"
)

func TestDefaultParameters(t *testing.T) {
	for _, test := range []struct {
		memory, cpu int64
		want        string
	}{
		{0, 0, ""},
		{256 * mib, 500, "max_connections=28 shared_buffers=64MB effective_cache_size=192MB maintenance_work_mem=16MB work_mem=1820kB"},
		{1 * gib, 2000, "max_connections=112 shared_buffers=256MB effective_cache_size=768MB maintenance_work_mem=64MB work_mem=2184kB"},
		{64 * gib, 15500, "max_connections=500 shared_buffers=16384MB effective_cache_size=49152MB maintenance_work_mem=2048MB work_mem=32513kB" +
			" max_worker_processes=16 max_parallel_workers=16 max_parallel_workers_per_gather=4 max_parallel_maintenance_workers=4"},
		{0, 4000, "max_worker_processes=8 max_parallel_workers=4 max_parallel_workers_per_gather=2 max_parallel_maintenance_workers=2"},
	} {
		var got []string
		for _, setting := range DefaultParameters(test.memory, test.cpu) {
			got = append(got, setting.Name+"="+setting.Value)
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%d, %d: got %s", test.memory, test.cpu, strings.Join(got, " "))
		}
	}
}

// TestDefaultParametersFit: every server accepts the defaults, whatever the limits are, and the
// memory that it allocates at its start is less than the limit.
func TestDefaultParametersFit(t *testing.T) {
	for _, memory := range []int64{1, 16 * mib, 100 * mib, 512 * mib, 3 * gib, 700 * gib, 24 << 40, 1<<63 - 1} {
		for _, cpu := range []int64{-1, 1, 3999, 64000, 1 << 20} {
			settings := DefaultParameters(memory, cpu)
			for _, setting := range settings {
				for major := oldest; major <= newest; major++ {
					if err := CheckParameterOf(major, setting.Name, setting.Value); err != nil {
						t.Errorf("%d, %d: %s = %s: %v", memory, cpu, setting.Name, setting.Value, err)
					}
				}
			}
			var buffers int64
			if _, err := fmt.Sscanf(settings[1].Value, "%dMB", &buffers); err != nil || memory >= 64*mib && buffers > memory/4/mib {
				t.Errorf("%d: %s = %s, %v", memory, settings[1].Name, settings[1].Value, err)
			}
		}
	}
}
