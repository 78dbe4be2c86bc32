package postgres

import "strconv"

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// ReservedConnections is how many of max_connections are reserved for Mainstay's own sessions.
const ReservedConnections = 10

// DefaultParameters returns defaults for parameters that a user has not set, derived from the
// limits of the server's container: memory in bytes, and CPU in thousandths of a processor. From 0,
// which is no limit, nothing is derived. The rules are those of PGTune for mixed use
// (github.com/le0pard/pgtune), which takes a quarter of the memory for shared_buffers from the
// server's own documentation (Resource Consumption). max_connections is that of Amazon RDS, one
// connection for each 9531392 bytes, but at most 500, above which a pooler is better.
func DefaultParameters(memoryBytes, cpuMilli int64) []Setting {
	const perConnection, fewest, mostConnections = 9531392, 25, 500
	const workers, mostWorkers = 8, 1024  // The server's default of max_worker_processes, and its maximum.
	memoryBytes = min(memoryBytes, 8<<40) // Settings can't express more.
	cpus := min((max(cpuMilli, 0)+999)/1000, mostWorkers)
	processes := max(workers, cpus)
	var settings []Setting
	set := func(name string, value int64, unit string) {
		settings = append(settings, Setting{Name: name, Value: strconv.FormatInt(value, 10) + unit})
	}
	if memoryBytes > 0 {
		connections := min(max(memoryBytes/perConnection, fewest), mostConnections)
		buffers := max(memoryBytes/4, 16*mib)
		set("max_connections", connections, "")
		set("shared_buffers", buffers/mib, "MB")
		set("effective_cache_size", max(memoryBytes/4*3, 16*mib)/mib, "MB")
		set("maintenance_work_mem", min(max(memoryBytes/16, 8*mib), 2*gib)/mib, "MB")
		// A query may take this several times, and each of its processes too.
		set("work_mem", max((memoryBytes-buffers)/(3*(connections+processes)), mib)/kib, "kB")
	}
	const several = 4 // From so many processors on, the server's defaults are too low.
	if cpus >= several {
		set("max_worker_processes", processes, "")
		set("max_parallel_workers", cpus, "")
		set("max_parallel_workers_per_gather", min(cpus/2, several), "")
		set("max_parallel_maintenance_workers", min(cpus/2, several), "")
	}
	return settings
}
