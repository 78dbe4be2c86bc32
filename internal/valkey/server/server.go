package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Options say where a server has its files and how it is reached.
type Options struct {
	// Data is the directory of the data. It and Run are absolute.
	Data string
	// Run is a directory of this instance alone, not on the volume, mode 0700: the socket and the
	// configuration, with hashes of passwords. Its path has at most 80 bytes.
	Run string
	// Listen is the address for clients, "" for all; Port is the same for all members. PlainPort is
	// that without TLS, 0 for none.
	Listen          string
	Port, PlainPort int
	// Certificates is the directory of this instance's tls.crt, tls.key and ca.crt.
	Certificates string
	// Me returns the member of the data in Data: it changes when they are rebuilt.
	Me func() election.Member
	// Stream opens a stream to the engine of another pod's instance: its HandleStream serves it.
	Stream func(ctx context.Context, pod string) (io.ReadWriteCloser, error)
	// Environment is that of the server's process, with a PATH to its program.
	Environment []string
	// Log is written the server's log, line by line.
	Log io.Writer
	// Supervisor starts and kills the process.
	Supervisor *supervise.Supervisor
	Clock      clock.Clock
}

// Engine is Valkey as an engine of an instance.
type Engine struct {
	model.Positions
	Options

	changed chan struct{}
	// programs is the major version of the server's program; "" while nobody has asked it. It is set
	// before anything else is called.
	programs string

	// states is held while the state of the data is changed.
	states sync.Mutex

	mu   sync.Mutex
	life *life
	// lines are the history of the data, as the file has them.
	lines model.Lines
	// before is the last server process, also after its end.
	before   *life
	observed engine.Observation
	// abort ends a clone that is under way, and held is the stream of the last one: while it is open,
	// the leader keeps what it writes for us.
	abort context.CancelFunc
	held  io.Closer
	// asked is since when the server has not answered; the zero time if it does.
	asked time.Time
	// storing is since when what the data began with, or their end, is being stored, in
	// nanoseconds since 1970; 0 while it is not.
	storing atomic.Int64
	// busy says that the server answers, but executes nothing, and failing what of its data it could
	// not store; "" if neither is so.
	busy, failing string
	// users are the parameters of the settings, and refused says why some have no effect.
	users   map[string]string
	refused string
	// pending is true if a parameter counts from the next start on only.
	pending bool
	// application is what was provided last.
	application model.Application
	complaint   string
	// damages is how often the data could not be loaded since a server with them answered.
	damages int
}

var _ engine.Engine = (*Engine)(nil)

// life is one run of the server process, from its start to its end.
type life struct {
	pid int
	// ctx ends with the process.
	ctx    context.Context
	cancel context.CancelFunc
	// exited is closed when the process is gone.
	exited chan struct{}
	output *lines
	relay  *relay
	// administrator, replication and monitor are the passwords of our users.
	administrator, replication, monitor string
	// client is the session of the administrator, made when the server answers.
	client atomic.Pointer[valkey.Client]
	// persists is true if the server should store its data by itself, and stored once it does: then
	// the end of the data is noted, and noted is what was noted last. The latter two are guarded by
	// Engine.mu.
	persists bool
	stored   bool
	noted    election.Position
	// loaded is the end of the data that were loaded, if the server does not know it itself.
	loaded election.Position
	// inMemory is true once nothing is stored that a server could load: the data end with this one.
	// Guarded by Engine.mu.
	inMemory bool
	// room is how often the server was given room for our connections. Guarded by Engine.mu.
	room int
	// behind is the last Observation.Unreplicated, and behindAt when it was last as much. Guarded by
	// Engine.mu.
	behind   int64
	behindAt time.Time
	// writes are what was measured lately of what was written. Guarded by Engine.mu.
	writes []written
	// parked is true while the server is one that was stopped cleanly. Guarded by Engine.mu.
	parked bool
	// streams are those to members that receive from us. Guarded by Engine.mu.
	streams map[int]context.CancelFunc
	next    int
	// given are the settings' parameters that the server has, by their names. They are touched by one
	// operation at a time.
	given map[string]string
}

// errNotRunning is returned by an operation on a server that does not run.
var errNotRunning = errors.New("the server does not run: start it first")

// New returns an engine. It starts nothing.
func New(options Options) *Engine {
	e := &Engine{Options: options, changed: make(chan struct{}, 1)}
	e.observed.Server = e.resting(e.isLost())
	return e
}

// Changed implements [engine.Engine].
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Observe implements [engine.Engine].
func (e *Engine) Observe() engine.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	observed := e.observed
	observed.UnflushedSince = e.asked
	if storing := e.storing.Load(); storing != 0 && (e.asked.IsZero() || storing < e.asked.UnixNano()) {
		observed.UnflushedSince = time.Unix(0, storing)
	}
	observed.PendingRestart = e.pending
	observed.Receivers = append([]engine.Receiver(nil), e.observed.Receivers...)
	observed.Problem = cmp.Or(observed.Problem, e.busy, e.failing, e.refused, e.complaint)
	return observed
}

// note changes what Observe returns, if l still is the life of the server.
func (e *Engine) note(l *life, change func(*engine.Observation)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return
	}
	change(&e.observed)
	e.tell()
}

// tell sends to Changed.
func (e *Engine) tell() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Kill implements [engine.Engine].
func (e *Engine) Kill() { e.kill() }

// kill does so, and returns the number of kills, with which processes may be started afterwards.
func (e *Engine) kill() uint64 {
	kills := e.Supervisor.KillAll()
	e.forget(nil, "")
	return kills
}

// forget notes that the life is over (any, if l is nil), and why if that is worth a report.
func (e *Engine) forget(l *life, problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l != nil && e.life != l {
		return
	}
	isLost := e.observed.Server.State == election.NoData
	if e.life != nil {
		isLost = e.life.inMemory
		e.life.cancel()
	}
	if l == nil && e.abort != nil {
		e.abort()
	}
	e.life = nil
	e.asked, e.busy, e.failing = time.Time{}, "", ""
	e.observed = engine.Observation{Server: e.resting(isLost), Problem: problem}
	e.tell()
}

// release closes the stream of the last clone. The caller has locked.
func (e *Engine) release() {
	if e.held != nil {
		held := e.held
		e.held = nil
		go func() { _ = held.Close() }() // It may wait for a peer.
	}
}

// current returns the life of the server that runs.
func (e *Engine) current() (*life, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		return nil, errNotRunning
	}
	return e.life, nil
}

// server returns what was observed last.
func (e *Engine) server() election.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.observed.Server
}

// within returns a context that ends with both the operation and the life.
func (l *life) within(ctx context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return both, func() { stop(); cancel() }
}

// until calls done again and again until it is true or fails, or the context ends.
func (e *Engine) until(ctx context.Context, done func() (bool, error)) error {
	for {
		if is, err := done(); is || err != nil {
			return err
		}
		if err := e.pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// pause waits for that long, or until the context ends.
func (e *Engine) pause(ctx context.Context, long time.Duration) error {
	timer := e.Clock.NewTimer(long)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C():
		return nil
	}
}
