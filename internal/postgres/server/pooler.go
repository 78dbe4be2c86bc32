package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// poolerLookup creates the function postgres.PoolerLookup. It runs with the rights of the
// superuser, so it must find nothing that its caller has made: pg_temp comes last in its
// search_path, and would be searched first if it were not named (CREATE FUNCTION, "Writing SECURITY
// DEFINER Functions Safely"). It returns no row for a user whose password has expired.
const poolerLookup = `CREATE OR REPLACE FUNCTION ` + postgres.PoolerLookup + `(INOUT name text, OUT verifier text) RETURNS SETOF record
	LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
	SELECT rolname::text, rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin AND NOT rolsuper AND NOT rolreplication
		AND left(rolname, 9) <> 'mainstay_' AND rolname <> 'pgbouncer' AND (rolvaliduntil IS NULL OR rolvaliduntil > now()) $$`

// pooler creates the role of poolers, and the function that they call, in the database postgres. It
// replaces an earlier version of the function.
func (s provisioning) pooler(ctx context.Context) error {
	var hasRole bool
	err := s.session.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1)", postgres.PoolerRole).Scan(&hasRole)
	if err != nil {
		return fmt.Errorf("looking for it: %w", err)
	}
	if !hasRole {
		if _, err := s.session.Exec(ctx, "CREATE ROLE "+postgres.PoolerRole+" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION IN ROLE "+
			postgres.CertificateRole); err != nil {
			return fmt.Errorf("making the role: %w", err)
		}
	}
	return pgx.BeginFunc(ctx, s.session, func(transaction pgx.Tx) error {
		for _, statement := range []string{
			"CREATE SCHEMA IF NOT EXISTS " + postgres.PoolerSchema, poolerLookup,
			"REVOKE ALL ON FUNCTION " + postgres.PoolerLookup + "(text) FROM PUBLIC",
			"GRANT USAGE ON SCHEMA " + postgres.PoolerSchema + " TO " + postgres.PoolerRole,
			"GRANT EXECUTE ON FUNCTION " + postgres.PoolerLookup + "(text) TO " + postgres.PoolerRole,
		} {
			if _, err := transaction.Exec(ctx, statement); err != nil {
				return fmt.Errorf("making the function %s: %w", postgres.PoolerLookup, err)
			}
		}
		return nil
	})
}

// drainTime is how long poolers may take to let statements end before a handover. Statements that
// take longer fail, as they would without a pooler. drainedAfter is how long there must be no
// session of their clients for the poolers to count as drained: a new one may just be opening.
const (
	drainTime    = 2 * time.Second
	drainedAfter = 50 * time.Millisecond
)

// poolersLeft counts the sessions in which poolers listen, and the sessions that poolers have
// opened for their clients.
const poolersLeft = `SELECT count(*) FILTER (WHERE a.usename = '` + postgres.PoolerRole + `' AND a.application_name = '` + postgres.PoolerListener + `'),
	count(*) FILTER (WHERE a.usename <> '` + postgres.PoolerRole + `' AND s.client_dn = '/CN=` + postgres.PoolerRole + `')
	FROM pg_stat_activity a LEFT JOIN pg_stat_ssl s ON s.pid = a.pid WHERE a.backend_type = 'client backend'`

// drainPoolers tells the poolers that the server is about to stop, and waits until they have closed
// the sessions of their clients, or drainTime is over. The handover does not depend on it, so the
// caller ignores its errors.
func (e *Engine) drainPoolers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	session, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	left := func() (listening, sessions int, err error) {
		err = session.QueryRow(ctx, poolersLeft).Scan(&listening, &sessions)
		return listening, sessions, err //nolint:wrapcheck // nobody reads it
	}
	if listening, _, err := left(); err != nil || listening == 0 {
		return err
	}
	if _, err := session.Exec(ctx, "SET synchronous_commit = local; NOTIFY "+postgres.PoolerChannel); err != nil {
		return fmt.Errorf("telling the poolers: %w", err)
	}
	var since time.Time
	return e.until(ctx, func() (bool, error) {
		_, sessions, err := left()
		switch now := e.Clock.Now(); {
		case sessions > 0:
			since = time.Time{}
		case since.IsZero():
			since = now
		default:
			return now.Sub(since) >= drainedAfter, err
		}
		return false, err
	})
}
