package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

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
	// Run is the directory of the socket and of the configuration, which has hashes of passwords. It
	// must be used by this instance alone, must not be on the volume, and must have the mode 0700 and
	// a path of at most 80 bytes.
	Run string
	// Listen is the address on which clients connect, "" for all. Port is the port with TLS, the same
	// for all members, and PlainPort is the one without TLS; 0 means none.
	Listen          string
	Port, PlainPort int
	// Certificates is the directory of this instance's tls.crt, tls.key and ca.crt.
	Certificates string
	// Me returns this instance as a member. It changes when the data are rebuilt.
	Me func() election.Member
	// Stream opens a stream to the engine of another pod's instance, whose HandleStream serves it.
	Stream func(ctx context.Context, pod string) (io.ReadWriteCloser, error)
	// Environment is that of the server's process, with a PATH to its program.
	Environment []string
	// Log is where the server's log is written, line by line.
	Log io.Writer
	// Supervisor starts and kills the process.
	Supervisor *supervise.Supervisor
	Clock      clock.Clock
}

// Engine implements [engine.Engine] for Valkey.
type Engine struct {
	model.Positions
	Options

	changed chan struct{}
	// programs is the major version of the server's program; "" before FindVersion, which is called
	// before anything else.
	programs string

	// states guards changes of the state file.
	states sync.Mutex
	// providing is held while the application's user is read and sent to the server, so that an older
	// one is never sent last.
	providing sync.Mutex
	// ends is held while the end of the data is noted, so that no older one follows.
	ends sync.Mutex

	mu   sync.Mutex
	life *life
	// lines are the history of the data, as in the state file.
	lines model.Lines
	// before is the last run of the server, even after its end.
	before   *life
	observed engine.Observation
	// abort ends a clone that is in progress. held closes the stream of the last clone: while that is
	// open, the leader keeps what it writes for us.
	abort, held context.CancelFunc
	// asked is when the oldest unanswered query was sent to the server; the zero time if it answers.
	asked time.Time
	// unstored is true if the last server has ended without an append-only file, or, before the first
	// one, if there is none: then a leader that starts again may lack what it has acknowledged.
	unstored bool
	// loss says what a server that leads again has lost; "" is nothing. lostAt is when it led again.
	loss   string
	lostAt time.Time
	// storing is since when [Engine.store] has been running; nil while it does not run. It keeps the
	// monotonic reading of the clock, without which a step of the wall clock would look like a disk
	// that hangs.
	storing atomic.Pointer[time.Time]
	// busy is set while the server answers that it is busy with a script, and failing says what it
	// could not store; both are "" otherwise.
	busy, failing string
	// users are the parameters that were set last, and refused says why some are left out; "" if none
	// are.
	users   map[string]string
	refused string
	// pending is true if a parameter takes effect only at the next start.
	pending bool
	// application is that of the last Provide. complaint is the last problem that was passed to
	// Complain.
	application model.Application
	complaint   string
	// damages is how often in a row the data were found damaged, without a server that has loaded them
	// in between.
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
	// administrator, replication and monitor are the passwords of Mainstay's own users, new for each
	// run.
	administrator, replication, monitor string
	// session is the administrator's; nil until the server answers.
	session atomic.Pointer[session]
	// persists is true if the server should store its data by itself, and stored becomes true once it
	// does. From then on the end of the data is noted in a file, and noted is what was noted last.
	// stored and noted are guarded by Engine.mu.
	persists bool
	stored   bool
	noted    election.Position
	// appended is true if the server has loaded an append-only file, which it goes on with.
	appended bool
	// isCopy is true if a server that should persist has loaded a snapshot, and has received nothing
	// since: it lacks what was written after the snapshot. Guarded by Engine.mu.
	isCopy bool
	// unstoredAt is when a server that should persist was first found not to store its data yet; the
	// zero time if it stores them. rewriteAt is when it was last asked to, or had not failed to.
	// isFailing is true if it has failed to since. Guarded by Engine.mu.
	unstoredAt, rewriteAt time.Time
	isFailing             bool
	// loaded is the end of the data that were loaded, if the server itself does not know it.
	loaded election.Position
	// inMemory is true once there are no files that a server could load: the data end with this
	// process. Guarded by Engine.mu.
	inMemory bool
	// room is how often maxclients was raised for connections of our own. Guarded by Engine.mu.
	room int
	// behind is the last Observation.Unreplicated, and behindAt is when it was last measured to be as
	// high. Guarded by Engine.mu.
	behind   int64
	behindAt time.Time
	// writes are the measurements of the last nearDelay of how far the server had written. Guarded by
	// Engine.mu.
	writes []written
	// parked is true while the server is a former leader that was stopped cleanly, and was not started
	// again. Guarded by Engine.mu.
	parked bool
	// streams end the streams to members that receive from us. The keys are numbers, of which next is
	// the last. Guarded by Engine.mu.
	streams map[int]context.CancelFunc
	next    int
	// given are the parameters that the server has got from us, by their names. Only operations use
	// it, of which one runs at a time.
	given map[string]string
}

// errNotRunning is returned by an operation on a server that does not run.
var errNotRunning = errors.New("the server does not run: start it first")

// New returns an engine. It starts nothing.
func New(options Options) *Engine {
	e := &Engine{Options: options, changed: make(chan struct{}, 1)}
	e.unstored = !isStored(e.Data)
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
	if storing := e.storing.Load(); storing != nil && (e.asked.IsZero() || storing.Before(e.asked)) {
		observed.UnflushedSince = *storing
	}
	if observed.Connected && !e.asked.IsZero() && e.Clock.Since(e.asked) >= silentAfter {
		observed.Silent(silentAfter)
	}
	observed.PendingRestart = e.pending
	observed.Receivers = append([]engine.Receiver(nil), e.observed.Receivers...)
	observed.Problem = cmp.Or(observed.Problem, e.busy, e.failing, e.refused, e.complaint)
	if observed.Problem == "" && e.loss != "" && e.Clock.Since(e.lostAt) < lossShown {
		observed.Problem = e.loss
	}
	return observed
}

// lossShown is for how long a loss of data is reported that nobody can mend any more.
const lossShown = time.Hour

// note changes what Observe returns, if l is still the current life.
func (e *Engine) note(l *life, change func(*engine.Observation)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return
	}
	change(&e.observed)
	e.tell()
}

// tell notifies the receiver of Changed.
func (e *Engine) tell() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Kill implements [engine.Engine].
func (e *Engine) Kill() { e.kill() }

// kill does so, and returns the new value of Supervisor.Kills(), with which processes may be
// started afterwards.
func (e *Engine) kill() uint64 {
	kills := e.Supervisor.KillAll()
	e.forget(nil, "")
	return kills
}

// forget notes that the run l of the server has ended, or with nil whichever is current; with nil
// it also aborts a clone. problem is reported, if not "".
func (e *Engine) forget(l *life, problem string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l != nil && e.life != l {
		return
	}
	isLost := e.observed.Server.State == election.NoData
	if e.life != nil {
		isLost, e.unstored = e.life.inMemory, e.life.persists && !e.life.stored && !e.life.appended
		e.life.cancel()
	}
	switch {
	case l != nil:
		e.release() // The leader must not keep what it writes for a server that may never load the copy.
	case e.abort != nil:
		e.abort()
	}
	e.life = nil
	e.asked, e.busy, e.failing = time.Time{}, "", ""
	e.observed = engine.Observation{Server: e.resting(isLost), Problem: problem}
	e.tell()
}

// release closes the stream of the last clone. The caller holds e.mu.
func (e *Engine) release() {
	if e.held != nil {
		e.held() // It waits for no peer.
		e.held = nil
	}
}

// current returns the life of the running server; errNotRunning if there is none.
func (e *Engine) current() (*life, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		return nil, errNotRunning
	}
	return e.life, nil
}

// server returns what was last observed of the server.
func (e *Engine) server() election.Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.observed.Server
}

// within returns a context that ends when ctx ends or the server does.
func (l *life) within(ctx context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	return both, func() { stop(); cancel() }
}

// until calls done every pollInterval until it returns true or an error, or the context ends.
func (e *Engine) until(ctx context.Context, done func() (bool, error)) error {
	return engine.Until(ctx, e.Clock, pollInterval, done)
}

// pause waits for a duration, or until the context ends, and then returns its cause.
func (e *Engine) pause(ctx context.Context, duration time.Duration) error {
	return engine.Pause(ctx, e.Clock, duration)
}
