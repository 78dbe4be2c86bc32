package election

import "time"

// Action is what an instance does next: one of the types in this file.
type Action interface{ action() }

// Wait does nothing until Until, or until a message or result arrives. For says what the instance
// waits for.
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

// Resume restarts the server as the leader, in the same term and timeline.
type Resume struct{ Rule Rule }

// Follow lets the server receive from the leader of the term.
type Follow struct {
	Leader Member
	Term   uint64
}

// Unfollow removes every source, and makes sure that no receiver and no restore_command is left.
type Unfollow struct{}

// Replace rebuilds the data from the leader, by rewinding or cloning, as a new member. The old data
// are kept until the new ones are healthy.
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

// StopCleanly shuts the server down: it accepts no more writes, writes a checkpoint, and sends all
// that it has. Successor is the member that leads next; the zero value is none.
type StopCleanly struct{ Successor Member }

// ReadRecord reads the Lease from the API server, not from a cache.
type ReadRecord struct{}

// WriteRecord updates the Lease that has the version, or creates it if that is "". Anything but
// success, including a 409, means that the content of the Lease is unknown.
type WriteRecord struct {
	Record  Record
	Version string
	// Forced is true for a claim that only AcceptLoss allows, Vacant for a claim of a record
	// without a leader.
	Forced, Vacant bool
	// Cause is why the previous leader no longer leads, and Heard when its last ping arrived; 0 if
	// none did.
	Cause Cause
	Heard time.Duration
	// Why is the purpose of the write.
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
