package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// poolerLookup makes the function by which poolers find out how a user logs in. It runs with the
// rights of the superuser, so it looks up no name but in pg_catalog. An expired password is none.
const poolerLookup = `CREATE OR REPLACE FUNCTION ` + postgres.PoolerLookup + `(INOUT name text, OUT verifier text) RETURNS SETOF record
	LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
	SELECT rolname::text, rolpassword FROM pg_authid WHERE rolname = $1 AND rolcanlogin AND NOT rolsuper AND NOT rolreplication
		AND left(rolname, 9) <> 'mainstay_' AND rolname <> 'pgbouncer' AND (rolvaliduntil IS NULL OR rolvaliduntil > now()) $$`

// pooler makes the role of poolers, and the function that it needs, in the database postgres. An
// earlier one is replaced.
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

// drainTime is how long poolers may take to let statements end before a handover. What takes longer
// fails, as without a pooler. drained is how long no session may be left: one may just be opening.
const (
	drainTime = 2 * time.Second
	drained   = 50 * time.Millisecond
)

// poolersLeft counts sessions of poolers that listen, and those that poolers have opened for their
// clients.
const poolersLeft = `SELECT count(*) FILTER (WHERE a.usename = '` + postgres.PoolerRole + `' AND a.application_name = '` + postgres.PoolerListener + `'),
	count(*) FILTER (WHERE a.usename <> '` + postgres.PoolerRole + `' AND s.client_dn = '/CN=` + postgres.PoolerRole + `')
	FROM pg_stat_activity a LEFT JOIN pg_stat_ssl s ON s.pid = a.pid WHERE a.backend_type = 'client backend'`

// drainPoolers tells poolers that the server is about to stop, and waits until they have closed the
// sessions of their clients, or drainTime is over. Nothing else depends on it, so its errors are
// none of the handover's.
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
			return now.Sub(since) >= drained, err
		}
		return false, err
	})
}
