// Package pooler runs PgBouncer in front of a database: it writes the configuration, starts the
// process, makes it reload renewed certificates, holds statements back while there is no primary,
// and waits for clients to disconnect before it ends.
package pooler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/mainstay-platform/mainstay/internal/instance/peers"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/pgbouncer"
)

// Options say how a pooler runs.
type Options struct {
	// Settings are those of PgBouncer. This package itself uses the directories Run and Certificates,
	// the port and the mode.
	Settings pgbouncer.Settings
	// Program is the path of PgBouncer, and Environment that of its process, as "name=value".
	Program     string
	Environment []string
	// EndsWithin is how long Run waits for clients to disconnect after its context has ended. Then it
	// closes each connection at the end of its transaction, and after another 15 s all that are left.
	// 0 does not wait.
	EndsWithin time.Duration
	// Output is where PgBouncer's output is written.
	Output io.Writer
	Clock  clock.Clock
	Log    logr.Logger
}

// Pooler is one PgBouncer.
type Pooler struct {
	Options
	console console
	// answered is when PgBouncer's console last answered; nil is never. It keeps the monotonic reading
	// of the clock, so that a step of the wall clock does not matter.
	answered atomic.Pointer[time.Time]
	// hasMet is true once a primary has let this pooler look up users.
	hasMet atomic.Bool
}

// New returns a pooler that does not run yet.
func New(o Options) *Pooler {
	return &Pooler{Options: o, console: console{run: o.Settings.Run, port: o.Settings.ListenPort}}
}

const (
	// transactionsTimeout is how long PgBouncer may take to end once it only waits for transactions.
	transactionsTimeout = 15 * time.Second
	// clientsInterval is how often PgBouncer is asked for the number of its clients before that, and
	// how long it may take to answer.
	clientsInterval = time.Second
)

// Run runs PgBouncer until the context stop ends, and clients have disconnected: see EndsWithin. It
// returns an error if PgBouncer can't be started, or ends by itself.
func (p *Pooler) Run(stop context.Context) error {
	certificates, err := peers.LoadCertificates(p.Settings.Certificates)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	if err := p.configure(); err != nil {
		return err
	}
	supervisor, err := supervise.New(nil, p.Clock)
	if err != nil {
		return err //nolint:wrapcheck // it says what it was doing
	}
	defer supervisor.Close()
	defer supervisor.KillAll()
	raiseOpenFiles()
	command := &exec.Cmd{
		Path: p.Program, Args: []string{p.Program, filepath.Join(p.Settings.Run, pgbouncer.ConfigurationFile)}, Env: p.Environment,
		Dir: p.Settings.Run, Stdout: p.Output, Stderr: p.Output,
	}
	if err := supervisor.Start(command, supervisor.Kills()); err != nil {
		return err //nolint:wrapcheck // it names the program
	}
	group, ctx := errgroup.WithContext(context.WithoutCancel(stop))
	ctx, end := context.WithCancel(ctx)
	listening, stopListening := context.WithCancel(ctx)
	listenerDone := make(chan struct{})
	group.Go(func() error {
		defer end()
		if err := supervisor.Wait(command); stop.Err() == nil {
			return fmt.Errorf("PgBouncer has ended by itself: %w", errors.Join(err, errEnded))
		}
		return nil
	})
	group.Go(func() error { p.watch(ctx, certificates); return nil })
	group.Go(func() error { p.pollConsole(ctx); return nil })
	group.Go(func() error {
		defer close(listenerDone)
		p.listener().run(listening)
		return nil
	})
	defer stopListening()
	defer context.AfterFunc(stop, func() {
		// From now on no statements are held back: nothing would let them go on.
		stopListening()
		<-listenerDone
		p.end(ctx, command.Process)
	})()
	return group.Wait() //nolint:wrapcheck // it is the first of them
}

// raiseOpenFiles raises the limit of open files for PgBouncer to the most that the container
// allows: each connection is one. If that fails, PgBouncer itself logs how many clients it can
// take.
func raiseOpenFiles() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	limit.Cur = limit.Max
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// errEnded is the reason for which Run fails if PgBouncer ends by itself, even with exit status 0.
var errEnded = errors.New("see its last lines in the log")

// configure writes PgBouncer's files, readable by its own user only.
func (p *Pooler) configure() error {
	const length = 32
	secret := make([]byte, length)
	_, _ = rand.Read(secret) // It never fails: crypto/rand ends the program instead.
	for name, content := range map[string]string{
		pgbouncer.ConfigurationFile: pgbouncer.Configuration(p.Settings), pgbouncer.UsersFile: pgbouncer.Users(hex.EncodeToString(secret)),
	} {
		const mode = 0o600
		if err := os.WriteFile(filepath.Join(p.Settings.Run, name), []byte(content), mode); err != nil {
			return fmt.Errorf("configuring PgBouncer: %w", err)
		}
	}
	return nil
}

// watch makes PgBouncer use renewed certificates for new connections.
func (p *Pooler) watch(ctx context.Context, certificates *peers.Certificates) {
	certificates.Watch(ctx, func() {
		p.Log.Info("the certificates have changed")
		if err := p.console.send(ctx, "RELOAD"); err != nil {
			p.Log.Error(err, "PgBouncer did not read the certificates again")
		}
	}, func(err error) { p.Log.Error(err, "the certificates can't be read; the previous ones stay in use") })
}

const (
	// pollInterval is the pause between two polls of PgBouncer's console.
	pollInterval = time.Second
	// answerTimeout is how long a poll may take. A pooler whose console last answered longer ago is
	// not ready.
	answerTimeout = 5 * pollInterval
)

// pollConsole asks PgBouncer's console every pollInterval, and records when it last answered.
func (p *Pooler) pollConsole(ctx context.Context) {
	for {
		asking, cancel := context.WithTimeout(ctx, answerTimeout)
		if err := p.console.send(asking, "SHOW VERSION"); err == nil {
			now := p.Clock.Now()
			p.answered.Store(&now)
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-p.Clock.After(pollInterval):
		}
	}
}

// IsReady reports whether clients can log in: PgBouncer has answered recently, and a primary has
// once let this pooler look up users. Later there may be no primary: clients wait for the next one.
func (p *Pooler) IsReady() bool {
	answered := p.answered.Load()
	return p.hasMet.Load() && answered != nil && p.Clock.Since(*answered) < answerTimeout
}

// Probes returns the handler of the kubelet's probes: /readyz fails while IsReady is false. /livez
// never fails: this program ends when PgBouncer does.
func (p *Pooler) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !p.IsReady() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	return mux
}

func (p *Pooler) listener() *listener {
	isIdle := p.Settings.Mode == pgbouncer.Session
	return &listener{
		dial: func(ctx context.Context) (primary, error) { return dial(ctx, p.Settings, !isIdle) },
		met:  func() { p.hasMet.Store(true) }, isIdle: isIdle, send: p.console.send, clock: p.Clock, log: p.Log,
	}
}

// end waits until clients have disconnected, at most for EndsWithin. Then PgBouncer closes each
// connection at the end of its transaction, and ends. New clients are accepted until then, because
// not all proxies may know yet that they should send them elsewhere.
func (p *Pooler) end(ctx context.Context, process *os.Process) {
	p.Log.Info("waiting for clients to disconnect", "within", p.EndsWithin.String())
	for until := p.Clock.Now().Add(p.EndsWithin); p.Clock.Now().Before(until) && p.hasClients(ctx); {
		select {
		case <-ctx.Done():
			return
		case <-p.Clock.After(clientsInterval):
		}
	}
	// SIGINT waits for transactions (https://www.pgbouncer.org/usage.html#signals).
	_ = process.Signal(syscall.SIGINT)
	select {
	case <-ctx.Done():
	case <-p.Clock.After(transactionsTimeout):
		_ = process.Signal(syscall.SIGQUIT)
	}
}

// hasClients reports whether clients other than this program are connected; true if that can't be
// found out.
func (p *Pooler) hasClients(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, clientsInterval)
	defer cancel()
	count, err := p.console.clients(asking)
	return err != nil || count > 0
}
