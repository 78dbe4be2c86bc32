package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Limits of enforce.
const (
	// blockedFor is for how long others may block a statement before their sessions are ended. It is
	// shorter than the lock_timeout of our own sessions.
	blockedFor = time.Second
	// blockedPoll is the pause between two looks at who blocks it then.
	blockedPoll = 100 * time.Millisecond
	// enforceTime is after how long a statement is not tried again.
	enforceTime = 10 * time.Second
)

// endBlockers ends the sessions that block a session. It spares those of other members, poolers and
// superusers, and those over the socket, which are our own or of someone in the pod; those that
// only wait for the same lock; and those whose commit waits for a replica: it would become visible
// although no other member has it.
const endBlockers = `SELECT pg_terminate_backend(a.pid) FROM unnest(pg_blocking_pids($1)) AS blocker (pid)
	JOIN pg_stat_activity a ON a.pid = blocker.pid JOIN pg_roles r ON r.oid = a.usesysid
	WHERE a.client_addr IS NOT NULL AND NOT r.rolsuper AND left(r.rolname, 9) <> 'mainstay_'
	AND a.wait_event_type IS DISTINCT FROM 'Lock' AND a.wait_event IS DISTINCT FROM 'SyncRep'`

// enforce calls do, which changes a role or a database in a session, until no other transaction
// keeps it from that, for at most enforceTime, and ends the sessions that block it for longer than
// blockedFor. A role may change its own password in a transaction that it leaves open, and so may
// each member of it that acts as it: nobody could lock it, or change its password, otherwise.
func (e *Engine) enforce(ctx context.Context, session *pgx.Conn, do func() error) error {
	until := time.Now().Add(enforceTime)
	blocked, stop := context.WithCancel(ctx)
	var ending sync.WaitGroup
	pid := session.PgConn().PID()
	ending.Go(func() { e.unblock(blocked, pid) })
	defer ending.Wait()
	defer stop()
	for {
		err := do()
		switch {
		case !isContested(err) || ctx.Err() != nil:
			return err
		case time.Now().After(until):
			return fmt.Errorf("is blocked by other transactions (see pg_locks): %w", err)
		}
	}
}

// unblock ends the sessions that block a session, from blockedFor on and until the context ends. If
// that fails, the session stays blocked, and fails.
func (e *Engine) unblock(ctx context.Context, pid uint32) {
	if e.pause(ctx, blockedFor) != nil {
		return
	}
	session, err := e.connect(ctx)
	if err != nil {
		return
	}
	defer disconnect(session)
	for err == nil {
		if _, err = session.Exec(ctx, endBlockers, int64(pid)); err == nil {
			err = e.pause(ctx, blockedPoll)
		}
	}
}

// isContested reports whether a statement failed because of another transaction, so that it may
// succeed when it is executed again: after a lock_timeout, in a deadlock, or because what it
// changes was changed meanwhile. For the last, the server has no code of its own.
func isContested(err error) bool {
	refused, isServers := errors.AsType[*pgconn.PgError](err)
	if !isServers {
		return false
	}
	const lockTimeout, deadlock, internal = "55P03", "40P01", "XX000"
	return refused.Code == lockTimeout || refused.Code == deadlock ||
		refused.Code == internal && strings.HasPrefix(refused.Message, "tuple concurrently ")
}

// change executes a statement that changes a role or a database: see [Engine.enforce].
func (s provisioning) change(ctx context.Context, statement string) error {
	return s.engine.enforce(ctx, s.session, func() error {
		_, err := s.session.Exec(ctx, statement)
		return err
	})
}

// shut prevents a role from logging in. Its sessions are ended before that, because one that has
// changed the role would block it. Those that were opened meanwhile are left to the caller: see
// disconnect.
func (s provisioning) shut(ctx context.Context, name string) error {
	return s.engine.enforce(ctx, s.session, func() error {
		if err := s.disconnect(ctx, []string{name}); err != nil {
			return err
		}
		_, err := s.session.Exec(ctx, "ALTER ROLE "+postgres.QuoteName(name)+" NOLOGIN PASSWORD NULL")
		return err
	})
}

// disconnect ends the sessions of roles.
func (s provisioning) disconnect(ctx context.Context, roles []string) error {
	_, err := s.session.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = ANY ($1)", roles)
	return err
}
