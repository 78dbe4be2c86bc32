package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Heartbeats are written every beatEvery, and every fastBeat while something waits for them.
const (
	beatEvery = 2 * time.Second
	fastBeat  = 100 * time.Millisecond
)

// SetRule implements [engine.Engine].
func (e *Engine) SetRule(ctx context.Context, rule election.Rule) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	l.cancelSettling()
	c := l.wrote
	c.rule = rule
	if c.leads && rule.WaitsForNobody() {
		e.setFlag(l, false)
	}
	e.note(l, func(o *engine.Observation) { o.Server.Settled, o.Server.Committed = false, false })
	if err := e.reload(ctx, l, c); err != nil {
		return fmt.Errorf("setting the server's commit rule: %w", err)
	}
	e.note(l, func(o *engine.Observation) { o.Server.Rule = rule })
	if c.leads {
		l.resettle(e, rule)
	}
	return nil
}

// proveFlag returns nil once every commit checks whether it has to wait. The checkpointer sets the
// flag for that when it re-reads the configuration, at the beginning of each round of its loop,
// before it looks for requests. It got the signal to do so before the session was accepted that saw
// the new setting. So by the time that it handles a second checkpoint, in a later round, it has set
// the flag.
func (e *Engine) proveFlag(ctx context.Context, l *life) error {
	e.mu.Lock()
	has := l.hasFlag
	e.mu.Unlock()
	if has {
		return nil
	}
	for range 2 {
		if err := e.checkpoint(ctx); err != nil {
			return err
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Another rule that was set meanwhile has cancelled this.
	l.hasFlag = ctx.Err() == nil
	return ctx.Err()
}

// seeFlag returns nil once commits will check whether they have to wait, on a standby that was
// started with a synchronous_standby_names that is not empty. The checkpointer sets the flag before
// its loop, and waits for work or writes only in the loop.
func (e *Engine) seeFlag(ctx context.Context, l *life) error {
	err := e.until(ctx, func() (bool, error) {
		var loops bool
		err := e.ask(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE backend_type = 'checkpointer' AND wait_event_type IN ('Activity', 'Timeout', 'IO'))`, &loops)
		return loops, err
	})
	if err == nil {
		e.setFlag(l, true)
	}
	return err
}

func (e *Engine) setFlag(l *life, has bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.hasFlag = has
}

// resettle finds out in other goroutines when the rule is in effect for everything that is
// acknowledged (Settled), and when a heartbeat was committed under it (Committed).
func (l *life) resettle(e *Engine, rule election.Rule) {
	ctx, cancel := context.WithCancel(l.ctx)
	l.cancelSettling = cancel
	go func() {
		done := e.hurry(l)
		defer done()
		for e.settle(ctx, l, rule) != nil {
			if e.pause(ctx, fastBeat) != nil {
				return
			}
		}
	}()
	go func() {
		for e.commit(ctx, l) != nil {
			if e.pause(ctx, fastBeat) != nil {
				return
			}
		}
	}()
}

// noteRule changes what is observed of a rule, unless ctx has ended because another rule was set
// since.
func (e *Engine) noteRule(ctx context.Context, l *life, change func(*election.Server)) {
	e.note(l, func(o *engine.Observation) {
		if ctx.Err() == nil {
			change(&o.Server)
		}
	})
}

// settle returns nil once the rule is in effect. A process that sends to a standby (a WAL sender)
// re-reads the configuration before it sends the next time. So it has done so once it was seen to
// send twice after a session saw the rule. Once all senders have, what is written from then on is
// acknowledged under the new rule only, and what was written before must be flushed by enough of
// the rule's members.
func (e *Engine) settle(ctx context.Context, l *life, rule election.Rule) error {
	if rule.WaitsForNobody() {
		e.noteRule(ctx, l, func(s *election.Server) { s.Settled = true })
		return nil
	}
	if err := e.proveFlag(ctx, l); err != nil {
		return err
	}
	session, err := e.connect(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	old, err := senders(ctx, session)
	if err != nil {
		return err
	}
	sends := map[int]int{}
	var until postgres.LSN
	return e.until(ctx, func() (bool, error) {
		now, err := senders(ctx, session)
		if err != nil {
			return false, err
		}
		if until == 0 {
			if !haveSentTwice(old, now, sends) {
				return false, nil
			}
			if until, err = askLSN(ctx, session, "SELECT pg_current_wal_insert_lsn()"); err != nil {
				return false, err
			}
		}
		if flushed(now, rule, until) < rule.Acks {
			return false, nil
		}
		e.noteRule(ctx, l, func(s *election.Server) { s.Settled = true })
		return true, nil
	})
}

// haveSentTwice reports whether each sender in old that can release a commit, and still exists, was
// seen to send twice. It counts in sends, by PID, and updates in old up to where each has sent. A
// sender whose receiver is no member is named by no rule, and one that sends a base backup gets no
// acknowledgements: both may send no log for hours.
func haveSentTwice(old, now map[int]sender, sends map[int]int) bool {
	all := true
	for pid, before := range old {
		current, isThere := now[pid]
		if !isThere || !current.isMember || before.backup || current.backup {
			continue
		}
		if current.sent > before.sent {
			sends[pid]++
			old[pid] = current
		}
		all = all && sends[pid] >= 2
	}
	return all
}

// flushed returns how many members of the rule's set have flushed everything up to a location.
func flushed(now map[int]sender, rule election.Rule, until postgres.LSN) int {
	count := 0
	for _, member := range rule.Set {
		for _, s := range now {
			if s.isMember && s.member == member && s.flushed >= until {
				count++
				break
			}
		}
	}
	return count
}

// commit commits one heartbeat under the rule, however long that takes, and notes it.
func (e *Engine) commit(ctx context.Context, l *life) error {
	// If the wait of a commit is cancelled, the commit succeeds, but with a warning.
	warned := false
	session, err := e.connectNoticing(ctx, func(*pgconn.PgConn, *pgconn.Notice) { warned = true })
	if err != nil {
		return err
	}
	defer disconnect(session)
	if _, err := session.Exec(ctx, "SET statement_timeout = 0"); err != nil {
		return fmt.Errorf("preparing a session: %w", err)
	}
	if _, err := session.Exec(ctx, heartbeat); err != nil {
		return fmt.Errorf("writing a heartbeat: %w", err)
	}
	if warned {
		return errors.New("the heartbeat was cancelled")
	}
	e.noteRule(ctx, l, func(s *election.Server) { s.Committed = true })
	return nil
}

// heartbeat is a statement that writes nothing but a record in the log.
const heartbeat = "SELECT pg_logical_emit_message(true, 'mainstay', '')"

// hurry makes heartbeats more frequent, until the returned function is called.
func (e *Engine) hurry(l *life) func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.fast++
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		l.fast--
	}
}

// beat writes heartbeats that wait for the local disk only, until the server ends, and notes since
// when one has been waiting. It keeps a session of its own. A server that has no transaction IDs
// left refuses them, which says nothing of its disk: it reads, and can be vacuumed.
func (e *Engine) beat(l *life) {
	var session *pgx.Conn
	defer func() {
		if session != nil {
			disconnect(session)
		}
	}()
	for l.ctx.Err() == nil {
		e.setUnflushed(l, e.Clock.Now())
		for {
			var err error
			if session, err = e.beatOnce(l.ctx, session); err == nil || hasNoTransactionIDs(err) || l.ctx.Err() != nil {
				break
			}
			if e.pause(l.ctx, fastBeat) != nil {
				return
			}
		}
		e.setUnflushed(l, time.Time{})
		// The pause is short if a caller begins to wait for heartbeats meanwhile.
		for end := e.Clock.Now().Add(beatEvery); e.Clock.Now().Before(end); {
			if e.pause(l.ctx, fastBeat) != nil {
				return
			}
			if e.hurries(l) {
				break
			}
		}
	}
}

// programLimitExceeded is the code of the error with which a server refuses to assign transaction
// IDs, so that those that it has do not wrap around (errcodes-appendix).
const programLimitExceeded = "54000"

// hasNoTransactionIDs reports whether a server has refused to assign a transaction ID.
func hasNoTransactionIDs(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == programLimitExceeded
}

// hurries reports whether something waits for heartbeats.
func (e *Engine) hurries(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.fast > 0
}

func (e *Engine) setUnflushed(l *life, since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == l {
		e.unflushed = since
	}
}

// beatOnce writes one heartbeat, and returns the session for the next one; nil after an error. It
// opens a session if there is none.
func (e *Engine) beatOnce(ctx context.Context, session *pgx.Conn) (*pgx.Conn, error) {
	if session == nil {
		made, err := e.connect(ctx)
		if err != nil {
			return nil, err
		}
		if _, err := made.Exec(ctx, "SET statement_timeout = 0; SET synchronous_commit = local"); err != nil {
			disconnect(made)
			return nil, err
		}
		session = made
	}
	if _, err := session.Exec(ctx, heartbeat); err != nil {
		disconnect(session)
		return nil, err
	}
	return session, nil
}
