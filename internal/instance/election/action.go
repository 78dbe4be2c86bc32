package election

import "time"

// Action is what an instance does next: one of the types in this file.
type Action interface{ action() }

// Wait does nothing until Until, or until something is heard. For says what is waited for.
type Wait struct {
	Until time.Duration
	For   string
}

// Save writes Local to the volume, and returns when file and directory are flushed.
type Save struct{ Local Local }

// Kill kills every process of the server, without waiting for one that can't be reaped.
type Kill struct{ Why string }

// Start starts the server as a standby without a source.
type Start struct{}

// Resume starts the server as the leader that it was, in the same term and timeline.
type Resume struct{ Rule Rule }

// Follow lets the server receive from the leader of the term.
type Follow struct {
	Leader Member
	Term   uint64
}

// Unfollow takes every source away and sees that no receiver and no fetching command is left.
type Unfollow struct{}

// Replace makes the data anew from the leader, by rewinding or cloning, as a new member. The old
// data stay aside until the new are healthy.
type Replace struct {
	Leader Member
	Term   uint64
}

// Initialise makes the data of a new database.
type Initialise struct{}

// SetRule tells the server what its commits wait for.
type SetRule struct{ Rule Rule }

// Promote lets the server lead, on that timeline and no other.
type Promote struct {
	Term     uint64
	Timeline uint32
}

// StopCleanly lets the server write a checkpoint, accept no more writes, send all that it has, and
// stop. Successor is for whom; the zero value is nobody.
type StopCleanly struct{ Successor Member }

// ReadRecord reads the Lease from the API server, not from a cache.
type ReadRecord struct{}

// WriteRecord updates the Lease that has the version, or creates it if that is "". Anything but
// success, a 409 too, means only that it is not known what the Lease says.
type WriteRecord struct {
	Record  Record
	Version string
	// Forced is true for a claim that only AcceptLoss allows, Vacant for one of a record by which
	// nobody leads.
	Forced, Vacant bool
	// Cause is why the leader before a claim leads no more, and Heard when it was last heard; 0 if it
	// never was.
	Cause Cause
	Heard time.Duration
	// Why says what the write is for.
	Why string
}

// SendPings sends the ping to every peer.
type SendPings struct{ Ping Ping }

// SendAsk sends the question to every peer.
type SendAsk struct{ Ask Ask }

// RequestPromises sends the request to every peer.
type RequestPromises struct{ Request PromiseRequest }

// Reply answers the request of a peer.
type Reply struct {
	To      string
	Promise PromiseReply
}

// Publish puts our address into the EndpointSlice, unless that says a higher term.
type Publish struct{ Term uint64 }

// Exit ends the program: all that SIGTERM asked for is done.
type Exit struct{}

func (Wait) action()            {}
func (Save) action()            {}
func (Kill) action()            {}
func (Start) action()           {}
func (Resume) action()          {}
func (Follow) action()          {}
func (Unfollow) action()        {}
func (Replace) action()         {}
func (Initialise) action()      {}
func (SetRule) action()         {}
func (Promote) action()         {}
func (StopCleanly) action()     {}
func (ReadRecord) action()      {}
func (WriteRecord) action()     {}
func (SendPings) action()       {}
func (SendAsk) action()         {}
func (RequestPromises) action() {}
func (Reply) action()           {}
func (Publish) action()         {}
func (Exit) action()            {}
