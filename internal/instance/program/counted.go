package program

import (
	"context"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// counted is an engine that counts promotions, and kills of a leading server.
type counted struct {
	engine.Engine
	events *events
}

// Promote implements [engine.Engine].
func (c counted) Promote(ctx context.Context, timeline uint32) error {
	err := c.Engine.Promote(ctx, timeline)
	if err == nil {
		c.events.promotions.Add(1)
	}
	return err
}

// Kill implements [engine.Engine].
func (c counted) Kill() {
	if c.Observe().Server.State == election.Leading {
		c.events.fences.Add(1)
	}
	c.Engine.Kill()
}
