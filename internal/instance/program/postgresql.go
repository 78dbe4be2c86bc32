package program

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/internal/postgres/server"
)

// postgresql is the engine of a PostgreSQL.
var postgresql = kind{
	engine: PostgreSQL, title: "PostgreSQL", label: Label{"postgresql", "name of the PostgreSQL"}, server: serverMetrics, open: openPostgreSQL,
}

func openPostgreSQL(o options, p *parts) database {
	listen := o.listen
	if listen == "" {
		listen = "*"
	}
	engine := server.New(server.Options{
		Data: p.volume.Server(), Run: o.run, Listen: listen, Port: o.port, Certificates: o.certificates,
		Me: p.member, Members: p.members, NewLog: p.volume.NewLog, Environment: o.environment, Log: os.Stdout,
		Supervisor: p.supervisor, Clock: clock.RealClock{},
	})
	return database{
		Engine: engine, versioned: engine, metrics: withRotation(postgresqlMetrics(engine.Statistics), p.leads, p.rotationDue.Load),
		provide: func(ctx context.Context, of notified, readProvisions func(context.Context) ([]byte, error)) error {
			more := &declared{
				server: engine, revision: func() string { return *p.provisions.Load() }, read: readProvisions, made: of.ProvisionsMade,
				rotates: func(due time.Time) { p.rotationDue.Store(&due) }, log: p.log,
			}
			return (&application[postgres.Application]{
				directory: o.application, of: of, server: engine, read: readWith(&p.initialise), provided: of.Provided, more: more.provide, log: p.log,
			}).run(ctx)
		},
	}
}

// readWith returns a function that reads an application from a directory, and sets its Initialise
// to that of the settings.
func readWith(initialise *atomic.Bool) func(string) (postgres.Application, error) {
	return func(directory string) (postgres.Application, error) {
		read, err := readApplication(directory)
		read.Initialise = read.User != "" && initialise.Load()
		return read, err
	}
}

// postgresqlMetrics returns a function that adds the metrics of a PostgreSQL.
func postgresqlMetrics(statistics func(context.Context) (postgres.Statistics, bool, error)) func(context.Context, adder) error {
	return func(ctx context.Context, add adder) error {
		s, answers, err := statistics(ctx)
		add("mainstay_postgresql_up", number(answers))
		if answers {
			addPostgreSQL(add, s)
		}
		return err
	}
}

func addPostgreSQL(add adder, s postgres.Statistics) {
	add("mainstay_postgresql_connections", s.Connections)
	add("mainstay_postgresql_max_connections", s.MaxConnections)
	add("mainstay_postgresql_oldest_transaction_seconds", s.OldestTransaction)
	add("mainstay_postgresql_transaction_id_age", s.TransactionIDAge)
	add("mainstay_postgresql_replay_lag_bytes", s.ReplayBytes)
	add("mainstay_postgresql_replay_lag_seconds", s.ReplayTime)
	for _, receiver := range s.Receivers {
		add("mainstay_postgresql_replication_lag_bytes", receiver.LagBytes, receiver.Pod)
		add("mainstay_postgresql_replication_lag_seconds", receiver.LagTime, receiver.Pod)
	}
	for _, database := range s.Databases {
		add("mainstay_postgresql_database_size_bytes", database.Size, database.Name)
		add("mainstay_postgresql_transactions_total", database.Commits, database.Name, "commit")
		add("mainstay_postgresql_transactions_total", database.Rollbacks, database.Name, "rollback")
		add("mainstay_postgresql_deadlocks_total", database.Deadlocks, database.Name)
		add("mainstay_postgresql_temporary_bytes_total", database.TemporaryBytes, database.Name)
		add("mainstay_postgresql_blocks_total", database.BlocksHit, database.Name, "memory")
		add("mainstay_postgresql_blocks_total", database.BlocksRead, database.Name, "disk")
	}
}

// withRotation returns a function that adds, at the primary, for how long the rotation of a
// password has been overdue, and then the other metrics. due returns when a password is next to
// change or to expire: the zero time is never, and nil means that it is not known.
func withRotation(
	others func(context.Context, adder) error, leads func() bool, due func() *time.Time,
) func(context.Context, adder) error {
	return func(ctx context.Context, add adder) error {
		if at := due(); at != nil && leads() {
			overdue := 0.0
			if !at.IsZero() {
				overdue = max(time.Since(*at).Seconds(), 0)
			}
			add("mainstay_postgresql_rotation_overdue_seconds", overdue)
		}
		return others(ctx, add)
	}
}
