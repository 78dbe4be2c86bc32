package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/supervise"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// reload makes the server use another configuration. It returns when a new session sees it: then
// the server's main process has it, and so does every process that it starts from now on. Whether
// processes that run already have it is unknown. A mute server says that in its log.
func (e *Engine) reload(ctx context.Context, l *life, c configuration) error {
	names, err := c.synchronous()
	if err != nil {
		return err
	}
	source, err := e.connection(c.source)
	if err != nil {
		return err
	}
	c.generation++
	if err := e.configure(l.major, c); err != nil {
		return err
	}
	l.wrote = c
	if e.isMute(l) {
		return e.reloadMute(ctx, l, c.generation)
	}
	sees := "SELECT current_setting('mainstay.generation') = " + quote(strconv.Itoa(c.generation)) +
		" AND current_setting('synchronous_standby_names') = " + quote(names)
	if l.major >= 13 {
		// Older servers read the source only when they start.
		sees += " AND current_setting('primary_conninfo') = " + quote(source)
	}
	return e.until(ctx, func() (bool, error) {
		if err := l.signal(syscall.SIGHUP); err != nil {
			return false, err
		}
		var is bool
		err := e.ask(ctx, sees, &is)
		return is, err
	})
}

// Reload implements [engine.Engine].
func (e *Engine) Reload(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if source := l.wrote.source; source != nil {
		if err := e.writeKeys(source.Term); err != nil {
			return err
		}
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	c := l.wrote
	if !c.leads {
		// Since the start, records may have been replayed by which a standby needs other values.
		control, err := readControl(e.Data)
		if err != nil {
			return err
		}
		c.needs = control.Needs()
	}
	err = e.reload(ctx, l, c)
	switch {
	case err != nil:
	case e.isMute(l):
		err = errors.New("the parameters can't be checked yet: the server " + muteProblem)
	default:
		err = e.judge(ctx, l)
	}
	if err != nil {
		return fmt.Errorf("letting the server use new certificates and parameters: %w", err)
	}
	return nil
}

// Follow implements [engine.Engine]. How long it takes to restart the server, if it has to, depends
// on the log that there is to replay.
func (e *Engine) Follow(ctx context.Context, from engine.Upstream) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if l.wrote.leads || l.wrote.source != nil {
		return errors.New("following: the server leads, or has a source")
	}
	unreached, err := e.unreached()
	if err != nil {
		return err
	}
	e.releaseOther(from.Leader)
	e.dropForeign(ctx, l)
	c := l.wrote
	c.source = &from
	source := election.Source{Leader: from.Leader, Term: from.Term}
	l.output.newSource()
	e.note(l, func(o *engine.Observation) { o.Server.Source, o.Server.Final, o.Server.LacksLog = source, false, false })
	if err := e.writeKeys(from.Term); err != nil {
		return err
	}
	if l.major < 13 || len(unreached) > 0 {
		return e.restart(ctx, l, c, unreached...)
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	ctx, stop := context.WithTimeoutCause(ctx, followTimeout, errors.New("the server does not answer"))
	defer stop()
	if err := e.reload(ctx, l, c); err != nil {
		return fmt.Errorf("following %s: %w", from.Leader.Name, err)
	}
	return nil
}

// Unfollow implements [engine.Engine].
func (e *Engine) Unfollow(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	// From here on no receiver can connect, whenever it starts, and whatever configuration it has.
	if err := e.removeKeys(); err != nil {
		return err
	}
	c := l.wrote
	c.source = nil
	if l.major < 13 || e.isMute(l) {
		return e.restart(ctx, l, c)
	}
	ctx, cancel := l.within(ctx)
	defer cancel()
	reloading, stop := context.WithTimeoutCause(ctx, unfollowTimeout, errors.New("the server does not answer"))
	defer stop()
	if err := e.reload(reloading, l, c); err != nil {
		return fmt.Errorf("removing the source: %w", err)
	}
	if err := e.endReceivers(ctx, l); err != nil {
		return err
	}
	if err := e.settlePosition(ctx, l); err != nil {
		return fmt.Errorf("finding the final position: %w", err)
	}
	return nil
}

// endReceivers ends every process that receives, and returns once two checks in a row have found
// none. It fails if that takes longer than receiverTimeout: then the server has to be killed.
func (e *Engine) endReceivers(ctx context.Context, l *life) error {
	ctx, cancel := context.WithTimeoutCause(ctx, receiverTimeout, errors.New("the WAL receiver does not end"))
	defer cancel()
	gone := 0
	return e.until(ctx, func() (bool, error) {
		receivers, maybeMore := l.receivers()
		for _, pid := range receivers {
			// It may have ended meanwhile.
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		if len(receivers) > 0 || maybeMore {
			gone = 0
			return false, l.ctx.Err()
		}
		gone++
		return gone >= 2, l.ctx.Err()
	})
}

// settlePosition waits until everything that was received is replayed, and notes the position as
// the final one. The server has unfollowTimeout to answer first; how long the replay takes depends
// on how much there is.
func (e *Engine) settlePosition(ctx context.Context, l *life) error {
	session, err := e.resumeReplay(ctx)
	if err != nil {
		return err
	}
	defer disconnect(session)
	history, err := e.followed()
	if err != nil {
		return err
	}
	look, patient := &standbyLook{}, e.Clock.Now().Add(readersTimeout)
	return e.until(ctx, func() (bool, error) {
		if err := look.take(ctx, session); err != nil {
			return false, err
		}
		if look.waits < 2 && e.Clock.Now().After(patient) {
			return false, endReaders(ctx, session)
		}
		if look.waits < 2 {
			return false, nil
		}
		position, err := look.position(history)
		if err != nil {
			return false, err
		}
		whole, err := look.whole(history)
		if err != nil {
			return false, err
		}
		e.note(l, func(o *engine.Observation) {
			o.Server.Source, o.Server.Position, o.Server.Whole, o.Server.Final = election.Source{}, position, whole, true
			o.Connected, o.Server.LacksLog = false, false
		})
		return true, nil
	})
}

// resumeReplay returns a session in which the replay was resumed: if a user has paused it, it would
// never end.
func (e *Engine) resumeReplay(ctx context.Context) (session *pgx.Conn, err error) {
	ctx, stop := context.WithTimeoutCause(ctx, unfollowTimeout, errors.New("the server does not answer"))
	defer stop()
	err = e.patiently(ctx, func() error {
		made, err := e.connect(ctx)
		if err != nil {
			return err
		}
		if _, err := made.Exec(ctx, "SELECT pg_wal_replay_resume()"); err != nil {
			disconnect(made)
			return fmt.Errorf("resuming the replay: %w", err)
		}
		session = made
		return nil
	})
	return session, err
}

// readersTimeout is how long queries may delay the replay while an election waits for it; then
// their sessions are ended. The limit max_standby_streaming_delay is not enough: a replay that
// waits for queries already gets its new value only when that wait ends.
const readersTimeout = 300 * time.Millisecond

// endReaders ends the sessions of clients that are not idle.
func endReaders(ctx context.Context, session *pgx.Conn) error {
	_, err := session.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"+
		" WHERE backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()")
	if err != nil {
		return fmt.Errorf("ending the sessions that delay the replay: %w", err)
	}
	return nil
}

// unreached returns the names of the history files of timelines on which we have no data: of a
// promotion of ours that was killed before it wrote anything, or of a leader from which we received
// nothing else. A server that has read such a file follows that timeline, and no other, until it is
// started without the file.
func (e *Engine) unreached() ([]string, error) {
	server := e.server()
	if !server.Final {
		return nil, errors.New("following: the end of the data is unknown")
	}
	files, err := historyFiles(e.Data)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, number := range postgres.Above(files, server.Position) {
		names = append(names, postgres.HistoryName(number))
	}
	return names, nil
}

// restart stops a standby, removes the history files unreached, and starts it with another
// configuration.
func (e *Engine) restart(ctx context.Context, l *life, c configuration, unreached ...string) error {
	before, began := e.server(), e.Supervisor.Kills()
	stop, cancel := context.WithTimeout(ctx, standbyStopTimeout)
	defer cancel()
	if err := l.signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-l.exited:
	case <-stop.Done():
	}
	kills := e.kill()
	if kills != began+1 {
		return supervise.ErrKilled
	}
	<-l.exited
	if err := remove(filepath.Join(e.Data, "pg_wal"), unreached...); err != nil {
		return err
	}
	if err := e.startStandby(ctx, kills, l.major, c); err != nil {
		return err
	}
	next, err := e.current()
	if err != nil {
		return err
	}
	if c.source != nil {
		e.note(next, func(o *engine.Observation) {
			o.Server.Source = before.Source
			o.Server.Position = cmp.Or(o.Server.Position, before.Position) // It was final, so it is on the disk.
		})
		return nil
	}
	if e.isMute(next) {
		return nil // Its position is final since the start.
	}
	return e.settlePosition(ctx, next)
}

// followTimeout is how long a standby may take to reload with a source.
const followTimeout = 30 * time.Second

// receiverTimeout is how long a process that receives may take to end.
const receiverTimeout = 3 * time.Second

// standbyStopTimeout is how long a standby may take to stop by itself before it is killed.
const standbyStopTimeout = 5 * time.Second

// unfollowTimeout is how long a standby may take to reload without a source, and then to answer. An
// election may wait for it, but a standby that is only slow would be slower after a kill: it has to
// recover.
const unfollowTimeout = 15 * time.Second
