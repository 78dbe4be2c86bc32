package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Options say where a server has its files and how it is reached.
type Options struct {
	// Data is the data directory. It and Run are absolute.
	Data string
	// Run is the directory of the socket, of the configuration, and of the keys with which a standby
	// receives. It must be used by this instance alone, must not be on the volume, and must have the
	// mode 0700 and a path of at most 80 bytes.
	Run string
	// Listen is the address on which clients and members connect, "*" for all. Port is the same for
	// all members.
	Listen string
	Port   int
	// Certificates is the directory of this instance's tls.crt, tls.key and ca.crt. The common name of
	// the certificate is postgres.CertificatePrefix, followed by the pod's name.
	Certificates string
	// Me returns this instance as a member. It changes when the data are rebuilt.
	Me func() election.Member
	// Members returns the members that may receive from this server, as far as they are known.
	Members func() []election.Member
	// KeepWAL is how many MB of the log a leader keeps for standbys that were away; 0 is the default:
	// a tenth of the volume, at least 64 and at most 1024.
	KeepWAL int
	// NewLog returns the path, which does not exist yet, of the directory for the log of data that are
	// being made. If it is nil or returns "", the log is part of the data directory.
	NewLog func() string
	// Environment is that of the server's processes, as "name=value", with a PATH to the server's
	// programs.
	Environment []string
	// Log is where the server's log is written, line by line.
	Log io.Writer
	// Supervisor starts and kills the processes.
	Supervisor *supervise.Supervisor
	Clock      clock.Clock
}

// Engine implements [engine.Engine] for PostgreSQL.
type Engine struct {
	postgres.Positions
	Options

	changed chan struct{}
	// programs is the major version of the server's programs; 0 before FindVersion, which is called
	// before anything else.
	programs int

	mu   sync.Mutex
	life *life
	// before is the last run of the server, even after its end.
	before   *life
	observed engine.Observation
	// hasData is true if there were data when they were last looked for.
	hasData bool
	// abort ends a clone that is in progress. held is the session of the last one.
	abort context.CancelFunc
	held  held
	// unflushed is since when the oldest heartbeat has been waiting for the local disk; the zero time
	// if none is.
	unflushed time.Time
	// answered is when the server last answered a measurement as a standby.
	answered time.Time
	users    users
	// complaint is the last problem that was passed to Complain.
	complaint string
	// unsettled is what is wrong with users although a leader has created them.
	unsettled string
	// damages is how often in a row the data were found damaged, without a server that received with
	// them in between.
	damages int
	// initTotal limits the duration of all first statements of the application's database together.
	// Tests set it.
	initTotal time.Duration
}

var _ engine.Engine = (*Engine)(nil)

// life is one run of the server process, from its start to its end.
type life struct {
	// major is the version of the data.
	major int
	pid   int
	// ctx ends with the process.
	ctx    context.Context
	cancel context.CancelFunc
	// exited is closed when the process and all that it has started are gone.
	exited chan struct{}
	// wrote is what the configuration files contain now. Only operations use it, of which one runs at
	// a time.
	wrote configuration
	// started are the settings with which it was started, of those that a user may set. hasUsers is
	// true if the user has set any of them.
	started  []postgres.Setting
	hasUsers bool
	// output passes the server's log on.
	output *lines
	// hasFlag is true while commits are known to check whether they have to wait. It is guarded by
	// Engine.mu.
	hasFlag bool
	// mute is true while a standby accepts no sessions: see mute.go. It is guarded by Engine.mu.
	mute bool
	// cancelSettling ends the goroutines that wait for the previous rule to be in effect.
	cancelSettling context.CancelFunc
	// fast is how many callers wait for heartbeats, so that these are more frequent. Guarded by
	// Engine.mu.
	fast int
}

// errNotRunning is returned by an operation on a server that does not run.
var errNotRunning = errors.New("the server does not run: start it first")

// New returns an engine. It starts nothing.
func New(options Options) *Engine {
	e := &Engine{Options: options, changed: make(chan struct{}, 1), initTotal: initTotal}
	e.look()
	return e
}

// Changed implements [engine.Engine].
func (e *Engine) Changed() <-chan struct{} { return e.changed }

// Observe implements [engine.Engine].
func (e *Engine) Observe() engine.Observation {
	e.mu.Lock()
	defer e.mu.Unlock()
	observed := e.observed
	observed.UnflushedSince = e.unflushed
	if observed.Connected && e.Clock.Since(e.answered) >= silentAfter {
		observed.Silent(silentAfter)
	}
	observed.Receivers = append([]engine.Receiver(nil), e.observed.Receivers...)
	observed.Problem = cmp.Or(observed.Problem, e.users.problem(), e.complaint)
	if observed.Server.State == election.Leading {
		observed.Problem = cmp.Or(observed.Problem, e.unsettled)
	}
	return observed
}

// note changes what Observe returns, if l is still the current life.
func (e *Engine) note(l *life, change func(*engine.Observation)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return
	}
	change(&e.observed)
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Kill implements [engine.Engine].
func (e *Engine) Kill() {
	e.kill()
}

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
	if e.life != nil {
		e.life.cancel()
	}
	if l == nil && e.abort != nil {
		e.abort()
	}
	e.life = nil
	e.unflushed = time.Time{}
	e.observed = engine.Observation{Server: e.resting(), Problem: problem}
	select {
	case e.changed <- struct{}{}:
	default:
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
