package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/valkey-io/valkey-go"

	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Bounds of a session of ours. Whatever hangs longer is a server that does not answer.
const (
	connectTimeout = 2 * time.Second
	commandTimeout = 5 * time.Second
)

// pollInterval is the time between two checks of a server that should reach a state.
const pollInterval = 20 * time.Millisecond

// socket is the path of our socket.
func (e *Engine) socket() string { return filepath.Join(e.Run, "valkey.sock") }

// connect opens a session of one of our users over the socket.
func (e *Engine) connect(user, password string) (valkey.Client, error) {
	const buffer, ring = 16 << 10, 6
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{e.socket()}, Username: user, Password: password, ClientName: user,
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

// do sends a command as the administrator, and returns what a server says that has no value.
func (l *life) do(ctx context.Context, command string, arguments ...string) (string, error) {
	client := l.client.Load()
	if client == nil {
		return "", errNotRunning
	}
	return send(ctx, *client, command, arguments...)
}

// send sends a command and returns its answer, if that is a text.
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

// replicates asks the server for the state of its replication.
func (l *life) replicates(ctx context.Context) (model.Replication, error) {
	text, err := l.do(ctx, "INFO", "replication")
	if err != nil {
		return model.Replication{}, err
	}
	replication, ok := model.ParseReplication(text)
	if !ok {
		return model.Replication{}, errors.New("the server does not say how it replicates")
	}
	return replication, nil
}
