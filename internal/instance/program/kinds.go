package program

import (
	"context"
	"slices"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/peers"
)

// The engines, as values of --engine.
const (
	PostgreSQL = "postgresql"
	Valkey     = "valkey"
)

// kind is what the program knows about an engine.
type kind struct {
	// engine is the value of --engine, and title is the engine's name for people.
	engine, title string
	// label is the label of metrics that has the name of the database's object, and server returns the
	// declarations of the server's own metrics.
	label  Label
	server func() []Metric
	// open returns an engine with the parts that it needs. It starts nothing.
	open func(o options, p *parts) database
	// check returns an error for settings that the engine does not support; nil accepts all.
	check func(settings contract.Settings) error
}

func kinds() []kind { return []kind{postgresql, cache} }

// kindOf returns the kind of an engine; false if there is none of that name.
func kindOf(engine string) (kind, bool) {
	all := kinds()
	index := slices.IndexFunc(all, func(k kind) bool { return k.engine == engine })
	if index < 0 {
		return kind{}, false
	}
	return all[index], true
}

// database is the engine of an instance, with what the program adds to it.
type database struct {
	engine.Engine
	versioned
	// streams serves the streams that other instances open; nil if the engine has none.
	streams peers.Streams
	// metrics adds the server's own metrics.
	metrics func(ctx context.Context, add adder) error
	// provide creates and updates what an application needs in the server, until the context ends.
	// readProvisions reads the Secret with the databases and users of the spec.
	provide func(ctx context.Context, of notified, readProvisions func(context.Context) ([]byte, error)) error
}

// notified is an instance that gets to know what exists in its server.
type notified interface {
	observed
	Provided(ctx context.Context)
	ProvisionsMade(ctx context.Context, revision string)
}
