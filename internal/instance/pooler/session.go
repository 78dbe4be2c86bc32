package pooler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// answer is what a primary says in its session: see primary.wait.
type answer struct {
	announced bool
	err       error
}

// session is a session with the primary, and what it says there.
type session struct {
	// answers has each answer, until one with an error.
	answers <-chan answer
	// answered is when the last answer came, or the session began.
	answered time.Time
	// end closes the session.
	end func()
}

// answer returns the channel of the answers. That of no session is nil, and never has any.
func (s *session) answer() <-chan answer {
	if s == nil {
		return nil
	}
	return s.answers
}

// follow waits for the answers of a primary until the session is ended. It does not limit how long
// that takes: who receives the answers does.
func follow(ctx context.Context, p primary, now time.Time) *session {
	ctx, cancel := context.WithCancel(ctx)
	answers, ended := make(chan answer), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			announced, err := p.wait(ctx)
			select {
			case answers <- answer{announced, err}:
			case <-ctx.Done():
			}
			if err != nil {
				return
			}
		}
	}()
	return &session{answers: answers, answered: now, end: func() {
		cancel()
		<-ended
		p.close()
	}}
}

// listening is a session with the primary.
type listening struct {
	session *pgx.Conn
	id      string
}

// heedful is a connection that notes whether anything was read from it.
type heedful struct {
	net.Conn
	heard *atomic.Bool
}

func (h heedful) Read(into []byte) (int, error) {
	count, err := h.Conn.Read(into)
	if count > 0 {
		h.heard.Store(true)
	}
	return count, err //nolint:wrapcheck // callers look for io.EOF
}

// dial connects to the primary with our certificate, and listens for handovers if listens is true.
// It fails if the server does not have the function PoolerLookup yet, without which no user could
// log in. Its error is errSlow if the context has ended although the server had answered something.
// A connection alone is no answer: the kernel accepts it also for a server that is stopped.
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
	var heard atomic.Bool
	connect := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		connection, err := connect(ctx, network, address)
		if err != nil {
			return nil, err //nolint:wrapcheck // pgx says what it was doing
		}
		return heedful{connection, &heard}, nil
	}
	begun, err := begin(ctx, config, listens)
	if err != nil {
		if heard.Load() && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("%w: %w", errSlow, err)
		}
		return nil, err
	}
	return begun, nil
}

// begin connects, and executes the first statements.
func begin(ctx context.Context, config *pgx.ConnConfig, listens bool) (primary, error) {
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the primary: %w", err)
	}
	statements := serverQuery + "; SELECT FROM " + postgres.PoolerLookup + "('')"
	if listens {
		statements += "; SET application_name = '" + postgres.PoolerListener + "'; LISTEN " + postgres.PoolerChannel
	}
	results, err := session.PgConn().Exec(ctx, statements).ReadAll()
	if err != nil {
		listening{session: session}.close()
		return nil, fmt.Errorf("listening: %w", err)
	}
	return listening{session: session, id: string(results[0].Rows[0][0])}, nil
}

// serverQuery identifies the server by its address and when it was started. A primary becomes a
// replica only by a restart.
const serverQuery = "SELECT concat_ws(' ', inet_server_addr(), extract(epoch FROM pg_postmaster_start_time()))"

// senderQuery asks whether the superuser's session has sent a notification. Every user may send
// one, and those of others are ignored.
const senderQuery = "SELECT coalesce(bool_or(usename = 'postgres'), false) FROM pg_stat_activity WHERE pid = $1"

// wait implements [primary]: it waits for a notification, and then, or after pingInterval, sends a
// query, which shows who sent the notification and whether the primary answers.
func (l listening) wait(ctx context.Context) (bool, error) {
	waiting, cancel := context.WithTimeout(ctx, pingInterval)
	defer cancel()
	notification, err := l.session.WaitForNotification(waiting)
	if err != nil && (ctx.Err() != nil || waiting.Err() == nil || l.session.IsClosed()) {
		return false, err //nolint:wrapcheck // nobody reads it
	}
	var announced bool
	pid := uint32(0)
	if notification != nil {
		pid = notification.PID
	}
	err = l.session.QueryRow(ctx, senderQuery, pgx.QueryExecModeSimpleProtocol, int64(pid)).Scan(&announced)
	return announced, err //nolint:wrapcheck // nobody reads it
}

func (l listening) server() string { return l.id }

func (l listening) close() {
	const limit = 100 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	_ = l.session.Close(ctx)
}
