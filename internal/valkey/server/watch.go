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
	// noteEvery is how often the end of the data is noted.
	noteEvery = time.Second
	// fresh is how many seconds ago a member that receives has said so, at most: it does each second.
	fresh = 2
	// nearBytes is how far a member that is about to have all is behind what was written until lately:
	// that it says once a second what it has must not count against it, however much is written in a
	// second.
	nearBytes = 1 << 20
	lately    = 2 * time.Second
)

// watch measures a server until it ends.
func (e *Engine) watch(l *life) {
	noted := e.Clock.Now()
	for e.pause(l.ctx, watchEvery) == nil {
		_ = e.measure(l.ctx, l) // A server that does not answer is seen by that.
		if e.Clock.Since(noted) >= noteEvery && e.storing.CompareAndSwap(0, e.Clock.Now().UnixNano()) {
			noted = e.Clock.Now()
			// A disk that does not answer must not keep the server from being measured.
			go func() {
				defer e.storing.Store(0)
				e.store(l)
			}()
		}
	}
}

// measure asks the server where it is, and notes since when it has not answered.
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
	if before.Server.Final != o.Server.Final || before.Server.LacksLog != o.Server.LacksLog || before.Connected != o.Connected ||
		before.Refuses != o.Refuses || before.Unreplicated != o.Unreplicated || len(before.Receivers) != len(o.Receivers) {
		e.tell()
	}
	return nil
}

// measured is what a server has said.
type measured struct {
	text        string
	replication model.Replication
	position    election.Position
	// isKnown is true if the position follows from the server's id and offset.
	isKnown bool
	at      time.Time
}

// found changes what is observed of the server after it has answered. The caller has locked.
func (e *Engine) found(l *life, m measured) {
	lacks, problem := l.relay.state()
	stored := model.ParsePersistence(m.text)
	o := &e.observed
	o.Refuses = ""
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
			e.release()
		}
	case election.Leading:
		if m.isKnown {
			o.Server.Position = m.position
		}
		o.Receivers, o.ReceiversAt = receivers(m.replication, l.writtenUntil(m.at.Add(-lately), m), m.at), m.at
		o.Unreplicated = e.unreplicated(l, m)
		o.Refuses = m.replication.Refuses(stored, e.users["min-replicas-to-write"])
	}
	if e.failing = ""; l.persists {
		e.failing = stored.Problem()
	}
}

// calmAfter is how long a server must have been less behind before that is said: otherwise each
// wave of writes would be two reports.
const calmAfter = time.Minute

// unreplicated returns Observation.Unreplicated of a server that leads: more at once, less after a
// while. The caller has locked.
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

// noteBusy notes that the server answers, but nothing else than that a script runs: it is alive,
// and as slow as its clients want it.
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

// written is the end of what a server that leads had written at a time.
type written struct {
	at     time.Time
	offset int64
}

// writtenUntil returns the end of what the server had written at a time, or when it was measured
// first after that, and notes what was measured now. The caller has locked.
func (l *life) writtenUntil(then time.Time, m measured) int64 {
	l.writes = append(l.writes, written{m.at, m.replication.Offset})
	l.writes = slices.DeleteFunc(l.writes, func(w written) bool { return w.at.Before(then) })
	return l.writes[0].offset
}

// receivers are the members that receive. One that has all up to the end is near.
func receivers(replication model.Replication, end int64, at time.Time) []engine.Receiver {
	var found []engine.Receiver
	for _, replica := range replication.Replicas {
		if replica.Online && replica.Age <= fresh {
			found = append(found, engine.Receiver{
				Member: replica.Member, FlushedAt: at, Near: replica.Offset+nearBytes >= end,
			})
		}
	}
	slices.SortFunc(found, func(a, b engine.Receiver) int { return strings.Compare(a.Member.Name, b.Member.Name) })
	return found
}

// store notes the end of the data, once the server stores them by itself, and removes what they
// began with.
func (e *Engine) store(l *life) {
	e.mu.Lock()
	isCurrent, stored, position := e.life == l, l.stored, e.observed.Server.Position
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
		l.stored = true
		e.mu.Unlock()
	}
	e.noteEnd(l, position)
}

// noteEnd notes the end of the data for a server that will have loaded them.
func (e *Engine) noteEnd(l *life, position election.Position) {
	e.mu.Lock()
	isDue := l.stored && position != l.noted && position != ""
	l.noted = position
	e.mu.Unlock()
	if isDue {
		_ = writeEnd(e.Data, position) // Less is known then.
	}
}
