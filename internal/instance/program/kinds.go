package program

import (
	"context"
	"slices"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/instance/peers"
)

// The engines that there are, as --engine names them.
const (
	PostgreSQL = "postgresql"
	Valkey     = "valkey"
)

// kind is what the program knows of an engine.
type kind struct {
	// engine is the value of the flag, and title its name for people.
	engine, title string
	// label is that of the database's object in metrics, and server declares those of the server.
	label  Label
	server func() []Metric
	// open returns a database of which nothing runs yet.
	open func(o options, p *parts) database
	// check refuses settings that the engine can't keep; nil refuses none.
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
	// streams serves the streams of other instances; nil if the engine has none.
	streams peers.Streams
	// metrics adds those of the server.
	metrics func(ctx context.Context, add adder) error
	// provide keeps what an application needs in the server, until the context ends.
	// readProvisions reads the Secret with the databases and users of the spec.
	provide func(ctx context.Context, of notified, readProvisions func(context.Context) ([]byte, error)) error
}

// notified is an instance that is notified of what exists in its server.
type notified interface {
	observed
	Provided(ctx context.Context)
	ProvisionsMade(ctx context.Context, revision string)
}
