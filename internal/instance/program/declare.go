package program

import (
	"slices"
	"strings"
)

// Metric describes a metric of an instance.
type Metric struct {
	Name string
	// Help is the meaning of the metric; Normal describes values that need no attention.
	Help, Normal string
	Labels       []Label
}

// Label is one label of a metric.
type Label struct{ Name, Meaning string }

// Type returns counter or gauge.
func (m Metric) Type() string {
	if isCounter(m.Name) {
		return "counter"
	}
	return "gauge"
}

func isCounter(name string) bool { return strings.HasSuffix(name, "_total") }

var (
	memberLabel = Label{"member", "pod of the replica"}
	volumeLabel = Label{"volume", "`data`, or `wal` for that of spec.walStorage"}
	nameLabel   = Label{"datname", "database in the server: the first 100 that were made"}
)

// Metrics returns all metrics of the instances of all engines, for documentation and checks. Each
// has a label with the name of the object, such as the PostgreSQL, to which the instance belongs.
func Metrics() []Metric {
	all := instanceMetrics()
	var objects []Label
	for _, kind := range kinds() {
		objects = append(objects, Label{kind.label.Name, kind.label.Meaning + "; at its instances only"})
	}
	for i := range all {
		all[i].Labels = append(slices.Clone(objects), all[i].Labels...)
	}
	for _, kind := range kinds() {
		for _, metric := range kind.server() {
			metric.Labels = append([]Label{kind.label}, metric.Labels...)
			all = append(all, metric)
		}
	}
	return all
}

func instanceMetrics() []Metric {
	return []Metric{
		{Name: "mainstay_instance_primary", Help: "1 if this instance takes writes, else 0: also 0 at a primary that refuses them at present, or whose " +
			"commits wait because too few replicas receive.", Normal: "1 at exactly one instance of a database."},
		{Name: "mainstay_instance_replica", Help: "1 if this instance receives from the primary, else 0.", Normal: "1 at all instances but the primary."},
		{Name: "mainstay_instance_term", Help: "Term of the leader that this instance is or follows; 0 without one.",
			Normal: "The same at all instances. It rises by one with each failover and switchover."},
		{Name: "mainstay_instance_timeline", Help: "Timeline of a leading server; 0 at replicas.", Normal: "It rises with each promotion."},
		{Name: "mainstay_instance_receivers", Help: "Replicas that receive from this instance; 0 at replicas.", Normal: "At the primary, all replicas."},
		{Name: "mainstay_instance_needed_receivers", Help: "How many replicas have to receive, so that no failure of one instance loses a commit.",
			Normal: "Half the number of instances, rounded down; 0 with the durability Asynchronous."},
		{Name: "mainstay_instance_problem", Help: "1 while the instance reports a problem, which the annotation of its pod and the status of the " +
			"database's object name, else 0.", Normal: "0."},
		{Name: "mainstay_instance_promotions_total", Help: "Promotions of this instance since its program began.",
			Normal: "One for each failover and switchover."},
		{Name: "mainstay_instance_fences_total", Help: "How often the server was killed while it led, so that it could not take writes any more, since " +
			"the program began.", Normal: "0. One after the primary was cut off from the other instances, or stopped."},
		{Name: "mainstay_instance_volume_used_bytes", Help: "Used bytes of the volume's file system; missing while it does not answer, and of a Cache without persistence.",
			Normal: "At most 85 % of the size: then the server needs more.", Labels: []Label{volumeLabel}},
		{Name: "mainstay_instance_volume_size_bytes", Help: "Bytes of the volume's file system that may be used in all; missing while it does not answer, and of a Cache without persistence.",
			Normal: "spec.storage or spec.walStorage.size, less what the file system needs.", Labels: []Label{volumeLabel}},
	}
}

func serverMetrics() []Metric {
	results := Label{"result", "`commit` or `rollback`"}
	sources := Label{"source", "`memory` (shared buffers) or `disk` (which may be the kernel's memory)"}
	return []Metric{
		{Name: "mainstay_postgresql_rotation_overdue_seconds",
			Help:   "At the primary: for how long it has been time for a user to get its next password, or to lose its former one.",
			Normal: "0, or soon again. A former password stays as long as a WebApp has it."},
		{Name: "mainstay_postgresql_up", Help: "1 if the server answers, else 0. All of the following are missing while it does not.",
			Normal: "1, but for some seconds when it starts."},
		{Name: "mainstay_postgresql_connections", Help: "Connections of clients, with some three of Mainstay's own.", Normal: "Well below the maximum."},
		{Name: "mainstay_postgresql_max_connections", Help: "The parameter max_connections.", Normal: "It changes with the parameter."},
		{Name: "mainstay_postgresql_oldest_transaction_seconds", Help: "Age of the transaction that began first; 0 without one.",
			Normal: "Seconds. One that lasts hours keeps dead rows from being removed."},
		{Name: "mainstay_postgresql_transaction_id_age", Help: "How many transactions ago the oldest row was frozen.",
			Normal: "Below 2.0e+08 (autovacuum_freeze_max_age), or soon again. The server takes no writes shortly before 2.1e+09."},
		{Name: "mainstay_postgresql_replay_lag_bytes", Help: "At a replica: bytes of write-ahead log that it has received and not replayed.",
			Normal: "Close to 0."},
		{Name: "mainstay_postgresql_replay_lag_seconds",
			Help:   "At a replica: age of the last transaction that it has replayed, if it has received more.",
			Normal: "Below some seconds, but while a query on the replica holds the replay up."},
		{Name: "mainstay_postgresql_replication_lag_bytes", Help: "At the primary: bytes of write-ahead log that a replica has not replayed.",
			Normal: "Close to 0. There is no series for a replica that does not receive.", Labels: []Label{memberLabel}},
		{Name: "mainstay_postgresql_replication_lag_seconds",
			Help:   "At the primary: how long it took until the replica had replayed what was written last.",
			Normal: "Milliseconds.", Labels: []Label{memberLabel}},
		{Name: "mainstay_postgresql_database_size_bytes", Help: "Size of a database.", Normal: "It depends on your data.",
			Labels: []Label{nameLabel}},
		{Name: "mainstay_postgresql_transactions_total", Help: "Transactions of a database.", Normal: "Few rollbacks.",
			Labels: []Label{nameLabel, results}},
		{Name: "mainstay_postgresql_deadlocks_total", Help: "Deadlocks of a database.", Normal: "None.", Labels: []Label{nameLabel}},
		{Name: "mainstay_postgresql_temporary_bytes_total", Help: "Bytes that queries wrote to temporary files.",
			Normal: "None, if work_mem suffices.", Labels: []Label{nameLabel}},
		{Name: "mainstay_postgresql_blocks_total", Help: "Blocks that queries read.", Normal: "Most from memory.",
			Labels: []Label{nameLabel, sources}},
	}
}
