package server

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Times of the relay.
const (
	// greetTimeout is how long the server may take until its PSYNC command.
	greetTimeout = 5 * time.Second
	// joinTimeout is how long the leader may take until it answers what it will send.
	joinTimeout = 10 * time.Second
	// rejoinInterval is the pause before another attempt to receive from a leader.
	rejoinInterval = 500 * time.Millisecond
	// keepaliveInterval is how often the relay sends a sign of life to the server while there is no
	// source, and a clone one to the leader's server. Both wait for a minute (repl-timeout).
	keepaliveInterval = 10 * time.Second
)

// errNotContinued is returned if the leader can't continue our data: they have to be rebuilt.
var errNotContinued = errors.New("the leader no longer has what follows our data")

// errOtherID is returned if the leader's server is not the one that its program has described.
var errOtherID = errors.New("the leader's server has another replication ID than its program said; it may have been restarted")

// relay is the source of a standby: it passes on the stream of a leader, while there is one.
type relay struct {
	engine   *Engine
	listener net.Listener
	port     int
	token    string

	mu sync.Mutex
	// source is the leader from which to receive; nil means none. changed is closed, and replaced,
	// when the source changes.
	source  *engine.Upstream
	changed chan struct{}
	// lacks is true if the source can't continue our data. problem is why nothing is received; "" is
	// unknown or nothing is wrong.
	lacks   bool
	problem string
	// open are the connections of the server on which a stream is being passed on.
	open map[net.Conn]bool
}

// newRelay returns a relay without a source, which listens already. The caller must call serve and
// close.
func newRelay(e *Engine) (*relay, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for the server's replication: %w", err)
	}
	address, _ := listener.Addr().(*net.TCPAddr)
	return &relay{
		engine: e, listener: listener, port: address.Port, token: rand.Text(), changed: make(chan struct{}), open: map[net.Conn]bool{},
	}, nil
}

func (r *relay) close() {
	_ = r.listener.Close()
	r.set(nil)
}

// set changes the source, and ends the stream of the former one.
func (r *relay) set(source *engine.Upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.source, r.lacks, r.problem = source, false, ""
	close(r.changed)
	r.changed = make(chan struct{})
}

// current returns the source, or nil if there is none or it can't continue our data, and a channel
// that is closed when the source changes.
func (r *relay) current() (*engine.Upstream, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacks {
		return nil, r.changed
	}
	return r.source, r.changed
}

// noteFailure notes why nothing is received, unless the source has changed since changed was
// returned by current.
func (r *relay) noteFailure(changed <-chan struct{}, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if changed == r.changed {
		r.problem, r.lacks = err.Error(), errors.Is(err, errNotContinued)
	}
}

// state returns r.lacks and r.problem.
func (r *relay) state() (lacks bool, problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks, r.problem
}

// receives returns the number of connections on which something may be passed on to the server.
func (r *relay) receives() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// serve accepts connections of the server until the relay is closed.
func (r *relay) serve(ctx context.Context, l *life) {
	for {
		connection, err := r.listener.Accept()
		if err != nil {
			return
		}
		go func() {
			stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
			defer stop()
			defer func() {
				r.mu.Lock()
				delete(r.open, connection)
				r.mu.Unlock()
				_ = connection.Close()
			}()
			_ = r.attend(ctx, l, connection) // After an error the server connects again.
		}()
	}
}

// attend serves one connection of the server.
func (r *relay) attend(ctx context.Context, l *life, connection net.Conn) error {
	if err := connection.SetReadDeadline(r.engine.Clock.Now().Add(greetTimeout)); err != nil {
		return err
	}
	w := &wanted{Conn: connection, from: bufio.NewReader(connection)}
	if err := r.greet(w); err != nil {
		return err
	}
	if err := connection.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	for {
		source, changed := r.current()
		if source == nil {
			if err := r.wait(ctx, connection, changed, keepaliveInterval); err != nil {
				return err
			}
			continue
		}
		if done, err := r.join(ctx, l, *source, changed, w); done || err != nil {
			return err
		}
		if err := r.wait(ctx, connection, changed, rejoinInterval); err != nil {
			return err
		}
	}
}

// wait waits until the source changes or the time is over, and then sends a sign of life to the
// server.
func (r *relay) wait(ctx context.Context, connection net.Conn, changed <-chan struct{}, duration time.Duration) error {
	timer := r.engine.Clock.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C():
	}
	_, err := connection.Write([]byte("\n"))
	return err
}

// wanted is a connection of our server, which has asked for the stream with a replication ID, from
// an offset on.
type wanted struct {
	net.Conn
	from   *bufio.Reader
	id     string
	offset int64
}

// greet answers the server as a leader would, until its PSYNC, with which it says where its data
// end. The replication ID "?" means that it can't continue. Only our own server knows the password.
func (r *relay) greet(w *wanted) error {
	const most = 16
	isOurs := false
	for range most {
		command, err := model.ReadCommand(w.from)
		if err != nil {
			return err
		}
		if len(command) == 0 {
			return errors.New("an empty command")
		}
		answer := "+OK\r\n"
		switch strings.ToUpper(command[0]) {
		case "PING":
			answer = "+PONG\r\n"
		case "AUTH":
			password := command[len(command)-1]
			if isOurs = subtle.ConstantTimeCompare([]byte(password), []byte(r.token)) == 1; !isOurs {
				return errors.New("a wrong password")
			}
		case "REPLCONF":
		case "PSYNC":
			if !isOurs || len(command) < 3 {
				return errors.New("a client asks for the stream without the password, or not in full")
			}
			w.id = command[1]
			w.offset, err = strconv.ParseInt(command[2], 10, 64)
			return err
		default:
			answer = "-ERR unknown command\r\n"
		}
		if _, err := io.WriteString(w, answer); err != nil {
			return err
		}
	}
	return errors.New("too many commands before the stream")
}

// join passes on the stream of the source, and returns when it has ended. done is false if the
// stream has not begun.
func (r *relay) join(ctx context.Context, l *life, source engine.Upstream, changed <-chan struct{}, w *wanted) (done bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-changed:
			cancel()
		case <-ctx.Done():
		}
	}()
	leader, err := r.engine.joined(ctx, l, source, changed, w)
	if err != nil {
		r.noteFailure(changed, err)
		return false, nil
	}
	defer leader.close()
	r.mu.Lock()
	isCurrent := changed == r.changed
	if isCurrent {
		r.open[w.Conn], r.problem = true, ""
	}
	r.mu.Unlock()
	if !isCurrent {
		return false, nil
	}
	context.AfterFunc(ctx, func() { leader.close(); _ = w.Close() })
	if _, err := io.WriteString(w, "+CONTINUE "+leader.id+"\r\n"); err != nil {
		return true, err
	}
	go r.engine.awaitReached(ctx, l, leader.Lines.Last())
	go func() {
		defer cancel()
		_, _ = io.Copy(leader.stream, w.from)
	}()
	_, err = io.Copy(w.Conn, leader.from)
	return true, err
}
