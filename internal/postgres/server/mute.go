package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// A standby is mute while it accepts no session although its data are consistent: where its log
// begins, a transaction was running with more than 64 subtransactions, so that it does not know yet
// which transactions run (standbyState is STANDBY_SNAPSHOT_PENDING). It speaks once it has replayed
// a later record about that. As it starts without a source, no such record may come before it has
// one. So it is led without sessions until then: by its files, signals and log. Where its log ends
// is known from pg_control, which has a place that was replayed, if no record follows there.
//
// Source: ProcArrayApplyRecoveryInfo in storage/ipc/procarray.c of PostgreSQL 16. The message by
// which a standby without a source is thought to have replayed all of its log is from
// WaitForWALToBecomeAvailable in access/transam/xlogrecovery.c, of 15 and later.

// muteProblem is what is reported of a mute standby.
const muteProblem = "accepts no sessions yet: where its log begins, a transaction with more than 64 subtransactions (savepoints, or " +
	"PL/pgSQL blocks with EXCEPTION) was running; it accepts them once it has received what the primary writes after the end of that " +
	"transaction"

const (
	// enoughIdle is how often in a row, five times a second, a standby must have said that it waits
	// for more log at one place, for it to be thought mute.
	enoughIdle = 10
	// muteGrace is how long a standby with a source may take to speak once its data are consistent.
	muteGrace = 2 * time.Second
	// mostMuteStarts is how often a mute standby is started at most to find the end of its log. Two
	// are enough, unless it makes a restart point, or is thought mute while it still replays.
	mostMuteStarts = 6
	// saysIdle is the first version that says that it waits for more log.
	saysIdle = 15
)

// isMute reports whether a standby is mute.
func (e *Engine) isMute(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.mute
}

// staysMute reports whether a standby without a source is mute. It may have been thought so because
// it was slow.
func (e *Engine) staysMute(ctx context.Context, l *life) bool {
	if !e.isMute(l) {
		return false
	}
	session, err := e.connect(ctx)
	if err != nil {
		return true
	}
	disconnect(session)
	e.speaks(l)
	return false
}

// speaks notes that a server accepts sessions.
func (e *Engine) speaks(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.mute = false
}

// seemsMute reports whether a standby that refuses a session from now on is thought to be mute: if
// it has a source, its data have been consistent for a while; if not, it seems to have replayed all
// of its log.
func (l *life) seemsMute() bool {
	at, isConsistent := l.output.consistent()
	switch {
	case !isConsistent || l.major < saysIdle:
		return false
	case l.wrote.source != nil:
		return time.Since(at) >= muteGrace
	}
	return l.output.waits()
}

// awaitStandby waits until a standby answers, or seems to be mute.
func (e *Engine) awaitStandby(ctx context.Context, l *life) (isMute bool, err error) {
	var recovers bool
	err = e.patiently(ctx, func() error {
		seems := l.seemsMute() && e.hasWaldump() // What is asked later is refused although it had time to speak.
		err := e.askOnce(ctx, "SELECT pg_is_in_recovery()", &recovers)
		isRefused := isStarting(err)
		e.tellSilence(l, isRefused)
		if isMute = isRefused && seems; isMute {
			return nil
		}
		return err
	})
	if err = e.startFailed(ctx, l, err); err != nil {
		return false, err
	}
	l.output.noteAnswer()
	if !isMute && !recovers {
		return false, errors.New("the server is not a standby, although it was started as one")
	}
	return isMute, nil
}

// logEnd returns the place that pg_control had when the server was started, if no record of its log
// follows there: then it has replayed all of its log, because it has that place once its data are
// consistent. If a record follows, logEnd returns 0. So that a standby seems to be mute too early,
// perhaps because others made it log so, changes nothing.
func (e *Engine) logEnd(ctx context.Context, control postgres.Control) (postgres.LSN, error) {
	end := control.MinRecovery
	if end == 0 {
		return 0, nil
	}
	history, err := e.followed()
	if err != nil {
		return 0, err
	}
	names, err := e.logFiles()
	if err != nil {
		return 0, err
	}
	timelines, err := postgres.SegmentsAt(names, history, end)
	if err != nil {
		return 0, err
	}
	for _, segments := range timelines {
		if isEnd, err := e.endsAt(ctx, segments, end); !isEnd || err != nil {
			return 0, err
		}
	}
	return end, nil
}

// endMute stops a standby that seems to be mute: then pg_control has the place up to which it has
// replayed, unless it makes a restart point instead (CreateRestartPoint in access/transam/xlog.c).
// It is not killed after a while, because that would note nothing. kills is as for launch, and so
// is the one that is returned.
func (e *Engine) endMute(ctx context.Context, l *life, kills uint64) (uint64, error) {
	if err := l.signal(syscall.SIGINT); err != nil {
		return 0, err
	}
	select {
	case <-l.exited:
	case <-ctx.Done():
		return 0, fmt.Errorf("stopping it to find the end of its log: %w", context.Cause(ctx))
	}
	next := e.kill()
	if next != kills+1 {
		return 0, supervise.ErrKilled
	}
	return next, nil
}

// noteMute notes that a standby is mute. If it has no source, end is the end of its log.
func (e *Engine) noteMute(l *life, end postgres.LSN) error {
	history, err := e.followed()
	if err != nil {
		return err
	}
	position, err := positionAt(history, end)
	if err != nil {
		return err
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

// measureMute notes what can be seen of a mute standby: whether it receives, and up to where. That
// it does is no reason to report it as connected, because it accepts no clients.
func (e *Engine) measureMute(l *life, look *standbyLook) {
	now, connected := l.streams()
	// The title may be read while it is written; the lower one of two is never too high.
	received := min(now, look.streamed)
	look.streamed = now
	history, err := e.followed()
	if err != nil {
		return // It is measured again soon.
	}
	position, err := positionAt(history, received)
	if err != nil {
		return
	}
	look.connected = connected
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
		// A receiver begins again where a file of the log begins, so that its place may go back.
		if !o.Server.Final && (postgres.Positions{}).Compare(position, o.Server.Position) == election.Ahead {
			o.Server.Position = position
		}
	})
}

// streaming is the title of a process that receives. It has the place up to which it has flushed
// (XLogWalRcvFlush in replication/walreceiver.c).
var streaming = regexp.MustCompile(`^postgres: walreceiver +streaming ([0-9A-F]+/[0-9A-F]+)`)

// streams reports whether a process of the server receives, and up to where it has.
func (l *life) streams() (received postgres.LSN, is bool) {
	for _, title := range supervise.Children(l.pid) {
		if found := streaming.FindStringSubmatch(title); found != nil {
			received, err := postgres.ParseLSN(found[1])
			return received, err == nil
		}
	}
	return 0, false
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
