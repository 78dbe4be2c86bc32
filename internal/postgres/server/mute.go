package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// A standby is mute while it accepts no session although its data are consistent: where its log
// begins, a transaction was running with more than 64 subtransactions, so that it does not know yet
// which transactions run (standbyState is STANDBY_SNAPSHOT_PENDING). It speaks once it has replayed
// a later record about that. As it starts without a source, no such record may come before it has
// one. So it is led without sessions until then: by its files, signals, log and control file.
//
// Source: ProcArrayApplyRecoveryInfo in storage/ipc/procarray.c of PostgreSQL 16. The line by which
// a standby without a source is known to have replayed all of its log is from
// WaitForWALToBecomeAvailable in access/transam/xlogrecovery.c, of 15 and later.

// muteProblem is what is reported of a mute standby.
const muteProblem = "accepts no sessions yet: where its log begins, a transaction with more than 64 subtransactions (savepoints, or " +
	"PL/pgSQL blocks with EXCEPTION) was running; it accepts them once it has received what the primary writes after the end of that " +
	"transaction"

const (
	// enoughIdle is how often in a row, five times a second, a standby must have said that it waits
	// for more log at one place, for it to count as one that will not speak by itself.
	enoughIdle = 10
	// muteGrace is how long a standby with a source may take to speak once its data are consistent.
	muteGrace = 2 * time.Second
	// mostMuteStarts is how often a mute standby is started at most to find the end of its log. Three
	// are enough, unless it makes a restart point again.
	mostMuteStarts = 6
	// saysIdle is the first version that says that it waits for more log.
	saysIdle = 15
)

// cannotConnectNow is the code of the error with which a server refuses sessions while it starts or
// stops (errcodes-appendix).
const cannotConnectNow = "57P03"

// silentProblem is what is reported of a server that is too old to say that it has replayed all of
// its log, and may be mute.
const silentProblem = "accepts no sessions although its data are consistent: it still replays its log, or, where that begins, a " +
	"transaction with more than 64 subtransactions was running: if this lasts, delete its volume and Pod after the end of that " +
	"transaction (PostgreSQL 15 and later need not be rebuilt)"

// isStarting reports whether a server has refused a session because it is about to start.
func isStarting(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == cannotConnectNow
}

// isMute reports whether a standby is mute.
func (e *Engine) isMute(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.mute
}

// speaks notes that a server accepts sessions.
func (e *Engine) speaks(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.mute = false
}

// awaitStandby waits until a standby answers, or is known to be mute: it has replayed all of its
// log, or, if it has a source, its data have been consistent for a while.
func (e *Engine) awaitStandby(ctx context.Context, l *life) (isMute bool, err error) {
	var recovers bool
	var since time.Time
	err = e.patiently(ctx, func() error {
		err := e.askOnce(ctx, "SELECT pg_is_in_recovery()", &recovers)
		switch isConsistent, isIdle := l.output.replays(); {
		case !isStarting(err) || !isConsistent:
			return err
		case since.IsZero():
			since = e.Clock.Now()
		case l.major < saysIdle && l.wrote.source == nil && e.Clock.Since(since) >= silentAfter:
			since = e.Clock.Now() // It is noted again later.
			e.note(l, func(o *engine.Observation) { o.Problem = silentProblem })
		case isIdle || l.wrote.source != nil && e.Clock.Since(since) >= muteGrace:
			isMute = true
			return nil
		}
		return err
	})
	if err != nil && l.ctx.Err() != nil {
		<-l.exited
		return false, fmt.Errorf("%w: %s", errNotRunning, e.Observe().Problem)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // The log says more than how the last session was refused.
	}
	if err != nil {
		return false, fmt.Errorf("%w: %s", err, l.output.last())
	}
	l.output.noteAnswer()
	if !isMute && !recovers {
		return false, errors.New("the server is not a standby, although it was started as one")
	}
	return isMute, nil
}

// endMute stops a mute standby without a source, which has replayed all of its log, and returns up
// to where it had; 0 if the control file does not prove that. before is the control file with which
// it was started. kills is as for launch, and so is the one that is returned.
func (e *Engine) endMute(ctx context.Context, l *life, kills uint64, before postgres.Control) (uint64, postgres.LSN, error) {
	if err := l.signal(syscall.SIGINT); err != nil {
		return 0, 0, err
	}
	select {
	case <-l.exited:
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("stopping it to find the end of its log: %w", context.Cause(ctx))
	}
	next := e.kill()
	if next != kills+1 {
		return 0, 0, supervise.ErrKilled
	}
	after, err := readControl(e.Data)
	if err != nil {
		return 0, 0, err
	}
	return next, after.Replayed(before), nil
}

// noteMute notes that a standby is mute. If it has no source, end is the end of its log.
func (e *Engine) noteMute(l *life, end postgres.LSN) error {
	var position election.Position
	if end != 0 {
		history, err := e.followed()
		if err != nil {
			return err
		}
		if position, err = positionAt(history, end); err != nil {
			return err
		}
	}
	e.mu.Lock()
	l.mute = true
	e.mu.Unlock()
	e.note(l, func(o *engine.Observation) {
		o.Problem = muteProblem
		if end != 0 {
			o.Server.Position, o.Server.Whole, o.Server.Final = position, position, true
		}
	})
	return nil
}

// measureMute notes what can be seen of a mute standby: whether it receives. That it does is no
// reason to report it as connected, because it accepts no clients.
func (e *Engine) measureMute(l *life, look *standbyLook) {
	look.connected = l.streams()
	look.receives++
	if !look.connected {
		look.receives = 0
	}
	if look.receives >= reportsEnough {
		e.release()
	}
	at := e.Clock.Now()
	e.note(l, func(o *engine.Observation) {
		if o.Server.State != election.Standby {
			return
		}
		o.Problem = cmp.Or(look.problem(o.Server, l, at), muteProblem)
		o.Server.LacksLog = !look.connected && o.Server.Source != election.Source{} && l.output.gone()
	})
}

// streams reports whether a process of the server receives, by its title.
func (l *life) streams() bool {
	for _, title := range supervise.Children(l.pid) {
		if strings.HasPrefix(title, "postgres: walreceiver") && strings.Contains(title, "streaming ") {
			return true
		}
	}
	return false
}

// reloadMute makes a mute server use the configuration files with the generation. It returns when
// the server's main process says that it has them, and so does every process that it starts from
// now on.
func (e *Engine) reloadMute(ctx context.Context, l *life, generation int) error {
	return e.until(ctx, func() (bool, error) {
		err := l.signal(syscall.SIGHUP)
		return l.output.reloaded() == strconv.Itoa(generation), err
	})
}

// promoteMute makes a mute standby promote itself. From before that on, clients can't connect.
func (e *Engine) promoteMute(ctx context.Context, l *life) error {
	c := l.wrote
	c.clients = false
	if err := e.reload(ctx, l, c); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(e.Data, "promote"), nil); err != nil {
		return err
	}
	return l.signal(syscall.SIGUSR1)
}
