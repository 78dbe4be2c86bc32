package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// Timeouts of our own sessions. A server that takes longer counts as one that does not answer.
// Where it gets little CPU, a new session takes seconds, and is useless if we give up before it is
// ready.
const (
	connectTimeout   = 10 * time.Second
	statementTimeout = 5 * time.Second
)

// connect opens a session of the superuser's over the socket, in the database postgres. It fails if
// the server does not accept it within connectTimeout.
func (e *Engine) connect(ctx context.Context) (*pgx.Conn, error) {
	return e.connectNoticing(ctx, nil)
}

// connectNoticing does so, and passes the server's notices and warnings to notice.
func (e *Engine) connectNoticing(ctx context.Context, notice pgconn.NoticeHandler) (*pgx.Conn, error) {
	return e.connectTo(ctx, "postgres", notice)
}

// connectTo opens a session of the superuser's in a database. notice may be nil.
func (e *Engine) connectTo(ctx context.Context, database string, notice pgconn.NoticeHandler) (*pgx.Conn, error) {
	config, err := e.session(database)
	if err != nil {
		return nil, err
	}
	config.OnNotice = notice
	return open(ctx, config)
}

// connectAs opens a session as another role than the superuser, with that role's own search_path.
func (e *Engine) connectAs(ctx context.Context, user, database string) (*pgx.Conn, error) {
	config, err := e.session(database)
	if err != nil {
		return nil, err
	}
	config.User = user
	delete(config.RuntimeParams, "search_path")
	return open(ctx, config)
}

// session returns the configuration of a session of the superuser's.
func (e *Engine) session(database string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig("host=localhost user=postgres dbname=postgres sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("describing a session: %w", err)
	}
	config.Host, config.Port, config.Database = e.Run, uint16(e.Port), database
	config.Fallbacks, config.ConnectTimeout = nil, connectTimeout
	config.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	// They override what a user has set for all sessions, or for the superuser's: with these sessions
	// the server is measured and led.
	config.RuntimeParams = map[string]string{
		"client_encoding": "UTF8", "standard_conforming_strings": "on", "client_min_messages": "warning",
		"default_transaction_isolation": "read committed", "default_transaction_deferrable": "off", "DateStyle": "ISO",
		"application_name": "mainstay", "lock_timeout": "2s", "search_path": "pg_catalog", "synchronous_commit": "on",
		"statement_timeout": strconv.FormatInt(statementTimeout.Milliseconds(), 10), "idle_in_transaction_session_timeout": "10s",
		"default_transaction_read_only": "off",
	}
	major := e.major()
	if major >= 14 {
		config.RuntimeParams["idle_session_timeout"] = "0"
	}
	if major >= 17 {
		config.RuntimeParams["transaction_timeout"] = "0"
	}
	return config, nil
}

func open(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return session, nil
}

// major returns the major version of the running server; 0 if there is none.
func (e *Engine) major() int {
	if l, err := e.current(); err == nil {
		return l.major
	}
	return 0
}

// disconnect ends a session, and waits for at most 100 ms if the server hangs.
func disconnect(session *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = session.Close(ctx)
}

// ask runs a query for one row, in a session of its own. It tries again until the server answers or
// the context ends (see patiently), so the query may run more than once.
func (e *Engine) ask(ctx context.Context, query string, into ...any) error {
	return e.patiently(ctx, func() error { return e.askOnce(ctx, query, into...) })
}

func (e *Engine) askOnce(ctx context.Context, query string, into ...any) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout+statementTimeout)
	defer cancel()
	session, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	if err := session.QueryRow(ctx, query).Scan(into...); err != nil {
		return fmt.Errorf("asking the server: %w", err)
	}
	return nil
}

// patiently calls do until it succeeds: see [engine.Patiently].
func (e *Engine) patiently(ctx context.Context, do func() error) error {
	return engine.Patiently(ctx, e.Clock, pollInterval, isLasting, do)
}

// passing are the classes of the server's errors that pass: the replay of a standby was in the way,
// it lacks something at the moment, others hold what is needed, or it was interrupted, starts or
// stops (errcodes-appendix).
var passing = []string{"40", "53", "55", "57"}

// isStarting reports whether a server has refused a session because it is about to start
// (cannot_connect_now in errcodes-appendix).
func isStarting(err error) bool {
	refused, isServers := errors.AsType[*pgconn.PgError](err)
	return isServers && refused.Code == "57P03"
}

// isLasting reports whether an error would be the same at the next attempt.
func isLasting(err error) bool {
	if _, isOurs := errors.AsType[pgx.ScanArgError](err); isOurs {
		return true
	}
	refused, isServers := errors.AsType[*pgconn.PgError](err)
	return isServers && !slices.Contains(passing, fmt.Sprintf("%.2s", refused.Code))
}

// checkpoint makes the server write all that it has in memory. Only the context limits the
// duration.
func (e *Engine) checkpoint(ctx context.Context) error {
	session, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	if _, err := session.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	if _, err := session.Exec(ctx, "CHECKPOINT"); err != nil {
		return fmt.Errorf("asking for a checkpoint: %w", err)
	}
	return nil
}
