// Package pooler runs PgBouncer in front of a database: it writes the configuration, starts the
// process, lets it follow new certificates, holds statements back during a planned handover, and
// lets clients end before the pod does.
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
	// Settings are those of PgBouncer. Listen, Run and Certificates count for this package too.
	Settings pgbouncer.Settings
	// Program is the path of PgBouncer, and Environment what it gets.
	Program     string
	Environment []string
	// EndsWithin is how long clients may take to disconnect once the context of Run has ended; then
	// their connections are closed as soon as their transactions are over, or 15 s later.
	EndsWithin time.Duration
	// Output gets what PgBouncer prints.
	Output io.Writer
	Clock  clock.Clock
	Log    logr.Logger
}

// Pooler is one PgBouncer.
type Pooler struct {
	Options
	console console
	// answered is when the console has answered last, in nanoseconds since 1970; 0 is never.
	answered atomic.Int64
	// hasMet is true once a primary has let this pooler look users up.
	hasMet atomic.Bool
}

// New returns a pooler that does not run yet.
func New(o Options) *Pooler {
	return &Pooler{Options: o, console: console{run: o.Settings.Run, port: o.Settings.ListenPort}}
}

// finally is how long PgBouncer may take to end once nothing but transactions is waited for, and
// looks how often it is asked for its clients before.
const (
	finally = 15 * time.Second
	looks   = time.Second
)

// Run runs PgBouncer until asked ends, and clients have disconnected. It returns an error if
// PgBouncer can't be started, or ends by itself.
func (p *Pooler) Run(asked context.Context) error {
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
	group, ctx := errgroup.WithContext(context.WithoutCancel(asked))
	ctx, end := context.WithCancel(ctx)
	listening, silence := context.WithCancel(ctx)
	silent := make(chan struct{})
	group.Go(func() error {
		defer end()
		if err := supervisor.Wait(command); asked.Err() == nil {
			return fmt.Errorf("PgBouncer has ended by itself: %w", errors.Join(err, errEnded))
		}
		return nil
	})
	group.Go(func() error { p.watch(ctx, certificates); return nil })
	group.Go(func() error { p.answers(ctx); return nil })
	group.Go(func() error {
		defer close(silent)
		p.listener().run(listening)
		return nil
	})
	defer silence()
	defer context.AfterFunc(asked, func() {
		// From now on nothing is held back: it would never be let go.
		silence()
		<-silent
		p.end(ctx, command.Process)
	})()
	return group.Wait() //nolint:wrapcheck // it is the first of them
}

// raiseOpenFiles lets PgBouncer open as many files as the container may: each connection is one.
// Where that fails, it says itself how many clients it can take.
func raiseOpenFiles() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return
	}
	limit.Cur = limit.Max
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// errEnded is why a pooler ends whose PgBouncer has, with whatever status.
var errEnded = errors.New("see its last lines in the log")

// configure writes PgBouncer's files, for no other user to read.
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

// watch lets PgBouncer use new certificates for connections from then on.
func (p *Pooler) watch(ctx context.Context, certificates *peers.Certificates) {
	certificates.Watch(ctx, func() {
		p.Log.Info("the certificates have changed")
		if err := p.console.send(ctx, "RELOAD"); err != nil {
			p.Log.Error(err, "PgBouncer did not read the certificates again")
		}
	}, func(err error) { p.Log.Error(err, "the certificates can't be read; the previous ones stay in use") })
}

// asks is how often the console is asked whether PgBouncer answers, and silent for how long it may
// not have answered.
const (
	asks   = time.Second
	silent = 5 * asks
)

// answers notes when PgBouncer answers.
func (p *Pooler) answers(ctx context.Context) {
	for {
		asking, cancel := context.WithTimeout(ctx, silent)
		if err := p.console.send(asking, "SHOW VERSION"); err == nil {
			p.answered.Store(p.Clock.Now().UnixNano())
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-p.Clock.After(asks):
		}
	}
}

// IsReady reports whether clients can log in: PgBouncer answers, and a primary has let this pooler
// look users up. It needs none afterwards: clients wait for the next one.
func (p *Pooler) IsReady() bool {
	return p.hasMet.Load() && p.Clock.Since(time.Unix(0, p.answered.Load())) < silent
}

// Probes answers the kubelet: /readyz fails while PgBouncer does not answer. It is live as long as
// this program is, which ends with PgBouncer.
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

// end waits until clients have disconnected, or too long; then PgBouncer closes connections
// between two transactions and ends. New clients are let in all the time: proxies have been told
// to send them elsewhere, and not all have heard it.
func (p *Pooler) end(ctx context.Context, process *os.Process) {
	p.Log.Info("waiting for clients to disconnect", "within", p.EndsWithin.String())
	for until := p.Clock.Now().Add(p.EndsWithin); p.Clock.Now().Before(until) && p.hasClients(ctx); {
		select {
		case <-ctx.Done():
			return
		case <-p.Clock.After(looks):
		}
	}
	// SIGINT waits for transactions (https://www.pgbouncer.org/usage.html#signals).
	_ = process.Signal(syscall.SIGINT)
	select {
	case <-ctx.Done():
	case <-p.Clock.After(finally):
		_ = process.Signal(syscall.SIGQUIT)
	}
}

// hasClients reports whether there are clients beside this program; true if that can't be found
// out.
func (p *Pooler) hasClients(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, looks)
	defer cancel()
	count, err := p.console.clients(asking)
	return err != nil || count > 0
}
