package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// ErrNoLeader is returned by methods that need a server which leads.
var ErrNoLeader = errors.New("the server does not lead")

// quietly are statements that hide a session from logs and statistics, and make its commits wait
// for no other member: so it does not hang while commits wait. What it has written may be lost with
// the leader, and the next leader then writes it again. statement_timeout allows for the time that
// the disk needs to copy an empty database.
const quietly = "SET synchronous_commit = local; SET track_activities = off; SET log_statement = none; SET log_duration = off;" +
	" SET log_min_duration_statement = -1; SET log_min_error_statement = panic; SET pg_stat_statements.track = none;" +
	" SET statement_timeout = '60s'"

// Provide creates the role and the database of an application if they are missing, and sets the
// role's password. It returns ErrNoLeader if the server does not lead. It may be called again at
// any time, even after it was interrupted: it checks what exists, and removes nothing. It may run
// at the same time as an operation.
func (e *Engine) Provide(ctx context.Context, a postgres.Application) error {
	if err := a.Check(); err != nil {
		return err
	}
	l, err := e.current()
	if err != nil {
		return err
	}
	if e.server().State != election.Leading {
		return ErrNoLeader
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	session, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	if _, err := session.Exec(ctx, quietly); err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	if err := e.provideRole(ctx, session, a); err != nil {
		return fmt.Errorf("making the role of the application: %w", err)
	}
	if err := provideDatabase(ctx, session, a); err != nil {
		return fmt.Errorf("making the database of the application: %w", err)
	}
	return nil
}

// provideRole creates the role, or changes its password if it is another one, and lets it log in.
// It refuses a superuser.
func (e *Engine) provideRole(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	var isSuper, canLogIn bool
	var kept string
	err := session.QueryRow(ctx, "SELECT rolsuper, rolcanlogin, coalesce(rolpassword, '') FROM pg_authid WHERE rolname = $1", a.User).
		Scan(&isSuper, &canLogIn, &kept)
	isNew := errors.Is(err, pgx.ErrNoRows)
	switch {
	case err != nil && !isNew:
		return err
	case isSuper:
		// A user with the right to write the Secret would become a superuser.
		return fmt.Errorf("%.80q is a superuser: choose another name", a.User)
	case canLogIn && postgres.Verifies(kept, a.Password):
		return nil
	}
	verifier, err := postgres.Verifier(a.Password)
	if err != nil {
		return err
	}
	statement := "ALTER ROLE " + postgres.QuoteName(a.User)
	if isNew {
		statement = "CREATE ROLE " + postgres.QuoteName(a.User) + " NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION"
	}
	return e.enforce(ctx, session, func() error {
		_, err := session.Exec(ctx, statement+" LOGIN PASSWORD "+quote(verifier))
		return err
	})
}

// provideDatabase creates the database if it does not exist. With Initialise, a new one gets the
// comment that its first statements are to be executed.
func provideDatabase(ctx context.Context, session *pgx.Conn, a postgres.Application) error {
	var exists bool
	err := session.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", a.Database).Scan(&exists)
	switch {
	case err != nil || exists && a.Initialise:
		return err
	case exists:
		return unmark(ctx, session, a)
	case a.Initialise:
		return createMarked(ctx, session, a)
	}
	_, err = session.Exec(ctx, "CREATE DATABASE "+postgres.QuoteName(a.Database)+" OWNER "+postgres.QuoteName(a.User)+
		" TEMPLATE template0 ENCODING 'UTF8'")
	return err
}

// Complain sets a problem that is not one of the server; "" means none. [Engine.Observe] reports it
// if the server itself has no problem.
func (e *Engine) Complain(problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.complaint == problem {
		return
	}
	e.complaint = problem
	select {
	case e.changed <- struct{}{}:
	default:
	}
}
