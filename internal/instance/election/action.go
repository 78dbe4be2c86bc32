package election

import "time"

// Action is what an instance does next: one of the types in this file.
type Action interface{ action() }

// Wait does nothing until Until, on the clock of Observed.Now, or until a message or result
// arrives. For says what the instance waits for.
type Wait struct {
	Until time.Duration
	For   string
}

// Save writes Local to the volume. It is complete when the file and its directory are flushed.
type Save struct{ Local Local }

// Kill kills every process of the server. It does not wait for one that the kernel can't end. Why
// is the reason, for people.
type Kill struct{ Why string }

// Start starts the server as a standby without a source.
type Start struct{}

// Resume starts the server as the leader again, in the same term and on the same timeline.
type Resume struct{ Rule Rule }

// Follow makes the server receive from the leader of the term.
type Follow struct {
	Leader Member
	Term   uint64
}

// Unfollow removes every source of the server, and makes sure that nothing (in PostgreSQL, no
// receiver and no restore_command) receives any more.
type Unfollow struct{}

// Replace rebuilds the data from the leader's, as a new member. The old data are kept until the new
// ones are healthy.
type Replace struct {
	Leader Member
	Term   uint64
}

// Initialise makes the data of a new database.
type Initialise struct{}

// SetRule sets what the server's commits wait for.
type SetRule struct{ Rule Rule }

// Promote promotes the server, to that timeline and no other.
type Promote struct {
	Term     uint64
	Timeline uint32
}

// StopCleanly shuts a leader's server down: the server accepts no more writes, writes a checkpoint
// (PostgreSQL), and sends all that it has written to the members that receive. Successor is the
// member that should lead next; the zero value means none.
type StopCleanly struct{ Successor Member }

// ReadRecord reads the Lease from the API server, not from a cache.
type ReadRecord struct{}

// WriteRecord updates the Lease if it still has the version, or creates it if Version is "". After
// any result but success, a 409 too, the content of the Lease is unknown.
type WriteRecord struct {
	Record  Record
	Version string
	// Forced is true for a claim that only AcceptLoss allows, and Vacant for a claim on a record
	// without a leader.
	Forced, Vacant bool
	// Cause is why the previous leader no longer leads, and Heard when its last ping arrived; 0 if
	// none did.
	Cause Cause
	Heard time.Duration
	// Why is the purpose of the write, for the log.
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

// Publish writes our address to the EndpointSlice of the write Service, unless that has it already,
// or a higher term.
type Publish struct{ Term uint64 }

// Exit ends the program: everything that SIGTERM requested is done.
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
