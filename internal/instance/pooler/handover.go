package pooler

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Times of a listener.
const (
	// retryInterval is the pause after a failed connection to the primary, or a failed command, before
	// the next attempt.
	retryInterval = 100 * time.Millisecond
	// replyTimeout is how long the primary and the console may take to reply. A login may take longer,
	// as long as those of clients (pgbouncer.ConnectTimeout), but after replyTimeout another attempt
	// begins at the same time.
	replyTimeout = 2 * time.Second
	// logInterval is how often at most the log says why there is no session with a primary.
	logInterval = 10 * time.Second
	// refusalTimeout is how long statements are held back while a primary refuses our session, for
	// example because all its connections are in use: sessions that our clients have may work.
	refusalTimeout = 15 * time.Second
	// handoverTimeout is how long after its announcement a primary that still answers counts as having
	// cancelled its handover.
	handoverTimeout = 5 * time.Second
)

// primary is a session with the primary.
type primary interface {
	// wait returns true when the primary announces a handover, and false if it has not within
	// replyTimeout, but still answers. It returns an error if the primary does not answer.
	wait(ctx context.Context) (bool, error)
	close()
}

// listener holds statements back while there is no primary: from the primary's announcement of a
// handover, or from when it no longer answers, until a primary answers again. It learns all that
// from its session with the primary, and does not depend on the API server.
type listener struct {
	// dial returns a session with a primary that accepts writes. It may be called in several
	// goroutines at once: see connect.
	dial func(ctx context.Context) (primary, error)
	// send sends a command to the console.
	send func(ctx context.Context, command string) error
	// met is called each time that a session with a primary begins; may be nil.
	met func()
	// isIdle is true for a pooler that never holds statements back, as in the mode session: PAUSE
	// would wait for the end of each client's session.
	isIdle bool
	clock  clock.Clock
	log    logr.Logger

	// paused is since when statements are held back; the zero time if they are not. While they are,
	// release ends the PAUSE command, which otherwise lasts until all running statements have ended.
	paused  time.Time
	release func()
	// disconnected is since when there is no session, and logged when that was last logged.
	disconnected, logged time.Time
	// wasConnected is true if there was a session before.
	wasConnected bool
}

// run listens until the context ends. Before it returns, it lets statements go on.
func (l *listener) run(ctx context.Context) {
	l.logWait(nil)
	for ctx.Err() == nil {
		err := l.once(ctx)
		if isRefusal(err) && !l.paused.IsZero() && l.clock.Since(l.paused) > refusalTimeout {
			l.log.Info("the primary refuses the session of this pooler; statements are no longer held back", "error", err.Error())
			l.resume(ctx)
		}
		if ctx.Err() == nil {
			l.logWait(err)
		}
		select {
		case <-ctx.Done():
		case <-l.clock.After(retryInterval):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*replyTimeout)
	defer cancel()
	l.resume(last)
}

// logWait logs, at most every logInterval, since when there is no session and why. A nil error
// means that a session has just ended.
func (l *listener) logWait(err error) {
	now := l.clock.Now()
	if err == nil {
		l.disconnected, l.logged = now, now
		return
	}
	if now.Sub(l.logged) >= logInterval {
		l.logged = now
		since := l.disconnected.UTC().Format(time.RFC3339)
		l.log.Info("no session with a primary", "since", since, "heldBack", !l.paused.IsZero(), "error", err.Error())
	}
}

// isRefusal reports whether a server has refused a session although it may accept others. A server
// that starts or stops refuses all (https://www.postgresql.org/docs/current/errcodes-appendix.html,
// class 57): that is no refusal in this sense.
func isRefusal(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && !strings.HasPrefix(refusal.Code, "57P")
}

// once connects to the primary, and listens until the session ends. It returns an error only if
// there was no session.
func (l *listener) once(ctx context.Context) error {
	session, err := l.connect(ctx)
	if err != nil {
		return err
	}
	defer session.close()
	if l.met != nil {
		l.met()
	}
	if l.wasConnected {
		// Sessions with the former primary may hang: each client gets a new one after its transaction.
		_ = l.tell(ctx, "RECONNECT")
	}
	l.wasConnected = true
	l.resume(ctx)
	for {
		announced, err := session.wait(ctx)
		switch {
		case err != nil:
			l.hold(ctx, "the primary does not answer")
			return nil
		case announced:
			l.hold(ctx, "the primary hands over")
		case !l.paused.IsZero() && l.clock.Since(l.paused) > handoverTimeout:
			l.resume(ctx) // The handover was cancelled.
		}
	}
}

// dialed is the result of an attempt to connect.
type dialed struct {
	session primary
	err     error
}

// connect returns the session of the first attempt that succeeds. While an attempt has no answer,
// it begins another one every replyTimeout, and retryInterval after one that has failed. A primary
// that does not answer may be dead, and then a later attempt reaches the next primary; or it is so
// busy that a login takes long, as when all clients reconnect at once, and then the earlier attempt
// succeeds. If all attempts have failed, or pgbouncer.ConnectTimeout is over, it returns the last
// error.
func (l *listener) connect(ctx context.Context) (primary, error) {
	ctx, cancel := context.WithTimeout(ctx, pgbouncer.ConnectTimeout)
	defer cancel()
	ended, underWay := make(chan dialed), 0
	begin := func() {
		underWay++
		go func() {
			session, err := l.dial(ctx)
			ended <- dialed{session, err}
		}()
	}
	begin()
	next, over := l.clock.After(replyTimeout), ctx.Done()
	for {
		select {
		case <-next:
			begin()
			next = l.clock.After(replyTimeout)
		case <-over:
			next, over = nil, nil // The attempts that are under way end now.
		case one := <-ended:
			underWay--
			if one.err == nil || underWay == 0 {
				go discard(ended, underWay)
				return one.session, one.err
			}
			if over != nil {
				next = l.clock.After(retryInterval)
			}
		}
	}
}

// discard closes the sessions of attempts that are still under way.
func discard(ended <-chan dialed, underWay int) {
	for range underWay {
		if late := <-ended; late.err == nil {
			late.session.close()
		}
	}
}

// hold holds statements back, unless they are already. The PAUSE command lasts until all running
// statements have ended, so it is sent in another goroutine, and does not end with ctx. Only
// release cancels the command earlier: the request to cancel it also ends the pause.
func (l *listener) hold(ctx context.Context, why string) {
	if !l.paused.IsZero() || ctx.Err() != nil || l.isIdle {
		return
	}
	l.log.Info("statements are held back until a primary answers", "why", why)
	l.paused = l.clock.Now()
	holding, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	l.release = func() {
		cancel()
		<-ended
	}
	go func() {
		defer close(ended)
		if err := l.send(holding, "PAUSE"); err != nil && holding.Err() == nil {
			l.log.Error(err, "PgBouncer does not hold statements back")
		}
	}()
}

// resume lets statements go on, if they are held back. It retries until PgBouncer has done so or
// the context ends.
func (l *listener) resume(ctx context.Context) {
	for !l.paused.IsZero() {
		// A PAUSE that has not begun must not begin after the RESUME.
		l.release()
		err := l.tell(ctx, "RESUME")
		if err == nil || strings.Contains(err.Error(), "not paused") {
			l.log.Info("statements are no longer held back", "heldFor", l.clock.Since(l.paused).Round(time.Millisecond).String())
			l.paused = time.Time{}
			return
		}
		l.log.Error(err, "PgBouncer still holds statements back; retrying")
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(retryInterval):
		}
	}
}

// tell sends a command that PgBouncer carries out at once: within replyTimeout, or it has failed.
func (l *listener) tell(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	return l.send(ctx, command)
}

// listening is a session with the primary.
type listening struct{ session *pgx.Conn }

// dial connects to the primary with our certificate, and listens for handovers if listens is true.
// It fails if the server does not have the function PoolerLookup yet, without which no user could
// log in.
func dial(ctx context.Context, settings pgbouncer.Settings, listens bool) (primary, error) {
	file := func(name string) string { return filepath.Join(settings.Certificates, name) }
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s target_session_attrs=read-write",
		settings.Host, settings.Port, postgres.PoolerRole, file("ca.crt"), file("tls.crt"), file("tls.key")))
	if err != nil {
		return nil, fmt.Errorf("describing a session: %w", err)
	}
	// With this, target_session_attrs accepts a primary even if default_transaction_read_only is set
	// for all sessions.
	config.RuntimeParams["default_transaction_read_only"] = "off"
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the primary: %w", err)
	}
	statements := "SELECT FROM " + postgres.PoolerLookup + "('')"
	if listens {
		statements += "; SET application_name = '" + postgres.PoolerListener + "'; LISTEN " + postgres.PoolerChannel
	}
	if _, err := session.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		listening{session}.close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listening{session}, nil
}

// senderQuery asks whether the superuser's session has sent a notification. Every user may send
// one, and those of others are ignored.
const senderQuery = "SELECT coalesce(bool_or(usename = 'postgres'), false) FROM pg_stat_activity WHERE pid = $1"

// wait implements [primary]: it waits for a notification, and then, or after replyTimeout, sends a
// query, which shows who sent the notification and whether the primary answers.
func (l listening) wait(ctx context.Context) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	notification, err := l.session.WaitForNotification(waiting)
	if err != nil && (ctx.Err() != nil || waiting.Err() == nil || l.session.IsClosed()) {
		return false, err //nolint:wrapcheck // nobody reads it
	}
	asking, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	var announced bool
	pid := uint32(0)
	if notification != nil {
		pid = notification.PID
	}
	err = l.session.QueryRow(asking, senderQuery, pgx.QueryExecModeSimpleProtocol, int64(pid)).Scan(&announced)
	return announced, err //nolint:wrapcheck // nobody reads it
}

func (l listening) close() {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.session.Close(ctx)
}
