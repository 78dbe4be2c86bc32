package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// Follow implements [engine.Engine].
func (e *Engine) Follow(_ context.Context, from engine.Upstream) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if server := e.server(); server.State != election.Standby || server.Source != (election.Source{}) {
		return errors.New("following: the server leads, or has a source")
	}
	source := election.Source{Leader: from.Leader, Term: from.Term}
	e.note(l, func(o *engine.Observation) { o.Server.Source, o.Server.Final, o.Server.LacksLog = source, false, false })
	l.relay.set(&from)
	return nil
}

// How long a server may take to notice that its source is gone. An election may wait for it. But a
// server that works at a slow command of a client will answer, and without stored data it may have
// the only copy of them.
const (
	unfollowTimeout         = 20 * time.Second
	unfollowTimeoutInMemory = 5 * time.Minute
)

// Unfollow implements [engine.Engine]. The server drops what it has received and not applied yet,
// and will ask for it again. From the beginning on, the relay passes on nothing more.
func (e *Engine) Unfollow(ctx context.Context) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	l.relay.set(nil)
	ctx, cancel := l.within(ctx)
	defer cancel()
	limit := unfollowTimeout
	e.mu.Lock()
	if l.inMemory {
		limit = unfollowTimeoutInMemory
	}
	e.mu.Unlock()
	ctx, stop := context.WithTimeoutCause(ctx, limit, errors.New("the server still has its source"))
	defer stop()
	err = e.until(ctx, func() (bool, error) {
		if l.relay.receives() > 0 {
			return false, nil
		}
		replication, err := e.replicates(ctx, l)
		return err == nil && !replication.Connected, err
	})
	if err == nil {
		e.note(l, func(o *engine.Observation) {
			o.Server.Source, o.Server.LacksLog, o.Connected = election.Source{}, false, false
		})
		err = e.measureSoon(ctx, l)
	}
	if err != nil {
		return fmt.Errorf("removing the source: %w", err)
	}
	return nil
}

// SetRule implements [engine.Engine]. Valkey's writes wait for no other member, so only rules that
// wait for nobody are accepted, and they are in effect at once.
func (e *Engine) SetRule(_ context.Context, rule election.Rule) error {
	l, err := e.current()
	if err != nil {
		return err
	}
	if !rule.WaitsForNobody() {
		return errors.New("setting the rule: Valkey's writes wait for no other member: the durability must be Asynchronous")
	}
	e.note(l, func(o *engine.Observation) { o.Server.Rule = rule })
	return nil
}
