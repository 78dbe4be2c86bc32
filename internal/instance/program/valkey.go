package program

import (
	"context"
	"errors"
	"os"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/valkey"
	"github.com/mainstay-platform/mainstay/internal/valkey/server"
)

// cache is the engine of a Cache.
var cache = kind{
	engine: Valkey, title: "Valkey", label: Label{"cache", "name of the Cache"}, server: valkeyMetrics, open: openValkey, check: checkValkey,
}

// checkValkey returns an error for settings that Valkey does not support.
func checkValkey(settings contract.Settings) error {
	if settings.Election().Durability != election.Asynchronous {
		return errors.New("durability: must be Asynchronous: no write of Valkey waits for another member")
	}
	return nil
}

func openValkey(o options, p *parts) database {
	engine := server.New(server.Options{
		Data: p.volume.Server(), Run: o.run, Listen: o.listen, Port: o.port, PlainPort: o.plainPort, Certificates: o.certificates,
		Me: p.member, Stream: p.client.Stream, Environment: o.environment, Log: os.Stdout,
		Supervisor: p.supervisor, Clock: clock.RealClock{},
	})
	return database{
		Engine: engine, versioned: engine, streams: engine, metrics: cacheMetrics(engine.Statistics),
		provide: func(ctx context.Context, of notified, _ func(context.Context) ([]byte, error)) error {
			return (&application[valkey.Application]{
				directory: o.application, of: of, server: engine, read: readUser, everywhere: true, provided: of.Provided, log: p.log,
			}).run(ctx)
		},
	}
}

// cacheMetrics returns a function that adds the metrics of a Valkey.
func cacheMetrics(statistics func(context.Context) (valkey.Statistics, bool, error)) func(context.Context, adder) error {
	return func(ctx context.Context, add adder) error {
		s, answers, err := statistics(ctx)
		add("mainstay_cache_up", number(answers))
		if answers {
			addValkey(add, s)
		}
		return err
	}
}

func addValkey(add adder, s valkey.Statistics) {
	add("mainstay_cache_connections", s.Connections)
	add("mainstay_cache_max_connections", s.MaxConnections)
	add("mainstay_cache_rejected_connections_total", s.Rejected)
	add("mainstay_cache_memory_used_bytes", s.MemoryUsed)
	add("mainstay_cache_memory_max_bytes", s.MemoryMax)
	add("mainstay_cache_memory_resident_bytes", s.MemoryResident)
	add("mainstay_cache_keys", s.Keys)
	add("mainstay_cache_expired_keys_total", s.Expired)
	add("mainstay_cache_evicted_keys_total", s.Evicted)
	add("mainstay_cache_lookups_total", s.Hits, "hit")
	add("mainstay_cache_lookups_total", s.Misses, "miss")
	add("mainstay_cache_commands_total", s.Commands)
	add("mainstay_cache_network_bytes_total", s.NetworkIn, "in")
	add("mainstay_cache_network_bytes_total", s.NetworkOut, "out")
	add("mainstay_cache_save_failed", max(s.SaveFailed, s.RewriteFailed))
	add("mainstay_cache_last_fork_seconds", s.LastFork)
	add("mainstay_cache_replication_backlog_bytes", s.ReplicationBacklog)
	for _, receiver := range s.Receivers {
		add("mainstay_cache_replication_lag_bytes", receiver.LagBytes, receiver.Pod)
	}
}

func valkeyMetrics() []Metric {
	return []Metric{
		{Name: "mainstay_cache_up", Help: "1 if the server answers, else 0. All of the following are missing while it does not.",
			Normal: "1, but for some seconds when it starts."},
		{Name: "mainstay_cache_connections", Help: "Connections of clients, with a few of Mainstay's own.", Normal: "Well below the maximum."},
		{Name: "mainstay_cache_max_connections", Help: "The parameter maxclients.", Normal: "It changes with the parameter."},
		{Name: "mainstay_cache_rejected_connections_total", Help: "Connections that were refused because there were too many.", Normal: "0."},
		{Name: "mainstay_cache_memory_used_bytes", Help: "Memory of the keys and of the server itself.", Normal: "At most the maximum; then keys are evicted."},
		{Name: "mainstay_cache_memory_max_bytes", Help: "The parameter maxmemory.", Normal: "It follows from spec.memory and spec.maxMemoryPercent."},
		{Name: "mainstay_cache_memory_resident_bytes", Help: "Memory of the server's process.",
			Normal: "Below spec.memory: the kernel ends a container that needs more."},
		{Name: "mainstay_cache_keys", Help: "Keys in all databases of the server.", Normal: "It depends on your data."},
		{Name: "mainstay_cache_expired_keys_total", Help: "Keys that were removed because their time was over.", Normal: "It depends on your data."},
		{Name: "mainstay_cache_evicted_keys_total", Help: "Keys that were removed because there was no memory for others.",
			Normal: "Few. Many of them, with many misses, say that more memory would help."},
		{Name: "mainstay_cache_lookups_total", Help: "Lookups of keys.", Normal: "Most are hits.",
			Labels: []Label{{"result", "`hit` or `miss`"}}},
		{Name: "mainstay_cache_commands_total", Help: "Commands that the server carried out, some ten a second of Mainstay's own among them.",
			Normal: "It depends on your clients."},
		{Name: "mainstay_cache_network_bytes_total", Help: "Bytes that the server received or sent.", Normal: "It depends on your clients.",
			Labels: []Label{{"direction", "`in` or `out`"}}},
		{Name: "mainstay_cache_save_failed", Help: "1 if the server could not store its data the last time that it tried, else 0.", Normal: "0."},
		{Name: "mainstay_cache_last_fork_seconds", Help: "How long clients waited for the last copy of the server's process, with which it stores data.",
			Normal: "Milliseconds: some ten for each GB of memory."},
		{Name: "mainstay_cache_replication_backlog_bytes", Help: "Bytes of writes that are kept for replicas that were away.",
			Normal: "At most the parameter repl-backlog-size, or what a replica that is slow has still to receive."},
		{Name: "mainstay_cache_replication_lag_bytes", Help: "At the primary: bytes of writes that a replica has not acknowledged.",
			Normal: "What is written in a second. There is no series for a replica that does not receive.", Labels: []Label{memberLabel}},
	}
}
