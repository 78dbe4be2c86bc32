package postgres

import "strconv"

const (
	kib = 1 << 10
	mib = 1 << 20
	gib = 1 << 30
)

// ReservedConnections are those of max_connections that are Mainstay's own.
const ReservedConnections = 10

// DefaultParameters returns what follows from the limits of the server's container for parameters
// that a user left out: memory in bytes, processors in thousandths; 0 is no limit, from which
// nothing follows. The rules are those of PGTune for mixed use (github.com/le0pard/pgtune), which
// has a quarter of the memory for shared_buffers from the server's own documentation (Resource
// Consumption); the connections are those of Amazon RDS, 9531392 bytes for each, up to 500, above
// which a pooler does better.
func DefaultParameters(memoryBytes, cpuMilli int64) []Setting {
	const perConnection, fewest, mostConnections = 9531392, 25, 500
	const workers, mostWorkers = 8, 1024  // The server's own max_worker_processes, and the most that it takes.
	memoryBytes = min(memoryBytes, 8<<40) // More than a setting can say.
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
	const several = 4 // From so many processors on, the server's own values are too low.
	if cpus >= several {
		set("max_worker_processes", processes, "")
		set("max_parallel_workers", cpus, "")
		set("max_parallel_workers_per_gather", min(cpus/2, several), "")
		set("max_parallel_maintenance_workers", min(cpus/2, several), "")
	}
	return settings
}
