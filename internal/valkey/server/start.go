package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Start implements [engine.Engine]. A leader that was stopped cleanly goes on as a standby in the
// same process.
func (e *Engine) Start(ctx context.Context) error {
	if l := e.unpark(); l != nil {
		e.endStreams(l)
		e.disconnectClients(ctx, l)
		return e.measure(ctx, l)
	}
	kills, state, err := e.clean(ctx)
	if err != nil {
		return err
	}
	l, err := e.launch(ctx, kills, state)
	if err != nil {
		return fmt.Errorf("starting the server as a standby: %w", err)
	}
	return e.begin(ctx, l)
}

// unpark makes a parked server a standby; nil if there is none.
func (e *Engine) unpark() *life {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.life
	if l == nil || !l.parked {
		return nil
	}
	l.parked = false
	position := e.observed.Server.Position
	e.observed = engine.Observation{Server: election.Server{State: election.Standby, Position: position, Final: true}}
	e.tell()
	return l
}

// begin gives a new server what it needs besides its data, and begins to measure it.
func (e *Engine) begin(ctx context.Context, l *life) error {
	if err := e.provideAgain(ctx, l); err != nil {
		e.Kill()
		return fmt.Errorf("giving the application its user: %w", err)
	}
	if err := e.measure(ctx, l); err != nil {
		e.Kill()
		return err
	}
	go e.watch(l)
	return nil
}

// Resume implements [engine.Engine].
func (e *Engine) Resume(ctx context.Context, rule election.Rule) error {
	kills, state, err := e.clean(ctx)
	if err != nil {
		return err
	}
	if len(state.Lines) == 0 {
		return errors.New("resuming: the data never had a leader")
	}
	l, err := e.launch(ctx, kills, state)
	if err != nil {
		return fmt.Errorf("restarting the server: %w", err)
	}
	if err := e.begin(ctx, l); err != nil {
		return err
	}
	if err := e.SetRule(ctx, rule); err != nil {
		e.Kill()
		return err
	}
	return e.lead(ctx, l, state.Lines.Last().Timeline)
}

// Promote implements [engine.Engine].
func (e *Engine) Promote(ctx context.Context, timeline uint32) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if source, _ := l.relay.current(); source != nil || !e.server().Final {
		return errors.New("promoting: the server has a source, or the end of its data is unknown")
	}
	return e.lead(ctx, l, timeline)
}

// Writes wait for at most pauseTime while a server changes its role. If that takes longer than
// changeTime, the server is killed, even if our program waits for a disk that takes nothing: so
// writes never go on half-way. If our program ends in between, so does the server.
const (
	pauseTime  = 60 * time.Second
	changeTime = 20 * time.Second
)

// pauseWrites lets writes wait.
func (e *Engine) pauseWrites(ctx context.Context, l *life) error {
	_, err := e.insist(ctx, l, "CLIENT", "PAUSE", strconv.FormatInt(pauseTime.Milliseconds(), 10), "WRITE")
	return err
}

// errTooLong is why a server is killed that changes its role.
var errTooLong = fmt.Errorf("it took longer than %s", changeTime)

// inTime carries out a change of the server's role, and kills the server if that fails, is aborted,
// or takes too long, without waiting for it.
func (e *Engine) inTime(ctx context.Context, l *life, change func(context.Context) error) error {
	ctx, cancel := l.within(ctx)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	done := e.unless(changeTime, func() { abort(errTooLong) })
	defer done()
	stop := context.AfterFunc(ctx, func() { e.end(l) })
	err := change(ctx)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		e.end(l)
	}
	return err
}

// end kills the server, if the life is still its.
func (e *Engine) end(l *life) {
	if now, err := e.current(); err == nil && now == l {
		e.Kill()
	}
}

// lead lets a standby lead on a timeline. Writes wait until that is part of the state of the data.
func (e *Engine) lead(ctx context.Context, l *life, timeline uint32) error {
	err := e.inTime(ctx, l, func(ctx context.Context) error { return e.promote(ctx, l, timeline) })
	if err != nil {
		return fmt.Errorf("promoting to timeline %d: %w", timeline, err)
	}
	return nil
}

func (e *Engine) promote(ctx context.Context, l *life, timeline uint32) error {
	if err := e.pauseWrites(ctx, l); err != nil {
		return err
	}
	from := e.server().Position
	e.note(l, func(o *engine.Observation) { o.Server.State = election.Promoting })
	if _, err := e.insist(ctx, l, "REPLICAOF", "NO", "ONE"); err != nil {
		return err
	}
	replication, err := e.keepWrites(ctx, l)
	if err != nil {
		return err
	}
	if !replication.Leads {
		return errors.New("the server does not lead after its promotion")
	}
	var lines model.Lines
	err = e.changeState(l, func(state *model.State) error {
		lines, err = state.Lines.Promoted(from, timeline, replication.ID, replication.Offset)
		state.Lines = lines
		return err
	})
	if err != nil {
		return err
	}
	position, _ := lines.Locate(replication.ID, replication.Offset)
	if _, err := l.do(ctx, "CLIENT", "UNPAUSE"); err != nil {
		return err
	}
	e.note(l, func(o *engine.Observation) {
		o.Server.State, o.Server.Timeline, o.Server.History, o.Server.Position = election.Leading, timeline, lines.History(), position
		o.Server.Settled, o.Server.Committed = true, true
		o.Server.Final, o.Server.Source, o.Connected, o.Lag = false, election.Source{}, false, 0
	})
	return nil
}

// keepWrites lets a leader keep what it writes for members that were away. A server that never had
// a replica, and was none, begins to do so when the first one comes, and then has another
// replication id. It returns how the server replicates from then on.
func (e *Engine) keepWrites(ctx context.Context, l *life) (model.Replication, error) {
	replication, err := l.replicates(ctx)
	if err != nil || replication.Backlog {
		return replication, err
	}
	// So that no snapshot begins for the replica that we are for a moment.
	if _, err := l.do(ctx, "CONFIG", "SET", "repl-diskless-sync-delay", "60"); err != nil {
		return replication, err
	}
	first, err := e.replicaConnection(ctx, l, election.Member{})
	if err != nil {
		return replication, err
	}
	defer func() { _ = first.Close() }()
	if err := tell(first, "REPLCONF", "capa", "eof", "capa", "psync2"); err != nil {
		return replication, err
	}
	// Its answer is a snapshot, for which nobody waits.
	if _, err := first.Write(model.Command("PSYNC", "?", "-1")); err != nil {
		return replication, fmt.Errorf("connecting as a replica: %w", err)
	}
	err = e.until(ctx, func() (bool, error) {
		replication, err = l.replicates(ctx)
		return replication.Backlog, err
	})
	if err == nil {
		_ = first.Close()
		_, err = l.do(ctx, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	}
	return replication, err
}

// StopCleanly implements [engine.Engine]. Members go on receiving until the server is started again
// or killed.
func (e *Engine) StopCleanly(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	e.note(l, func(o *engine.Observation) { o.Server.State = election.StoppingCleanly })
	if err := e.inTime(ctx, l, func(ctx context.Context) error { return e.park(ctx, l) }); err != nil {
		return fmt.Errorf("stopping the server cleanly: %w", err)
	}
	return nil
}

// park makes a leader a standby without a source, and notes the end of its data.
func (e *Engine) park(ctx context.Context, l *life) error {
	if err := e.pauseWrites(ctx, l); err != nil {
		return err
	}
	l.relay.set(nil)
	if _, err := e.insist(ctx, l, "REPLICAOF", "127.0.0.1", strconv.Itoa(l.relay.port)); err != nil {
		return err
	}
	replication, err := l.replicates(ctx)
	if err != nil {
		return err
	}
	position, known := e.locate(replication)
	if replication.Leads || !known {
		return errors.New("the server does not say where its data end")
	}
	e.mu.Lock()
	isCurrent := e.life == l
	if isCurrent {
		l.parked = true
		rule := e.observed.Server.Rule
		e.observed = engine.Observation{Server: election.Server{State: election.Stopped, Clean: true, Position: position, Rule: rule}}
		e.tell()
	}
	e.mu.Unlock()
	if !isCurrent {
		return errNotRunning
	}
	e.noteEnd(l, position)
	e.disconnectClients(ctx, l)
	_, err = l.do(ctx, "CLIENT", "UNPAUSE")
	return err
}

// disconnectClients ends the connections of clients, so that they look again for the leader.
func (e *Engine) disconnectClients(ctx context.Context, l *life) {
	for _, kind := range []string{"normal", "pubsub"} {
		_, _ = l.do(ctx, "CLIENT", "KILL", "TYPE", kind) // Without it, they see that writes are refused.
	}
}
