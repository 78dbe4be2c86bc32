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

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Timeouts of our own sessions. A server that takes longer counts as one that does not answer.
const (
	connectTimeout = 2 * time.Second
	commandTimeout = 5 * time.Second
)

// pollInterval is the pause between two checks of whether the server has reached a state.
const pollInterval = 20 * time.Millisecond

// socket returns the path of the server's Unix socket.
func (e *Engine) socket() string { return filepath.Join(e.Run, "valkey.sock") }

// connect opens a session of one of Mainstay's own users over the socket. The server never closes
// the administrator's session to free memory (maxmemory-clients): without it, the server could not
// be led.
func (e *Engine) connect(user, password string) (valkey.Client, error) {
	const buffer, ring = 16 << 10, 6
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{e.socket()}, Username: user, Password: password, ClientName: user, ClientNoEvict: user == model.Administrator,
		DialCtxFn: func(ctx context.Context, path string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		},
		Dialer: net.Dialer{Timeout: connectTimeout}, ConnWriteTimeout: commandTimeout,
		ClientSetInfo: valkey.DisableClientSetInfo, ForceSingleClient: true, DisableCache: true, DisableRetry: true, AlwaysRESP2: true,
		PipelineMultiplex: -1, ReadBufferEachConn: buffer, WriteBufferEachConn: buffer, RingScaleEachConn: ring, BlockingPoolSize: 2,
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to the server: %w", err)
	}
	return client, nil
}

// maxRoom is how often at most maxclients is raised for our own connections.
const maxRoom = 8

// isFull reports whether the server has refused a connection because it has maxclients already.
func isFull(err error) bool {
	return err != nil && strings.Contains(err.Error(), "max number of clients reached")
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

// do sends a command as the administrator, and returns its answer as [send] does.
func (l *life) do(ctx context.Context, command string, arguments ...string) (string, error) {
	client := l.client.Load()
	if client == nil {
		return "", errNotRunning
	}
	return send(ctx, *client, command, arguments...)
}

// send sends a command and returns its answer, if that is a text; otherwise "". An error reply is
// an error.
func send(ctx context.Context, client valkey.Client, command string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	answer, err := client.Do(ctx, client.B().Arbitrary(command).Args(arguments...).Build()).ToAny()
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

// insist repeats a command until no script or function prevents it. It ends scripts and functions
// that have written nothing.
func (e *Engine) insist(ctx context.Context, l *life, command string, arguments ...string) (text string, err error) {
	err = e.until(ctx, func() (bool, error) {
		if text, err = l.do(ctx, command, arguments...); !isBusy(err) {
			return true, err
		}
		for _, kind := range []string{"SCRIPT", "FUNCTION"} {
			_, _ = l.do(ctx, kind, "KILL") // One that has written can't be killed: it ends by itself, or ctx does.
		}
		return false, nil
	})
	return text, err
}

// replicates returns the state of the server's replication.
func (l *life) replicates(ctx context.Context) (model.Replication, error) {
	text, err := l.do(ctx, "INFO", "replication")
	if err != nil {
		return model.Replication{}, err
	}
	return parseReplication(text)
}

func parseReplication(text string) (model.Replication, error) {
	replication, ok := model.ParseReplication(text)
	if !ok {
		return model.Replication{}, errors.New("the server does not say how it replicates")
	}
	return replication, nil
}
