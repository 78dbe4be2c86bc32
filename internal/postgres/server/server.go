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
	// Run is a directory of this instance alone, not on the volume, mode 0700: the socket, the
	// configuration, and the keys for the stream. Its path has at most 80 bytes.
	Run string
	// Listen is the address for clients and members, "*" for all; Port is the same for all members.
	Listen string
	Port   int
	// Certificates is the directory of this instance's tls.crt, tls.key and ca.crt. The common name
	// of the certificate is postgres.CertificatePrefix and the pod's name.
	Certificates string
	// Me returns the member of the data in Data: it changes when they are rebuilt.
	Me func() election.Member
	// Members returns the members that may receive from this server, as they are known now.
	Members func() []election.Member
	// KeepWAL is how many MB of the log a leader keeps for a standby that was away; 0 means a tenth of
	// the volume, 64 at least and 1024 at most.
	KeepWAL int
	// NewLog returns where the log of data that are made is to be, a directory that is not there yet;
	// "" or nil is with the data.
	NewLog func() string
	// Environment is that of the server's processes, with a PATH to its binaries.
	Environment []string
	// Log is written the server's log, line by line.
	Log io.Writer
	// Supervisor starts and kills the processes.
	Supervisor *supervise.Supervisor
	Clock      clock.Clock
}

// Engine is PostgreSQL as an engine of an instance.
type Engine struct {
	postgres.Positions
	Options

	changed chan struct{}
	// programs is the major version of the server's programs; 0 while nobody has asked them. It is set
	// before anything else is called.
	programs int

	mu   sync.Mutex
	life *life
	// before is the last server process, also after its end.
	before   *life
	observed engine.Observation
	// abort ends a clone that is under way.
	abort context.CancelFunc
	// unflushed is the start of the oldest heartbeat that the local disk has not taken.
	unflushed time.Time
	users     users
	// complaint is what is wrong beside the server.
	complaint string
	// unsettled is what is wrong with users that a leader has made.
	unsettled string
	// damages is how often the data were found damaged since a server with them last received.
	damages int
	// initTotal bounds all first statements of the application's database together.
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
	// wrote is what the configuration files say now; touched by one operation at a time.
	wrote configuration
	// started are the settings that it was started with, as far as a user may set them, and hasUsers
	// is true if there were any of a user.
	started  []postgres.Setting
	hasUsers bool
	// output passes its log on.
	output *lines
	// hasFlag is true while commits are known to ask whether they have to wait. It is guarded by
	// Engine.mu.
	hasFlag bool
	// told cancels the settling of the previous rule.
	told context.CancelFunc
	// fast is how many wait for heartbeats, so that these come more often. Guarded by Engine.mu.
	fast int
}

// errNotRunning is returned by an operation on a server that does not run.
var errNotRunning = errors.New("the server does not run: start it first")

// New returns an engine. It starts nothing.
func New(options Options) *Engine {
	e := &Engine{Options: options, changed: make(chan struct{}, 1), initTotal: initTotal}
	e.observed.Server = e.resting()
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
	observed.Receivers = append([]engine.Receiver(nil), e.observed.Receivers...)
	observed.Problem = cmp.Or(observed.Problem, e.users.problem(), e.complaint)
	if observed.Server.State == election.Leading {
		observed.Problem = cmp.Or(observed.Problem, e.unsettled)
	}
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
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Kill implements [engine.Engine].
func (e *Engine) Kill() {
	e.kill()
}

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
