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
	// retries is how long after a failed connection to the primary, or a failed command, the next
	// one is tried, and answers how long the primary and the console may take to answer. A login has
	// as long as those of clients (pgbouncer.Connects), and after this time another one begins.
	retries = 100 * time.Millisecond
	answers = 2 * time.Second
	// logsWait is how often at most the log says why there is no session with a primary.
	logsWait = 10 * time.Second
	// refuses is how long statements are held back while there is a primary that refuses us alone, for
	// example because all its connections are in use: those of our clients may work.
	refuses = 15 * time.Second
	// stays is after how long a primary that still answers has called its handover off.
	stays = 5 * time.Second
)

// primary is a session with the primary.
type primary interface {
	// wait returns true when the primary announces that it hands over, and false when it has not for a
	// while, and answers.
	wait(ctx context.Context) (bool, error)
	close()
}

// listener holds statements back while there is no primary: from its announcement that it hands
// over, or from when it does not answer, until one answers. It needs nothing but the primary: no
// API server.
type listener struct {
	// dial returns a session with a primary that takes writes. It is called again while it takes long,
	// from other goroutines.
	dial func(ctx context.Context) (primary, error)
	// send sends a command to the console.
	send func(ctx context.Context, command string) error
	// met is called when a primary has answered; may be nil.
	met func()
	// isIdle is true for a pooler that never holds statements back: a client that keeps its connection
	// as long as its session would be waited for.
	isIdle bool
	clock  clock.Clock
	log    logr.Logger

	// paused is since when statements are held back; the zero time if they are not. Then release ends
	// the command for that, which lasts until the statements that are under way have ended.
	paused  time.Time
	release func()
	// disconnected is since when there is no session, and logged when the log said last why.
	disconnected, logged time.Time
	// wasConnected is true if there was a session before.
	wasConnected bool
}

// run listens until the context ends. Nothing is held back then.
func (l *listener) run(ctx context.Context) {
	l.logWait(nil)
	for ctx.Err() == nil {
		err := l.once(ctx)
		if isRefusal(err) && !l.paused.IsZero() && l.clock.Since(l.paused) > refuses {
			l.log.Info("the primary refuses us; statements are no longer held back", "error", err.Error())
			l.resume(ctx)
		}
		if ctx.Err() == nil {
			l.logWait(err)
		}
		select {
		case <-ctx.Done():
		case <-l.clock.After(retries):
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*answers)
	defer cancel()
	l.resume(last)
}

// logWait logs now and then since when there is no session, and why. A nil error means that one has
// just ended.
func (l *listener) logWait(err error) {
	now := l.clock.Now()
	if err == nil {
		l.disconnected, l.logged = now, now
		return
	}
	if now.Sub(l.logged) >= logsWait {
		l.logged = now
		since := l.disconnected.UTC().Format(time.RFC3339)
		l.log.Info("no session with a primary", "since", since, "heldBack", !l.paused.IsZero(), "error", err.Error())
	}
}

// isRefusal reports whether a server has refused a session although it takes others: not one that
// starts or stops (https://www.postgresql.org/docs/current/errcodes-appendix.html, class 57).
func isRefusal(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && !strings.HasPrefix(refusal.Code, "57P")
}

// once connects to the primary, and listens until the session ends. It returns why none was made.
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
		// Sessions with the former primary may hang: who has one gets another after its transaction.
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
		case !l.paused.IsZero() && l.clock.Since(l.paused) > stays:
			l.resume(ctx) // It was called off.
		}
	}
}

// dialed is how an attempt to connect has ended.
type dialed struct {
	session primary
	err     error
}

// connect returns the first session of attempts that begin one after the other while those before
// have no answer: one that says nothing may be dead, and the next one reaches another primary; or
// it is so busy that a login takes long, as when all its clients connect again at once. It returns
// the last error once no attempt is under way.
func (l *listener) connect(ctx context.Context) (primary, error) {
	ctx, cancel := context.WithTimeout(ctx, pgbouncer.Connects)
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
	next, over := l.clock.After(answers), ctx.Done()
	for {
		select {
		case <-next:
			begin()
			next = l.clock.After(answers)
		case <-over:
			next, over = nil, nil // Those that are under way end now.
		case one := <-ended:
			underWay--
			if one.err == nil || underWay == 0 {
				go discard(ended, underWay)
				return one.session, one.err
			}
			if over != nil {
				next = l.clock.After(retries)
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

// hold holds statements back, if they are not yet. The command lasts as long as statements are
// under way, and its end before would be that of the pause: a client that gives it up sends a
// request to cancel it.
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

// resume lets statements go on, if they are held back. It is called again until that has worked.
func (l *listener) resume(ctx context.Context) {
	for !l.paused.IsZero() {
		// A pause that has not begun must not begin after this.
		l.release()
		err := l.tell(ctx, "RESUME")
		if err == nil || strings.Contains(err.Error(), "not paused") {
			l.log.Info("statements go on", "heldFor", l.clock.Since(l.paused).Round(time.Millisecond).String())
			l.paused = time.Time{}
			return
		}
		l.log.Error(err, "PgBouncer did not let statements go on; trying again")
		select {
		case <-ctx.Done():
			return
		case <-l.clock.After(retries):
		}
	}
}

// tell sends a command that is carried out at once.
func (l *listener) tell(ctx context.Context, command string) error {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	return l.send(ctx, command)
}

// listening is a session that listens.
type listening struct{ session *pgx.Conn }

// dial connects to the primary with our certificate, and listens, if hands is true. The server must
// know the function that lets users log in: without it, nobody could.
func dial(ctx context.Context, settings pgbouncer.Settings, hands bool) (primary, error) {
	file := func(name string) string { return filepath.Join(settings.Certificates, name) }
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s target_session_attrs=read-write",
		settings.Host, settings.Port, postgres.PoolerRole, file("ca.crt"), file("tls.crt"), file("tls.key")))
	if err != nil {
		return nil, fmt.Errorf("describing a session: %w", err)
	}
	// Whatever is set for all sessions, a primary is one.
	config.RuntimeParams["default_transaction_read_only"] = "off"
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the primary: %w", err)
	}
	statements := "SELECT FROM " + postgres.PoolerLookup + "('')"
	if hands {
		statements += "; SET application_name = '" + postgres.PoolerListener + "'; LISTEN " + postgres.PoolerChannel
	}
	if _, err := session.Exec(ctx, statements, pgx.QueryExecModeSimpleProtocol); err != nil {
		listening{session}.close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listening{session}, nil
}

// sender is whose session has sent a notification. Every user may send one.
const sender = "SELECT coalesce(bool_or(usename = 'postgres'), false) FROM pg_stat_activity WHERE pid = $1"

func (l listening) wait(ctx context.Context) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	notification, err := l.session.WaitForNotification(waiting)
	if err != nil && (ctx.Err() != nil || waiting.Err() == nil || l.session.IsClosed()) {
		return false, err //nolint:wrapcheck // nobody reads it
	}
	asking, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	var announced bool
	pid := uint32(0)
	if notification != nil {
		pid = notification.PID
	}
	err = l.session.QueryRow(asking, sender, pgx.QueryExecModeSimpleProtocol, int64(pid)).Scan(&announced)
	return announced, err //nolint:wrapcheck // nobody reads it
}

func (l listening) close() {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.session.Close(ctx)
}
