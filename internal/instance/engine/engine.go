// Package engine is what the instance manager needs of a database server, so that PostgreSQL, MySQL
// and Valkey are led, fenced and cloned alike. The decisions are those of election; an engine only
// carries them out on one server and one volume, and says truthfully what it found.
package engine

import (
	"context"
	"errors"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Upstream is a leader to receive from.
type Upstream struct {
	Leader election.Member
	Term   uint64
	// Host is where its server listens: a DNS name or an address.
	Host string
}

// ErrDamaged is returned for data that no server can have written: they can only be rebuilt. It is
// never returned for data that could not be read, or that another server wrote.
var ErrDamaged = errors.New("the data are damaged")

// ForeignError is returned for data that the server must not touch: of another version than its
// own.
type ForeignError struct {
	// Found is what is there, and Needed what the server could use.
	Found, Needed string
}

// Error implements error.
func (e *ForeignError) Error() string { return "the volume " + e.Describe() + "; nothing was changed" }

// Describe says what is there and what is needed, of something named before: "has ..., and needs
// ...".
func (e *ForeignError) Describe() string { return "has " + e.Found + ", and needs " + e.Needed }

// Progress says how far a long operation is, in bytes. Total is 0 while it is not known.
type Progress func(done, total int64)

// Engine runs one server on the data of one directory. All operations but Kill, SetParameters,
// Observe and Changed are called one at a time, and each returns when it is done, or with an error
// that names the remedy. After an error, except of Reload, the server is killed and restarted, and
// never used as it is. An operation whose context ends has failed.
type Engine interface {
	election.Positions

	// Inspect reads what the data directory holds while no server runs, without changing anything.
	// An error says what was found and what to do: data of another major version (ForeignError), half
	// made, damaged (ErrDamaged), or with a foreign owner.
	Inspect() (Data, error)
	// Initialise makes the data of a new database in an empty directory.
	Initialise(ctx context.Context, directory string) error
	// Clone makes the data in an empty directory from a leader's, without stopping it.
	Clone(ctx context.Context, directory string, from Upstream, progress Progress) error

	// Start starts the server as a standby without a source, and returns when it answers. Whatever
	// an earlier process left of a source or an incomplete promotion is removed first.
	Start(ctx context.Context) error
	// Resume starts the server as the leader that it was, on its own timeline, under the rule.
	Resume(ctx context.Context, rule election.Rule) error
	// Follow lets a standby receive. It returns when the server knows its source, which may not
	// answer yet.
	Follow(ctx context.Context, from Upstream) error
	// Unfollow takes every source away. It returns when nothing that receives is left and all that
	// was received is replayed: from then on the position is final.
	Unfollow(ctx context.Context) error
	// SetRule sets what the server's commits wait for; of a standby, for when it leads. It returns
	// when the server has the rule. Observation.Settled is true when it is in effect.
	SetRule(ctx context.Context, rule election.Rule) error
	// SetParameters notes the user's parameters of the server, at once: they count from the next
	// Reload on, or from the next start where the server wants that. What it does not accept is left
	// out, and is Observation.Problem. It may be called at any time.
	SetParameters(parameters map[string]string)
	// Reload lets the server use the certificates that its directory has now, for connections from
	// now on, and the parameters that were set last. After an error it may be called again: what the
	// data's safety rests on is as it was.
	Reload(ctx context.Context) error
	// Promote lets a standby without source lead, on that timeline. It fails, with the server
	// killed, if it came up on another.
	Promote(ctx context.Context, timeline uint32) error
	// StopCleanly accepts no more writes, sends what was written to all that receive, and stops.
	StopCleanly(ctx context.Context) error
	// Kill kills every process of the server, of an operation that is under way too, and returns
	// without waiting for a process that can't be killed: that one runs no more code. From its
	// return on, nothing is written or acknowledged. It may be called at any time.
	Kill()

	// Observe says what the server does now. It answers at once, from what was measured last.
	Observe() Observation
	// Changed is sent to, without blocking, when Observe may say something else.
	Changed() <-chan struct{}
}

// Data is what a data directory holds.
type Data struct {
	// Exists is false for a directory that is empty or not there.
	Exists bool
	// Lost is true for data that were only in the memory of a server that has ended. Then nothing
	// else is set: the instance has no data any more, and what is in the directory is of no use.
	Lost bool
	// System is the id of the database system.
	System string
	// Position is the end of the data, if the server was stopped cleanly; else "".
	Position election.Position
	// Timeline is the highest that the data know of.
	Timeline uint32
	// Version is the major version of the server that the data need.
	Version string
}

// Observation is what a server does.
type Observation struct {
	// Server is what the election needs. The caller fills Busy, UnflushedSince and ReceiversAt.
	Server election.Server
	// UnflushedSince is since when the oldest heartbeat waits for the local disk; the zero time if
	// none does.
	UnflushedSince time.Time
	// Receivers are those that receive from this server under the name of a member, and ReceiversAt
	// is when a server that leads last said so; the zero time if it has not. One that does not answer
	// keeps both: whether a member still receives from it is unknown then.
	Receivers   []Receiver
	ReceiversAt time.Time
	// Connected is true while a standby receives from its source.
	Connected bool
	// Lag is how far a standby's replay is behind, in time; 0 if it is not, or not known.
	Lag time.Duration
	// PendingRestart is true if a parameter that was set counts from the next start on only.
	PendingRestart bool
	// Unreplicated is how many bytes of what a server that leads has written no other member has, at
	// most, as last measured: rounded up to a power of two, and at least 64 KiB. 0 is unknown.
	Unreplicated int64
	// Refuses is why a server that leads accepts no writes at present; "" if it does.
	Refuses string
	// Problem is why the server is not in the requested state, for people; "" if it is.
	Problem string
}

// Receiver is a member that receives from this server.
type Receiver struct {
	Member election.Member
	// FlushedAt is when it was last seen to flush; Near is true if it is about to have all.
	FlushedAt time.Time
	Near      bool
}
