package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// standbySignal is the name of the file that makes a server start as a standby.
const standbySignal = "standby.signal"

// clean kills what is left of an earlier process, waits for its end, and removes what it has left
// of a source or a promotion. It returns the new value of Supervisor.Kills(), with which processes
// may be started, and the major version of the data. It fails if KillAll was called meanwhile.
func (e *Engine) clean(ctx context.Context) (kills uint64, major int, err error) {
	began := e.Supervisor.Kills()
	if kills = e.kill(); kills != began+1 {
		return 0, 0, supervise.ErrKilled
	}
	e.mu.Lock()
	before := e.before
	e.mu.Unlock()
	if before != nil {
		select {
		case <-before.exited:
		case <-ctx.Done():
			return 0, 0, fmt.Errorf("waiting for the end of the last server: %w", context.Cause(ctx))
		}
	}
	e.look() // They may have been removed while the last server ran.
	if err := e.removeKeys(); err != nil {
		return 0, 0, err
	}
	if major, err = readMajor(e.Data); err != nil {
		return 0, 0, err
	}
	if err := e.checkMajor(major); err != nil {
		return 0, 0, err
	}
	files, err := historyFiles(e.Data)
	if err != nil {
		return 0, 0, err
	}
	var planted []string
	for _, number := range postgres.Unfounded(files) {
		planted = append(planted, postgres.HistoryName(number))
	}
	if err := remove(filepath.Join(e.Data, "pg_wal"), planted...); err != nil {
		return 0, 0, err
	}
	// The WAL that slots retain is only needed once we lead, and then they are created again.
	if err := removeSlots(e.Data); err != nil {
		return 0, 0, err
	}
	// With fsGroup, the kubelet gives the group permissions with which the server refuses to start.
	if err := os.Chmod(e.Data, 0o700); err != nil { //nolint:gosec // it is a directory
		return 0, 0, fmt.Errorf("restricting the data to the instance's user: %w", err)
	}
	return kills, major, remove(e.Data, "promote", "recovery.signal")
}

// Start implements [engine.Engine]. It also returns when the standby is known to be mute: see
// mute.go.
func (e *Engine) Start(ctx context.Context) error {
	kills, major, err := e.clean(ctx)
	if err != nil {
		e.noteDamage(err)
		return err
	}
	return e.startStandby(ctx, kills, major, configuration{clients: true})
}

// startStandby starts the server as a standby with a configuration, and waits until it answers and
// commits are known to wait. One that is mute, and has no source, is stopped and started again
// until the end of its log is known. After an error the server is killed.
func (e *Engine) startStandby(ctx context.Context, kills uint64, major int, c configuration) error {
	if err := writeFile(filepath.Join(e.Data, standbySignal), nil); err != nil {
		return err
	}
	if err := e.uncover(); err != nil {
		// The server starts all the same, but may not know all that it has.
		_, _ = fmt.Fprintf(e.Log, "looking for hidden files of the log: %v\n", err)
	}
	for range mostMuteStarts {
		control, l, err := e.launchStandby(kills, major, c)
		if err != nil {
			return err
		}
		isSettled, err := e.settleStandby(ctx, l, control)
		if err == nil && !isSettled {
			e.note(l, func(o *engine.Observation) { o.Problem = muteProblem })
			kills, err = e.endMute(ctx, l, kills)
		}
		if err != nil {
			e.Kill()
			return fmt.Errorf("starting the server as a standby: %w", err)
		}
		if isSettled {
			go e.watchStandby(l)
			return nil
		}
	}
	return fmt.Errorf("starting the server as a standby: the end of its log is unknown: it %s", muteProblem)
}

// launchStandby starts the process of a standby, with at least the values that its control file
// demands. It returns what that said.
func (e *Engine) launchStandby(kills uint64, major int, c configuration) (postgres.Control, *life, error) {
	control, err := readControl(e.Data)
	if err != nil {
		e.noteDamage(err)
		return control, nil, fmt.Errorf("starting the server as a standby: %w", err)
	}
	c.needs = control.Needs()
	if err := e.configure(major, c); err != nil {
		return control, nil, err
	}
	l, err := e.launch(kills, major, c, election.Standby)
	return control, l, err
}

// settleStandby waits until a standby answers and commits are known to wait, or until it is known
// to be mute, and has a source or the end of its log is known. It returns false if only that is
// missing. control is what pg_control had when the server was started.
func (e *Engine) settleStandby(ctx context.Context, l *life, control postgres.Control) (isSettled bool, err error) {
	ctx, cancel := l.within(ctx)
	defer cancel()
	isMute, err := e.awaitStandby(ctx, l)
	switch {
	case err != nil:
		return false, err
	case !isMute:
		return true, e.seeFlag(ctx, l)
	case l.wrote.source != nil:
		return true, e.noteMute(l, 0)
	}
	end, err := e.logEnd(ctx, control)
	if end == 0 || err != nil {
		return false, e.startFailed(ctx, l, err)
	}
	return true, e.noteMute(l, end)
}

// awaitAnswer waits until the server answers, and is no standby any more.
func (e *Engine) awaitAnswer(ctx context.Context, l *life) error {
	err := e.until(ctx, func() (bool, error) {
		var recovers bool
		err := e.patiently(ctx, func() error {
			return e.askOnce(ctx, "SELECT pg_is_in_recovery()", &recovers)
		})
		return !recovers, err
	})
	err = e.startFailed(ctx, l, err)
	l.output.noteAnswer()
	return err
}

// startFailed returns why a server does not answer after its start, with what its log says about
// that; nil if it does.
func (e *Engine) startFailed(ctx context.Context, l *life, err error) error {
	switch {
	case err == nil:
		return nil
	case l.ctx.Err() != nil:
		<-l.exited
		return fmt.Errorf("%w: %s", errNotRunning, e.Observe().Problem)
	case ctx.Err() != nil:
		err = context.Cause(ctx) // The log says more than how the last session was refused.
	}
	return fmt.Errorf("%w: %s", err, l.output.last())
}

// silentProblem is what is reported of a standby that accepts no sessions although its data are
// consistent, while it is not known whether it is mute. Of a server before 15, and without
// pg_waldump, that never is.
const silentProblem = "accepts no sessions although its data are consistent: it still replays its log, or, where that begins, a " +
	"transaction with more than 64 subtransactions (savepoints, or PL/pgSQL blocks with EXCEPTION) was running: if this lasts, and " +
	"another instance is the primary, delete this one's volume and Pod after the end of that transaction"

// tellSilence reports that a starting standby accepts no sessions, once that has lasted for a while
// although its data are consistent, and the end of that.
func (e *Engine) tellSilence(l *life, isRefused bool) {
	at, isConsistent := l.output.consistent()
	isSilent := isRefused && isConsistent && time.Since(at) >= silentAfter
	switch problem := e.Observe().Problem; {
	case isSilent && problem == "":
		e.note(l, func(o *engine.Observation) { o.Problem = silentProblem })
	case !isSilent && problem == silentProblem:
		e.note(l, func(o *engine.Observation) { o.Problem = "" })
	}
}

// Resume implements [engine.Engine]. Clients can't connect until commits are known to wait for the
// rule.
func (e *Engine) Resume(ctx context.Context, rule election.Rule) error {
	kills, major, err := e.clean(ctx)
	if err != nil {
		return err
	}
	return e.resume(ctx, kills, major, rule)
}

// resume starts the server as the leader. After an error the server is killed.
func (e *Engine) resume(ctx context.Context, kills uint64, major int, rule election.Rule) error {
	if err := remove(e.Data, standbySignal); err != nil {
		return err
	}
	c := configuration{rule: rule, leads: true}
	if err := e.configure(major, c); err != nil {
		return err
	}
	l, err := e.launch(kills, major, c, election.Promoting)
	if err != nil {
		return err
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	err = e.awaitAnswer(ctx, l)
	if err == nil && !rule.WaitsForNobody() {
		err = e.proveFlag(ctx, l)
	}
	if err == nil {
		err = e.leadAgain(ctx, l)
	}
	if err != nil {
		e.Kill()
		return fmt.Errorf("restarting the server as the leader: %w", err)
	}
	return nil
}

// leadTimeout is how long a restarted server that answers may take until it leads: others do not
// stand meanwhile.
const leadTimeout = 30 * time.Second

// leadAgain lets a server that was restarted as the leader lead on its timeline.
func (e *Engine) leadAgain(ctx context.Context, l *life) error {
	ctx, stop := context.WithTimeoutCause(ctx, leadTimeout, errors.New("the server does not answer"))
	defer stop()
	timeline, err := e.ownTimeline(ctx)
	if err != nil {
		return err
	}
	return e.lead(ctx, l, timeline)
}

// ownTimeline returns the timeline on which the server writes.
func (e *Engine) ownTimeline(ctx context.Context) (uint32, error) {
	var file string
	if err := e.ask(ctx, "SELECT pg_walfile_name(pg_current_wal_insert_lsn())", &file); err != nil {
		return 0, err
	}
	timeline, err := strconv.ParseUint(fmt.Sprintf("%.8s", file), 16, 32)
	if err != nil {
		return 0, fmt.Errorf("the server writes %.40q, which names no timeline", file)
	}
	return uint32(timeline), nil
}

// lead lets members and clients connect to a server that was promoted, and begins to measure it.
func (e *Engine) lead(ctx context.Context, l *life, timeline uint32) error {
	e.release()
	history, err := e.history(timeline)
	if err != nil {
		return err
	}
	c := l.wrote
	c.leads, c.clients, c.source = true, true, nil
	if !e.isRaised(l) {
		c.needs = nil
	}
	if c.rule.WaitsForNobody() {
		e.setFlag(l, false)
	}
	if err := e.reload(ctx, l, c); err != nil {
		return err
	}
	e.note(l, func(o *engine.Observation) {
		o.Server.State, o.Server.Timeline, o.Server.History = election.Leading, timeline, history
		o.Server.Final, o.Server.Source, o.Connected, o.Lag = false, election.Source{}, false, 0
	})
	go e.watchLeader(l, timeline)
	go e.beat(l)
	l.resettle(e, c.rule)
	return nil
}

// Promote implements [engine.Engine].
func (e *Engine) Promote(ctx context.Context, timeline uint32) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if l.wrote.source != nil {
		return errors.New("promoting: the server still has a source")
	}
	if err := e.plant(timeline); err != nil {
		return err
	}
	isLowered, err := false, e.promote(ctx, l, timeline)
	if err == nil && e.isRaised(l) {
		isLowered, err = e.lower(ctx, l)
	}
	if err == nil && !isLowered {
		err = e.lead(ctx, l, timeline)
	}
	if err != nil {
		e.Kill()
		return fmt.Errorf("promoting to timeline %d: %w", timeline, err)
	}
	// Until a checkpoint, pg_control has the old timeline, which would mislead a member that rewinds
	// its data to these.
	go func() { _ = e.checkpoint(l.ctx) }()
	return nil
}

// promote promotes the server, and returns when it accepts writes. It fails if they are on another
// timeline. Of a server that was mute, it is known only then that it has the configuration, and
// that commits wait: until then, clients can't connect.
func (e *Engine) promote(ctx context.Context, l *life, timeline uint32) error {
	ctx, cancel := l.within(ctx)
	defer cancel()
	e.note(l, func(o *engine.Observation) { o.Server.State = election.Promoting })
	wasMute := e.staysMute(ctx, l)
	if err := e.requestPromotion(ctx, l, wasMute); err != nil {
		return err
	}
	if err := e.awaitAnswer(ctx, l); err != nil {
		return err
	}
	if wasMute {
		e.speaks(l)
		if err := e.seeFlag(ctx, l); err != nil {
			return err
		}
		if err := e.reload(ctx, l, l.wrote); err != nil {
			return err
		}
	}
	came, err := e.ownTimeline(ctx)
	if err == nil && came != timeline {
		err = fmt.Errorf("the server came up on timeline %d", came)
	}
	return err
}

// requestPromotion makes a standby promote itself. Commits of one that accepts sessions are known
// to wait before that.
func (e *Engine) requestPromotion(ctx context.Context, l *life, isMute bool) error {
	if isMute {
		return e.promoteMute(ctx, l)
	}
	e.mu.Lock()
	hasFlag := l.hasFlag
	e.mu.Unlock()
	if !hasFlag { // It was mute when it was started.
		if err := e.seeFlag(ctx, l); err != nil {
			return err
		}
	}
	// If an answer is lost, the server may be promoted when it is asked again.
	return e.ask(ctx, "SELECT CASE WHEN pg_is_in_recovery() THEN pg_promote(false) ELSE true END", new(bool))
}

// plant writes planted history files, so that the server's promotion takes the claimed timeline. It
// does not flush each of them, because there may be thousands, and the promotion has a limit: one
// that is empty after a crash of the node counts as planted, too.
func (e *Engine) plant(timeline uint32) error {
	files, err := historyFiles(e.Data)
	if err != nil {
		return err
	}
	own, err := e.followed()
	if err != nil {
		return err
	}
	missing, err := postgres.Numbers(files, own, timeline)
	if err != nil {
		return fmt.Errorf("claiming a timeline: %w", err)
	}
	for _, number := range missing {
		path := filepath.Join(e.Data, "pg_wal", postgres.HistoryName(number))
		if err := os.WriteFile(path+".new", []byte(postgres.Planted()), 0o600); err != nil {
			return fmt.Errorf("claiming a timeline: %w", err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			return fmt.Errorf("claiming a timeline: %w", err)
		}
	}
	return syncDirectory(filepath.Join(e.Data, "pg_wal"))
}

// checkpointTime is how long the checkpoint before a clean stop may take. What it has not written
// by then is written during the stop.
const checkpointTime = 3 * time.Second

// StopCleanly implements [engine.Engine].
func (e *Engine) StopCleanly(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	// What is written now need not be written during the shutdown, while clients can't write.
	checkpointing, stop := context.WithTimeout(ctx, checkpointTime)
	defer stop()
	_ = e.checkpoint(checkpointing)
	_ = e.drainPoolers(ctx)
	e.note(l, func(o *engine.Observation) { o.Server.State = election.StoppingCleanly })
	l.cancelSettling()
	if err := l.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-l.exited:
	case <-ctx.Done():
		e.Kill()
		return fmt.Errorf("stopping the server cleanly: %w", context.Cause(ctx))
	}
	data, err := e.Inspect()
	if err != nil {
		return err
	}
	if data.Position == "" {
		return errors.New("stopping the server cleanly: its control file does not say that it was shut down")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == nil {
		e.observed.Server.Clean, e.observed.Server.Position = true, data.Position
	}
	return nil
}
