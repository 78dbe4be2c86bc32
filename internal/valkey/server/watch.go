package server

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	model "github.com/mainstay-platform/mainstay/internal/valkey"
)

const (
	// watchEvery is how often a server is measured.
	watchEvery = 200 * time.Millisecond
	// silentAfter is for how long a standby may answer nothing before it no longer counts as one that
	// receives.
	silentAfter = 10 * time.Second
	// noteEvery is how often the end of the data is noted.
	noteEvery = time.Second
	// maxReportAge is how many seconds old the last report of a replica may be for it to count as
	// receiving. A replica reports once a second.
	maxReportAge = 2
	// A replica is near, which means that it is about to have everything, if it is at most nearBytes
	// behind what the server had written nearDelay ago. The delay makes up for the age of its report:
	// otherwise no replica would be near while the server writes more than nearBytes a second.
	nearBytes = 1 << 20
	nearDelay = 2 * time.Second
)

// watch measures a server every watchEvery until it ends, and stores the end of its data every
// noteEvery. Until the server stores its data, it looks each time: a replica is not ready before.
func (e *Engine) watch(l *life) {
	noted := e.Clock.Now()
	for e.pause(l.ctx, watchEvery) == nil {
		_ = e.measure(l.ctx, l) // It notes itself since when the server has not answered.
		e.rewriteAgain(l)
		if e.Clock.Since(noted) < noteEvery && !e.isUnstored(l) {
			continue
		}
		if now := e.Clock.Now(); e.storing.CompareAndSwap(nil, &now) {
			noted = now
			// A disk that does not answer must not keep the server from being measured.
			go func() {
				defer e.storing.Store(nil)
				e.store(l)
			}()
		}
	}
}

// measure asks the server for the end of its data and the state of its replication, and notes both,
// or since when it has not answered.
func (e *Engine) measure(ctx context.Context, l *life) error {
	e.mu.Lock()
	if e.life == l && e.asked.IsZero() {
		e.asked = e.Clock.Now()
	}
	e.mu.Unlock()
	text, err := l.do(ctx, "INFO", "replication", "persistence")
	if isBusy(err) {
		e.noteBusy(l)
	}
	if err != nil {
		return err
	}
	replication, err := parseReplication(text)
	if err != nil {
		return err
	}
	position, known := e.locate(replication)
	if !known && !replication.Leads {
		position = l.loaded
		if position == "" { // Data that never had a leader.
			position = model.Position(1, 0)
		}
	}
	at := e.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return errNotRunning
	}
	e.asked, e.busy = time.Time{}, ""
	if l.parked {
		return nil
	}
	before := e.observed
	e.found(l, measured{text, replication, position, known, at})
	o := &e.observed
	if before.Server.Final != o.Server.Final || before.Server.LacksLog != o.Server.LacksLog || before.Server.Unstored != o.Server.Unstored ||
		before.Connected != o.Connected || before.Refuses != o.Refuses || before.Unreplicated != o.Unreplicated ||
		len(before.Receivers) != len(o.Receivers) {
		e.tell()
	}
	return nil
}

// measureSoon does so until it succeeds: see patiently.
func (e *Engine) measureSoon(ctx context.Context, l *life) error {
	return e.patiently(ctx, l, func(ctx context.Context) error { return e.measure(ctx, l) })
}

// measured is an answer of a server, and what follows from it.
type measured struct {
	text        string
	replication model.Replication
	position    election.Position
	// isKnown is true if the position follows from the server's id and offset.
	isKnown bool
	at      time.Time
}

// found updates e.observed after the server has answered. The caller holds e.mu.
func (e *Engine) found(l *life, m measured) {
	lacks, problem := l.relay.state()
	stored := model.ParsePersistence(m.text)
	o := &e.observed
	o.Refuses, o.Server.Unstored = "", l.persists && !l.stored
	switch o.Server.State {
	case election.Standby:
		o.Server.Position = m.position
		o.Connected = m.replication.Connected && o.Server.Source != (election.Source{})
		o.Server.Final = o.Server.Source == (election.Source{}) && !m.replication.Connected && l.relay.receives() == 0
		o.Server.LacksLog = lacks && o.Server.Source != (election.Source{})
		o.Problem = ""
		if o.Server.Source != (election.Source{}) && !o.Connected && problem != "" {
			o.Problem = "receives nothing from " + o.Server.Source.Leader.Name + ": " + problem
		}
		if o.Connected {
			l.isCopy = false
			e.release()
		}
	case election.Leading:
		if m.isKnown {
			o.Server.Position = m.position
		}
		o.Receivers, o.ReceiversAt = receivers(m.replication, l.writtenUntil(m.at.Add(-nearDelay), m), m.at), m.at
		o.Unreplicated = e.unreplicated(l, m)
		o.Refuses = m.replication.Refuses(stored, e.users["min-replicas-to-write"])
	}
	e.failing = l.storeProblem(stored, m.at)
}

const (
	// unstoredLate is after how long a server that does not store its data yet says so. An empty one
	// stores them after some tenths of a second.
	unstoredLate = 10 * time.Second
	// rewriteEvery is how often a server that has failed to write its first append-only file is asked
	// to try again. By itself it tries after ever longer pauses, of up to an hour.
	rewriteEvery = time.Minute
)

// storeProblem returns what keeps a server that should persist from storing its data; "" if nothing
// does. The caller holds Engine.mu.
func (l *life) storeProblem(stored model.Persistence, at time.Time) string {
	if !l.persists {
		return ""
	}
	problem := stored.Problem()
	if l.stored {
		l.unstoredAt, l.isFailing = time.Time{}, false
		return problem
	}
	if l.unstoredAt.IsZero() {
		l.unstoredAt = at
	}
	if l.isFailing = stored.RewriteFailed; !l.isFailing {
		l.rewriteAt = at
	}
	if problem == "" && at.Sub(l.unstoredAt) >= unstoredLate {
		problem = "the server is still writing its first append-only file"
	}
	if problem != "" {
		problem = "its data are not stored yet: " + problem
	}
	return problem
}

// rewriteAgain asks a server to write its first append-only file if that is due. Whether it hangs
// is for measure to find out.
func (e *Engine) rewriteAgain(l *life) {
	if !e.isRewriteDue(l) {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, time.Second)
	defer cancel()
	_, _ = l.do(ctx, "BGREWRITEAOF") // An error says that one is in progress, or that it can't begin.
}

// isRewriteDue reports whether a server should be asked to write its first append-only file, and
// notes that it is.
func (e *Engine) isRewriteDue(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Clock.Now()
	if e.life != l || !l.isFailing || now.Sub(l.rewriteAt) < rewriteEvery {
		return false
	}
	l.rewriteAt = now
	return true
}

// isUnstored reports whether a server should persist, and does not store its data yet.
func (e *Engine) isUnstored(l *life) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return l.persists && !l.stored
}

// calmAfter is how long the class of unreplicated bytes must have been lower before the lower one
// is reported. Otherwise each wave of writes would cause two reports.
const calmAfter = time.Minute

// unreplicated returns Observation.Unreplicated of a server that leads. A higher class is reported
// at once, a lower one after calmAfter. The caller holds e.mu.
func (e *Engine) unreplicated(l *life, m measured) int64 {
	bytes, known := m.replication.Unreplicated()
	switch class := model.LagClass(bytes); {
	case !known:
		l.behind = 0
	case class >= l.behind:
		l.behind, l.behindAt = class, m.at
	case m.at.Sub(l.behindAt) >= calmAfter:
		l.behind, l.behindAt = class, m.at
	}
	return l.behind
}

// noteBusy notes that the server answers every command with BUSY, because a script or function of a
// client runs. It is alive: this is no reason to replace it.
func (e *Engine) noteBusy(l *life) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == l {
		e.asked = time.Time{}
		e.busy = "the server answers nothing while it runs a script or a function of a client: end it with SCRIPT KILL or FUNCTION KILL, or, " +
			"if it has written, by deleting the pod"
		if e.observed.Server.State == election.Leading {
			e.observed.Refuses = e.busy
		}
		e.tell()
	}
}

// written is how far a leader had written at a time.
type written struct {
	at     time.Time
	offset int64
}

// writtenUntil adds the measurement m, and returns how far the server had written at the first
// measurement at or after then. It forgets earlier ones. The caller holds e.mu.
func (l *life) writtenUntil(then time.Time, m measured) int64 {
	l.writes = append(l.writes, written{m.at, m.replication.Offset})
	l.writes = slices.DeleteFunc(l.writes, func(w written) bool { return w.at.Before(then) })
	return l.writes[0].offset
}

// receivers returns the replicas that are online and have reported within the last maxReportAge
// seconds, in the order of their names. Near is set if a replica is at most nearBytes behind end,
// which is what the server had written nearDelay ago.
func receivers(replication model.Replication, end int64, at time.Time) []engine.Receiver {
	var found []engine.Receiver
	for _, replica := range replication.Replicas {
		if replica.Online && replica.Age <= maxReportAge {
			found = append(found, engine.Receiver{
				Member: replica.Member, FlushedAt: at, Near: replica.Offset+nearBytes >= end,
			})
		}
	}
	slices.SortFunc(found, func(a, b engine.Receiver) int { return strings.Compare(a.Member.Name, b.Member.Name) })
	return found
}

// store removes the snapshot with which the data began, once the server has its own append-only
// file, and from then on notes the end of the data. It does nothing if the server should not
// persist.
func (e *Engine) store(l *life) {
	e.mu.Lock()
	isCurrent, stored := e.life == l, l.stored
	e.mu.Unlock()
	if !isCurrent || !l.persists || !stored && !isStored(e.Data) {
		return
	}
	if !stored {
		err := e.changeState(l, func(state *model.State) error {
			state.Fresh, state.Version = false, e.programs
			return nil
		})
		if err != nil || remove(filepath.Join(e.Data, model.Dump)) != nil {
			return
		}
		e.mu.Lock()
		if l.stored = true; e.life == l {
			e.observed.Server.Unstored = false
			e.tell()
		}
		e.mu.Unlock()
	}
	e.noteEnd(l)
}

// noteEnd writes the end of the data of a server that runs to a file, for the next server that
// loads them, if it has changed. What was observed last counts: of a parked leader that is its
// final end.
func (e *Engine) noteEnd(l *life) {
	e.ends.Lock()
	defer e.ends.Unlock()
	e.mu.Lock()
	isCurrent, position := e.life == l, e.observed.Server.Position
	e.mu.Unlock()
	if isCurrent {
		e.writeEnd(l, position)
	}
}

// noteFinalEnd writes the end of the data of a leader that is parked, even if its server has ended
// since.
func (e *Engine) noteFinalEnd(l *life, position election.Position) {
	e.ends.Lock()
	defer e.ends.Unlock()
	e.writeEnd(l, position)
}

// writeEnd writes an end to the file, unless it is there. The caller holds e.ends, so that no older
// one follows.
func (e *Engine) writeEnd(l *life, position election.Position) {
	e.mu.Lock()
	isDue := l.stored && position != l.noted && position != ""
	e.mu.Unlock()
	if !isDue || writeEnd(e.Data, position) != nil { // Without it, less is known after a restart.
		return
	}
	e.mu.Lock()
	l.noted = position
	e.mu.Unlock()
}
