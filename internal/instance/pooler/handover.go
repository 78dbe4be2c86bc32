package pooler

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Times of a listener.
const (
	// retries is how long after a failed connection to the primary the next one is tried, and answers
	// how long the primary may take to answer.
	retries = 100 * time.Millisecond
	answers = 2 * time.Second
	// pauses is how long statements are held back at most. Without a primary they wait afterwards,
	// too, as after a failover that nobody has announced.
	pauses = 15 * time.Second
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
	// connect returns a session with a primary that takes writes.
	connect func(ctx context.Context) (primary, error)
	// send sends a command to the console.
	send  func(ctx context.Context, command string) error
	clock clock.Clock
	log   logr.Logger

	// paused is since when statements are held back; the zero time if they are not. Then release ends
	// the command for that, which lasts until the statements that are under way have ended.
	paused  time.Time
	release context.CancelFunc
	// wasConnected is true if there was a session before.
	wasConnected bool
}

// run listens until the context ends.
func (l *listener) run(ctx context.Context) error {
	for {
		l.once(ctx)
		if !l.paused.IsZero() && l.clock.Since(l.paused) > pauses {
			l.log.Info("no primary has answered for a while; statements are no longer held back", "after", pauses.String())
			l.resume(ctx)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.clock.After(retries):
		}
	}
}

// once connects to the primary, and listens until the session ends.
func (l *listener) once(ctx context.Context) {
	session, err := l.connect(ctx)
	if err != nil {
		return
	}
	defer session.close()
	if l.wasConnected {
		// Sessions with the former primary may hang: who has one gets another after its transaction.
		l.tell(ctx, "RECONNECT")
	}
	l.wasConnected = true
	l.resume(ctx)
	for {
		announced, err := session.wait(ctx)
		if err != nil {
			l.hold(ctx, "the primary does not answer")
			return
		}
		if !announced && !l.paused.IsZero() && l.clock.Since(l.paused) > stays {
			l.resume(ctx) // It was called off.
		}
		if announced {
			l.hold(ctx, "the primary hands over")
		}
	}
}

// hold holds statements back, if they are not yet. PgBouncer takes the end of our connection for
// the end of the pause, while statements are still under way.
func (l *listener) hold(ctx context.Context, why string) {
	if !l.paused.IsZero() || ctx.Err() != nil {
		return
	}
	l.log.Info("statements are held back until a primary answers", "why", why)
	l.paused = l.clock.Now()
	holding, release := context.WithCancel(ctx)
	l.release = release
	go func() {
		if err := l.send(holding, "PAUSE"); err != nil && holding.Err() == nil {
			l.log.Error(err, "PgBouncer does not hold statements back")
		}
	}()
}

// resume lets statements go on, if they are held back.
func (l *listener) resume(ctx context.Context) {
	if l.paused.IsZero() {
		return
	}
	l.tell(ctx, "RESUME")
	l.release()
	l.log.Info("statements go on", "heldFor", l.clock.Since(l.paused).Round(time.Millisecond).String())
	l.paused = time.Time{}
}

// tell sends a command that is carried out at once.
func (l *listener) tell(ctx context.Context, command string) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	if err := l.send(ctx, command); err != nil {
		l.log.Error(err, "PgBouncer did not carry out a command")
	}
}

// listening is a session that listens.
type listening struct{ session *pgx.Conn }

// dial connects to the primary with our certificate, and listens.
func dial(ctx context.Context, host string, port int, certificates string) (primary, error) {
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	file := func(name string) string { return filepath.Join(certificates, name) }
	config, err := pgx.ParseConfig(fmt.Sprintf(
		"host=%s port=%d user=%s dbname=postgres sslmode=verify-full sslrootcert=%s sslcert=%s sslkey=%s target_session_attrs=read-write",
		host, port, postgres.PoolerRole, file("ca.crt"), file("tls.crt"), file("tls.key")))
	if err != nil {
		return nil, fmt.Errorf("describing a session: %w", err)
	}
	config.RuntimeParams["application_name"] = postgres.PoolerRole
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the primary: %w", err)
	}
	if _, err := session.Exec(ctx, "LISTEN "+postgres.PoolerChannel); err != nil {
		listening{session}.close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listening{session}, nil
}

func (l listening) wait(ctx context.Context) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	_, err := l.session.WaitForNotification(waiting)
	if err == nil {
		return true, nil
	}
	if ctx.Err() != nil || waiting.Err() == nil || l.session.IsClosed() {
		return false, err //nolint:wrapcheck // nobody reads it
	}
	asking, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	_, err = l.session.Exec(asking, "SELECT 1")
	return false, err //nolint:wrapcheck // nobody reads it
}

func (l listening) close() {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.session.Close(ctx)
}
