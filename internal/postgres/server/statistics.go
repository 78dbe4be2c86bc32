package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// asMonitor gives up the superuser's rights, except for reading statistics. The session is opened
// as the superuser, because a server whose connections are used up accepts no others, and then its
// statistics are needed most. Its search_path is only pg_catalog (see session).
const asMonitor = "SET ROLE pg_monitor"

const generalStatistics = `SELECT
	(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::float8,
	current_setting('max_connections')::float8,
	coalesce((SELECT extract(epoch FROM max(clock_timestamp() - xact_start)) FROM pg_stat_activity
		WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()), 0)::float8,
	(SELECT max(age(datfrozenxid)) FROM pg_database)::float8,
	CASE WHEN pg_is_in_recovery() THEN greatest(coalesce(pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), 0), 0)
		ELSE 0 END::float8,
	CASE WHEN pg_is_in_recovery() AND pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()
		THEN greatest(coalesce(extract(epoch FROM ` + replayAge + `), 0), 0) ELSE 0 END::float8`

// receiverStatistics leaves out senders of base backups, whose receivers replay nothing.
const receiverStatistics = `SELECT application_name,
	greatest(coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
		replay_lsn), 0), 0)::float8, coalesce(extract(epoch FROM replay_lag), 0)::float8
	FROM pg_stat_replication WHERE state <> 'backup' LIMIT 100`

var databaseStatistics = `SELECT d.datname, pg_database_size(d.oid)::float8, s.xact_commit::float8, s.xact_rollback::float8,
	s.deadlocks::float8, s.temp_bytes::float8, s.blks_read::float8, s.blks_hit::float8
	FROM pg_database d JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datallowconn AND NOT d.datistemplate
	ORDER BY d.oid LIMIT ` + strconv.Itoa(postgres.MaxDatabases)

// Statistics reads the statistics of the server, in a session of its own. If only a part could be
// read, it returns that part and an error. answers is false if nothing could be read.
func (e *Engine) Statistics(ctx context.Context) (s postgres.Statistics, answers bool, err error) {
	l, err := e.current()
	if err != nil {
		return s, false, err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	session, err := e.connect(ctx)
	if err != nil {
		return s, false, err
	}
	defer disconnect(session)
	if _, err := session.Exec(ctx, asMonitor); err != nil {
		return s, false, fmt.Errorf("preparing a session: %w", err)
	}
	err = session.QueryRow(ctx, generalStatistics).Scan(&s.Connections, &s.MaxConnections, &s.OldestTransaction, &s.TransactionIDAge,
		&s.ReplayBytes, &s.ReplayTime)
	if err != nil {
		return s, false, fmt.Errorf("asking for statistics: %w", err)
	}
	receivers, receiversErr := readReceivers(ctx, session)
	databases, databasesErr := readDatabases(ctx, session)
	s.Receivers, s.Databases = receivers, databases
	return s, true, errors.Join(receiversErr, databasesErr)
}

func readReceivers(ctx context.Context, session *pgx.Conn) ([]postgres.ReceiverStatistics, error) {
	rows, err := session.Query(ctx, receiverStatistics)
	if err != nil {
		return nil, fmt.Errorf("asking for statistics of replication: %w", err)
	}
	var found []postgres.ReceiverStatistics
	var name string
	var one postgres.ReceiverStatistics
	_, err = pgx.ForEachRow(rows, []any{&name, &one.LagBytes, &one.LagTime}, func() error {
		member, isMember := postgres.ParseApplicationName(name)
		if !isMember {
			return nil
		}
		for i := range found {
			if found[i].Pod == member.Name { // A connection that is not gone yet.
				found[i].LagBytes, found[i].LagTime = min(found[i].LagBytes, one.LagBytes), min(found[i].LagTime, one.LagTime)
				return nil
			}
		}
		one.Pod = member.Name
		found = append(found, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking for statistics of replication: %w", err)
	}
	return found, nil
}

func readDatabases(ctx context.Context, session *pgx.Conn) ([]postgres.DatabaseStatistics, error) {
	rows, err := session.Query(ctx, databaseStatistics)
	if err != nil {
		return nil, fmt.Errorf("asking for statistics of databases: %w", err)
	}
	var found []postgres.DatabaseStatistics
	var one postgres.DatabaseStatistics
	_, err = pgx.ForEachRow(rows, []any{&one.Name, &one.Size, &one.Commits, &one.Rollbacks, &one.Deadlocks, &one.TemporaryBytes,
		&one.BlocksRead, &one.BlocksHit}, func() error {
		one.Name = strings.ToValidUTF8(one.Name, "?") // A server may keep names in any encoding.
		found = append(found, one)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("asking for statistics of databases: %w", err)
	}
	return found, nil
}
