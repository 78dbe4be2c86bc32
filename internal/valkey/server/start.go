package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

// Start implements [engine.Engine]. A parked server, a leader that was stopped cleanly, goes on as
// a standby in the same process.
func (e *Engine) Start(ctx context.Context) error {
	if l := e.unpark(); l != nil {
		e.endStreams(l)
		e.disconnectClients(ctx, l)
		return e.measureSoon(ctx, l)
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

// unpark turns a parked server into a standby, and returns its life; nil if no server is parked.
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

// begin creates the application's user in a new server, and begins to measure the server. After an
// error the server is killed.
func (e *Engine) begin(ctx context.Context, l *life) error {
	if err := e.patiently(ctx, l, func(ctx context.Context) error { return e.provideAgain(ctx, l) }); err != nil {
		e.Kill()
		return fmt.Errorf("giving the application its user: %w", err)
	}
	if err := e.measureSoon(ctx, l); err != nil {
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

// tellLoss reports for a while what a server lacks that leads from now on.
func (e *Engine) tellLoss(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !l.isCopy {
		return
	}
	l.isCopy = false
	e.loss = "its server had no append-only file: the writes since its last snapshot are lost, or, without one, all data"
	e.lostAt = e.Clock.Now()
	e.tell()
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

// While a server changes its role, writes are paused for at most pauseTime. If the change takes
// longer than changeTime, the server is killed, even if our program waits for a disk that hangs: so
// writes never go on in the middle of a change. If our program ends in between, so does the server.
const (
	pauseTime  = 60 * time.Second
	changeTime = 20 * time.Second
)

// pauseWrites makes the server delay writes, until CLIENT UNPAUSE or for pauseTime.
func (e *Engine) pauseWrites(ctx context.Context, l *life) error {
	_, err := e.insist(ctx, l, "CLIENT", "PAUSE", strconv.FormatInt(pauseTime.Milliseconds(), 10), "WRITE")
	return err
}

// errTooLong is why a server is killed whose change of role takes longer than changeTime.
var errTooLong = fmt.Errorf("it took longer than %s", changeTime)

// inTime calls change, which changes the role of the server, and kills the server if change fails.
// If ctx ends, or change takes longer than changeTime, it kills the server at once, without waiting
// until change returns.
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

// end kills the server, if l is still the current life.
func (e *Engine) end(l *life) {
	if now, err := e.current(); err == nil && now == l {
		e.Kill()
	}
}

// lead makes a standby the leader on a timeline. Writes wait until that is part of the stored state
// of the data.
func (e *Engine) lead(ctx context.Context, l *life, timeline uint32) error {
	err := e.inTime(ctx, l, func(ctx context.Context) error { return e.promote(ctx, l, timeline) })
	if err != nil {
		return fmt.Errorf("promoting to timeline %d: %w", timeline, err)
	}
	e.tellLoss(l)
	return nil
}

// promote pauses writes, makes the server a leader, stores its new history, and lets writes go on.
// It repeats commands whose answers are lost: one that the server has carried out already changes
// nothing more, because a leader to which REPLICAOF NO ONE is sent keeps its replication ID.
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
		err := state.Promote(from, timeline, replication.ID, replication.Offset)
		lines = state.Lines
		return err
	})
	if err != nil {
		return err
	}
	position, _ := lines.Locate(replication.ID, replication.Offset)
	if _, err := e.insist(ctx, l, "CLIENT", "UNPAUSE"); err != nil {
		return err
	}
	e.note(l, func(o *engine.Observation) {
		o.Server.State, o.Server.Timeline, o.Server.History, o.Server.Position = election.Leading, timeline, lines.History(), position
		o.Server.Settled, o.Server.Committed = true, true
		o.Server.Final, o.Server.Source, o.Connected, o.Lag = false, election.Source{}, false, 0
	})
	return nil
}

// keepWrites makes a leader keep what it writes, for members that were away, and returns the state
// of its replication from then on. A server that was never a replica and never had one keeps
// nothing: it begins when the first replica connects, and then gets another replication ID. So this
// program connects as a replica for a moment.
func (e *Engine) keepWrites(ctx context.Context, l *life) (model.Replication, error) {
	replication, err := e.replicates(ctx, l)
	if err != nil || replication.Backlog {
		return replication, err
	}
	// So that the server does not begin a snapshot for this connection.
	if _, err := e.insist(ctx, l, "CONFIG", "SET", "repl-diskless-sync-delay", "60"); err != nil {
		return replication, err
	}
	var first net.Conn
	err = e.patiently(ctx, l, func(ctx context.Context) (err error) {
		first, err = e.firstReplica(ctx, l)
		return err
	})
	if err != nil {
		return replication, err
	}
	defer func() { _ = first.Close() }()
	err = e.until(ctx, func() (bool, error) {
		replication, err = e.replicates(ctx, l)
		return replication.Backlog, err
	})
	if err == nil {
		_ = first.Close()
		_, err = e.insist(ctx, l, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
	}
	return replication, err
}

// firstReplica connects to our server as a replica that asks for all data. The answer would be a
// snapshot, which is not read.
func (e *Engine) firstReplica(ctx context.Context, l *life) (net.Conn, error) {
	connection, err := e.replicaConnection(ctx, l, election.Member{})
	if err != nil {
		return nil, err
	}
	err = tell(connection, "REPLCONF", "capa", "eof", "capa", "psync2")
	if err == nil {
		_, err = connection.Write(model.Command("PSYNC", "?", "-1"))
	}
	if err != nil {
		_ = connection.Close()
		return nil, fmt.Errorf("connecting as a replica: %w", err)
	}
	return connection, nil
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

// park turns a leader into a standby without a source, in the same process, and notes the end of
// its data.
func (e *Engine) park(ctx context.Context, l *life) error {
	if err := e.pauseWrites(ctx, l); err != nil {
		return err
	}
	l.relay.set(nil)
	if _, err := e.insist(ctx, l, "REPLICAOF", "127.0.0.1", strconv.Itoa(l.relay.port)); err != nil {
		return err
	}
	replication, err := e.replicates(ctx, l)
	if err != nil {
		return err
	}
	position, known := e.locate(replication)
	if replication.Leads || !known {
		return errors.New("the server does not say where its data end")
	}
	e.awaitStored(ctx, l)
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
	e.noteFinalEnd(l, position)
	e.disconnectClients(ctx, l)
	_, err = e.insist(ctx, l, "CLIENT", "UNPAUSE")
	return err
}

// storeTime is how long a leader that is stopped cleanly may take to write its append-only file. It
// has to leave time for the rest of the stop, which the election limits to ten seconds, and to what
// spec.failover.after leaves since the Lease was renewed last.
const storeTime = 3 * time.Second

// awaitStored waits, for at most storeTime, until the server has written what it has acknowledged
// to its append-only file: our program may kill it next. While a slow disk flushes, a server puts
// that off for two seconds. If another member is about to have everything, that takes over instead,
// and clients need not wait for the disk.
func (e *Engine) awaitStored(ctx context.Context, l *life) {
	e.mu.Lock()
	isElsewhere := slices.ContainsFunc(e.observed.Receivers, func(r engine.Receiver) bool { return r.Near })
	e.mu.Unlock()
	if !l.persists || isElsewhere {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer e.unless(storeTime, cancel)()
	_ = e.until(ctx, func() (bool, error) { // What can't be stored in time must not keep the server from stopping.
		text, err := l.do(ctx, "INFO", "persistence")
		stored := model.ParsePersistence(text)
		return err == nil && (stored.Unwritten == 0 || stored.AppendFailed), nil
	})
}

// disconnectClients ends the connections of clients, so that they reconnect to the new leader.
func (e *Engine) disconnectClients(ctx context.Context, l *life) {
	for _, kind := range []string{"normal", "pubsub"} {
		_, _ = l.do(ctx, "CLIENT", "KILL", "TYPE", kind) // If it fails, clients notice that writes are refused.
	}
}
