// Package engine is the interface between the instance manager and a database server, so that
// PostgreSQL, Valkey and others are led, fenced and cloned alike. Package election decides; an
// engine only carries the decisions out on one server and one volume, and reports exactly what it
// found.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Upstream is a leader from which a standby receives.
type Upstream struct {
	Leader election.Member
	Term   uint64
	// Host is where its server listens: a DNS name or an address.
	Host string
}

// ErrDamaged is returned for data that no server can have written, so that they can only be
// rebuilt. It is never returned for data that could not be read, or that a server of another
// version wrote.
var ErrDamaged = errors.New("the data are damaged")

// ForeignError is returned for data that the server must not use, because a server of another
// version wrote them.
type ForeignError struct {
	// Found is what the volume has, and Needed is what the server could use, such as "the data of
	// PostgreSQL 16" and "those of PostgreSQL 17".
	Found, Needed string
}

// Error implements error.
func (e *ForeignError) Error() string { return "the volume " + e.Describe() + "; nothing was changed" }

// Describe returns the predicate of a sentence about the volume: "has ..., and needs ...".
func (e *ForeignError) Describe() string { return "has " + e.Found + ", and needs " + e.Needed }

// Progress is called with how far a long operation is, in bytes. total is 0 while it is unknown.
type Progress func(done, total int64)

// Engine runs one server on the data of one directory. All methods except Compare, Holds,
// Kill, SetParameters, Observe and Changed are operations. They are called one at a time, and each
// returns when it is done, or with an error that names the remedy. After an error of any operation
// except Inspect and Reload, the caller kills the server, because its state is unknown, and starts
// it again. An operation whose context ends has failed.
type Engine interface {
	election.Positions

	// Inspect reads what the data directory holds while no server runs, without changing anything. An
	// error says what was found and what to do: data of another major version (ForeignError),
	// incomplete data, damaged data (ErrDamaged), or data that belong to another operating system
	// user.
	Inspect() (Data, error)
	// Initialise makes the data of a new database in an empty directory.
	Initialise(ctx context.Context, directory string) error
	// Clone copies a leader's data to an empty directory, while the leader runs.
	Clone(ctx context.Context, directory string, from Upstream, progress Progress) error

	// Start starts the server as a standby without a source, and returns when it answers, or when it
	// is known that it will not before it has received something: then its position is known, and all
	// other methods work. It first removes what an earlier process has left of a source or of an
	// incomplete promotion.
	Start(ctx context.Context) error
	// Resume starts the server as the leader that it was before, on the same timeline, under the rule.
	Resume(ctx context.Context, rule election.Rule) error
	// Follow makes a standby receive from a leader. It returns when the server knows its source, even
	// if that does not answer yet. It bounds by itself what does not depend on the size of the data: a
	// server that has to be restarted replays its log.
	Follow(ctx context.Context, from Upstream) error
	// Unfollow removes every source. It returns when no process receives any more, and all that was
	// received is replayed: from then on the position is final.
	Unfollow(ctx context.Context) error
	// SetRule sets what the server's commits wait for; on a standby, what they will wait for when it
	// leads. It returns when the server has the rule. Observation.Server.Settled becomes true once the
	// rule is in effect.
	SetRule(ctx context.Context, rule election.Rule) error
	// SetParameters notes the user's parameters of the server, and returns at once. They take effect
	// at the next Reload, or at the next start if the server requires that. A parameter that the
	// server does not accept is left out, and reported in Observation.Problem. It may be called at any
	// time.
	SetParameters(parameters map[string]string)
	// Reload makes the server use the certificates that are in its directory now, for new connections,
	// and the parameters that were set last. After an error the server may still be used, and Reload
	// be called again: nothing on which the safety of the data depends has changed.
	Reload(ctx context.Context) error
	// Promote makes a standby without a source the leader, on that timeline. If the server came up on
	// another one, Promote kills it and fails.
	Promote(ctx context.Context, timeline uint32) error
	// StopCleanly makes a leader accept no more writes, send all that it has written to the members
	// that receive, and stop.
	StopCleanly(ctx context.Context) error
	// Kill kills every process of the server, and those of an operation that is in progress. It does
	// not wait for a process that the kernel can't end: that runs no more code of its own. From its
	// return on, nothing is written or acknowledged. It may be called at any time.
	Kill()

	// Observe returns the state of the server, as last measured. It returns at once.
	Observe() Observation
	// Changed returns a channel that receives a value when the result of Observe may have changed.
	Changed() <-chan struct{}
}

// Data is what a data directory holds.
type Data struct {
	// Exists is false for a directory that is empty or does not exist.
	Exists bool
	// Lost is true if the data were only in the memory of a server that has ended. Then no other field
	// is set: the instance has no data any more, and the files in the directory are of no use.
	Lost bool
	// System is the ID of the database system, which all members share.
	System string
	// Position is the end of the data, if the server was stopped cleanly; otherwise "".
	Position election.Position
	// Timeline is the highest timeline that is known from the data.
	Timeline uint32
	// Version is the major version of the server that the data require.
	Version string
}

// Observation is the state of a server, as last measured.
type Observation struct {
	// Server is what the election needs. The caller sets its Busy, UnflushedSince and ReceiversAt.
	Server election.Server
	// UnflushedSince is since when the oldest small write has been waiting for the local disk, or, of
	// a Valkey, since when the oldest query has had no answer; the zero time if there is none.
	UnflushedSince time.Time
	// Receivers are the members that receive from this server, and ReceiversAt is when the server last
	// said so as a leader; the zero time if it has not. Both stay as they are while the server does
	// not answer: then it is unknown whether a member still receives from it.
	Receivers   []Receiver
	ReceiversAt time.Time
	// Connected is true while a standby receives from its source, and its server answers.
	Connected bool
	// Lag is by how much time a standby's replay is behind what it has received; 0 if it is not
	// behind, or if that is unknown.
	Lag time.Duration
	// PendingRestart is true if a parameter that was set takes effect only at the next start.
	PendingRestart bool
	// Unreplicated is, of a leader, at most how many bytes of its writes no other member has, as last
	// measured: rounded up to a power of two, and to 64 KiB at least. 0 is unknown.
	Unreplicated int64
	// Refuses is why a leader accepts no writes at present; "" if it accepts them.
	Refuses string
	// CommitsWait is true while a leader's commits wait, because too few of the members that they have
	// to wait for receive.
	CommitsWait bool
	// Problem says, for people, why the server is not in the requested state; "" if it is.
	Problem string
}

// Silent notes that the server of a standby has answered nothing for that long: whether it still
// receives is unknown, and clients would wait for its answers.
func (o *Observation) Silent(long time.Duration) {
	o.Connected = false
	o.Problem = cmp.Or(o.Problem, fmt.Sprintf(
		"the server has answered nothing for %s: check the container's log, and the load and the disk of the node", long))
}

// Receiver is a member that receives from this server.
type Receiver struct {
	Member election.Member
	// FlushedAt is when the member was last seen to have flushed something. Near is true if it is
	// about to have everything: each engine has its limit.
	FlushedAt time.Time
	Near      bool
}
