package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Timeouts of our own sessions: connectTimeout with the login, and commandTimeout, are for other
// users than the administrator. Where the server gets little CPU, a login takes seconds, and is of
// no use if we give up before. An answer to the administrator has no limit but the context: see
// patiently.
const (
	connectTimeout = 2 * time.Second
	loginTimeout   = 15 * time.Second
	commandTimeout = 5 * time.Second
)

// pollInterval is the pause between two checks of whether the server has reached a state.
const pollInterval = 20 * time.Millisecond

// socket returns the path of the server's Unix socket.
func (e *Engine) socket() string { return filepath.Join(e.Run, "valkey.sock") }

// session is a session of one of Mainstay's own users.
type session struct {
	valkey.Client
	// turn has an element while a command is unanswered.
	turn chan struct{}
}

// connect opens a session of one of Mainstay's own users over the socket. The server never closes
// the administrator's session to free memory (maxmemory-clients): without it, the server could not
// be led.
func (e *Engine) connect(user, password string) (*session, error) {
	return openSession(user, password, func(ctx context.Context, dialer *net.Dialer) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", e.socket())
	})
}

// openSession does so over a connection that dial makes. The session lasts as long as the
// connection. The client ends it for no lack of answers: to a server that is full of other clients,
// there might be no other. Without AlwaysPipelining, it would close the connection when the first
// answer is late; with a KeepAlive that is not negative, when one to its own PINGs is.
// ConnWriteTimeout limits only the login then.
func openSession(user, password string, dial func(context.Context, *net.Dialer) (net.Conn, error)) (*session, error) {
	const buffer, ring = 16 << 10, 6
	timeout := connectTimeout // also of the login
	if user == model.Administrator {
		timeout = loginTimeout
	}
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{"socket"}, Username: user, Password: password, ClientName: user, ClientNoEvict: user == model.Administrator,
		DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dial(ctx, dialer)
		},
		Dialer: net.Dialer{Timeout: timeout, KeepAlive: -1}, ConnWriteTimeout: loginTimeout, AlwaysPipelining: true,
		ClientSetInfo: valkey.DisableClientSetInfo, ForceSingleClient: true, DisableCache: true, DisableRetry: true, AlwaysRESP2: true,
		PipelineMultiplex: -1, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer, RingScaleEachConn: ring, BlockingPoolSize: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return &session{client, make(chan struct{}, 1)}, nil
}

// maxRoom is how often at most maxclients is raised for our own connections.
const maxRoom = 8

// isFull reports whether the server has refused a connection because it has maxclients already.
func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), full)
}

// makeRoom raises the server's maxclients, so that clients' connections do not keep ours out. It
// uses the administrator's session, which has been open since the start.
func (e *Engine) makeRoom(ctx context.Context, l *life) {
	accepted, _ := e.accepted()
	index := slices.IndexFunc(accepted, func(setting model.Setting) bool { return setting.Name == "maxclients" })
	if index < 0 {
		return
	}
	e.mu.Lock()
	l.room = min(l.room+1, maxRoom)
	room := l.room
	e.mu.Unlock()
	if number, err := strconv.Atoi(accepted[index].Value); err == nil {
		// If it fails, it is tried again at the next connection.
		_, _ = l.do(ctx, "CONFIG", "SET", "maxclients", strconv.Itoa(number+room*model.Reserved))
	}
}

// do sends a command as the administrator, and returns its answer as [session.send] does.
func (l *life) do(ctx context.Context, command string, arguments ...string) (string, error) {
	session := l.session.Load()
	if session == nil {
		return "", errNotRunning
	}
	return session.send(ctx, command, arguments...)
}

// send sends a command and returns its answer, if that is a text; otherwise "". An error reply is
// an error. If ctx ends before the answer is there, the server may carry out the command later.
// Until then, nothing else is sent: so commands that are repeated do not pile up, and the server
// never carries out an older one after a newer one.
func (s *session) send(ctx context.Context, command string, arguments ...string) (string, error) {
	late := func() (string, error) {
		return "", fmt.Errorf("%s: the server does not answer: %w", command, context.Cause(ctx))
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return late()
	}
	results := make(chan valkey.ValkeyResult, 1)
	go func() {
		defer func() { <-s.turn }()
		// It ends with the answer, or with the connection.
		results <- s.Do(context.Background(), s.B().Arbitrary(command).Args(arguments...).Build())
	}()
	select {
	case result := <-results:
		return textOf(command, result)
	case <-ctx.Done():
		return late()
	}
}

func textOf(command string, result valkey.ValkeyResult) (string, error) {
	answer, err := result.ToAny()
	switch {
	case valkey.IsValkeyNil(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("%s: %w", command, err)
	}
	text, _ := answer.(string)
	return text, nil
}

// isBusy reports whether the server has answered BUSY: a script or a function has been running for
// longer than busy-reply-threshold.
func isBusy(err error) bool {
	said := (*valkey.ValkeyError)(nil)
	return errors.As(err, &said) && strings.HasPrefix(said.Error(), "BUSY ")
}

// errReplication is returned for an answer to INFO that can't be understood.
var errReplication = errors.New("the server does not say how it replicates")

// full is the server's error for a connection for which it has no room.
const full = "max number of clients reached"

// passing are the beginnings of the server's errors that pass: a script or a function runs, the
// data are being loaded, or there is no room for our connection. The client removes ERR from
// errors.
var passing = []string{"BUSY ", "LOADING ", full}

// isLasting reports whether an error would be the same at the next attempt: whether it is an answer
// of the server, and none that passes.
func isLasting(err error) bool {
	if errors.Is(err, errReplication) {
		return true
	}
	said := (*valkey.ValkeyError)(nil)
	return errors.As(err, &said) && !slices.ContainsFunc(passing, func(start string) bool { return strings.HasPrefix(said.Error(), start) })
}

// patiently calls do until it succeeds, the context ends, or the server does. It fails at once only
// if the server has answered, with an error that it would give the next time, too. After a failed
// operation the server is killed, perhaps with the only copy of the data: neither a slow answer nor
// a lost connection is a reason. It ends scripts and functions that are in the way and have written
// nothing.
func (e *Engine) patiently(ctx context.Context, l *life, do func(context.Context) error) error {
	ctx, cancel := l.within(ctx)
	defer cancel()
	return engine.Patiently(ctx, e.Clock, pollInterval, isLasting, func() error {
		err := do(ctx)
		if isBusy(err) {
			for _, kind := range []string{"SCRIPT", "FUNCTION"} {
				_, _ = l.do(ctx, kind, "KILL") // One that has written can't be killed: it ends by itself, or ctx does.
			}
		}
		return err
	})
}

// insist sends a command, and repeats it until the server answers it: see patiently. If an answer
// is lost, the server gets the command twice.
func (e *Engine) insist(ctx context.Context, l *life, command string, arguments ...string) (text string, err error) {
	err = e.patiently(ctx, l, func(ctx context.Context) (err error) {
		text, err = l.do(ctx, command, arguments...)
		return err
	})
	return text, err
}

// replicates returns the state of the server's replication. It insists.
func (e *Engine) replicates(ctx context.Context, l *life) (model.Replication, error) {
	text, err := e.insist(ctx, l, "INFO", "replication")
	if err != nil {
		return model.Replication{}, err
	}
	return parseReplication(text)
}

func parseReplication(text string) (model.Replication, error) {
	replication, ok := model.ParseReplication(text)
	if !ok {
		return model.Replication{}, errReplication
	}
	return replication, nil
}
