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
	// nearBytes is how far a member that is about to have all is behind.
	nearBytes = 1 << 20
)

// watch measures a server until it ends.
func (e *Engine) watch(l *life) {
	noted := e.Clock.Now()
	for e.pause(l.ctx, watchEvery) == nil {
		_ = e.measure(l.ctx, l) // A server that does not answer is seen by that.
		if e.Clock.Since(noted) >= noteEvery {
			noted = e.Clock.Now()
			e.store(l)
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
	replication, err := l.replicates(ctx)
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
	lacks, problem := l.relay.state()
	at := e.Clock.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return errNotRunning
	}
	e.asked = time.Time{}
	if l.parked {
		return nil
	}
	before := e.observed
	o := &e.observed
	switch o.Server.State {
	case election.Standby:
		o.Server.Position = position
		o.Connected = replication.Connected && o.Server.Source != (election.Source{})
		o.Server.Final = o.Server.Source == (election.Source{}) && !replication.Connected && l.relay.receives() == 0
		o.Server.LacksLog = lacks && o.Server.Source != (election.Source{})
		o.Problem = ""
		if o.Server.Source != (election.Source{}) && !o.Connected && problem != "" {
			o.Problem = "receives nothing from " + o.Server.Source.Leader.Name + ": " + problem
		}
		if o.Connected {
			e.release()
		}
	case election.Leading:
		if known {
			o.Server.Position = position
		}
		o.Receivers = receivers(replication, at)
	}
	if before.Server.Final != o.Server.Final || before.Server.LacksLog != o.Server.LacksLog ||
		before.Connected != o.Connected || len(before.Receivers) != len(o.Receivers) {
		e.tell()
	}
	return nil
}

// receivers are the members that receive.
func receivers(replication model.Replication, at time.Time) []engine.Receiver {
	var found []engine.Receiver
	for _, replica := range replication.Replicas {
		if replica.Online && replica.Age <= fresh {
			found = append(found, engine.Receiver{
				Member: replica.Member, FlushedAt: at, Near: replica.Offset+nearBytes >= replication.Offset,
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
