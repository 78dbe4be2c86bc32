package election

import "time"

// Seen is the highest values that a member has ever seen in a record or message. It is stored on
// the volume: if etcd is restored from a backup, it shows that the record is an older one.
type Seen struct {
	Term     uint64 `json:"term"`
	Seq      uint64 `json:"seq"`
	Timeline uint32 `json:"timeline"`
}

// merge returns the higher values of both.
func (s Seen) merge(other Seen) Seen {
	if other.Term > s.Term || other.Term == s.Term && other.Seq > s.Seq {
		s.Term, s.Seq = other.Term, other.Seq
	}
	s.Timeline = max(s.Timeline, other.Timeline)
	return s
}

// isPossible reports whether elections can reach these values.
func (s Seen) isPossible() bool {
	return s.Term < maxCount && s.Seq < maxCount && s.Timeline < maxTimeline
}

// Promised is the candidate that a member last promised to follow. The zero value means none.
type Promised struct {
	Term      uint64 `json:"term"`
	Candidate Member `json:"candidate"`
}

// Local is what a member stores on its volume. It is durable before any action that depends on it.
type Local struct {
	Promised Promised `json:"promised"`
	Seen     Seen     `json:"seen"`
}

// Ping is what a leader sends to all other instances every half second (pingEvery). The loop that
// checks whether the server still writes sends it, and no other goroutine does.
type Ping struct {
	System string
	Leader Member
	Seen   Seen
	// Term is the term in which the sender leads.
	Term uint64
	// History says which positions the leader's data contain.
	History History
	// Version is the version of the record that the leader last wrote or read.
	Version string
	// Resigned is true once the leader has given up this term for good: it has released the record, or
	// it can't, because it does not reach the API server or may no longer write there.
	Resigned bool
	// Free are the diverged members whose data no rule needs, so that they may rebuild them.
	Free []Member
	// Addresses are the IP addresses of all instances that the leader knows, including its own, by the
	// names of their pods: a failover must not wait for DNS.
	Addresses map[string]string
}

// Pong answers a Ping.
type Pong struct {
	Member   Member
	Promised Promised
	Position Position
	Seen     Seen
	// Address is the member's IP address.
	Address string
	// Diverged is true if the member's data can only be rebuilt: they are damaged, are not part of the
	// leader's history, or the leader's WAL no longer has what follows them.
	Diverged bool
	// Unstored is true if the member's server does not store yet what it receives: see
	// Server.Unstored. A member of a release that does not know the field stores all.
	Unstored bool
}

// Ask asks whether a member would promise to follow the sender in the term. It changes nothing.
// Vacant is true if the record that the candidate has read has no leader.
type Ask struct {
	System string
	Term   uint64
	Member Member
	Seen   Seen
	Vacant bool
}

// AskReply answers an Ask. Would is true if the member would promise. Position is not final,
// because the member may be receiving.
type AskReply struct {
	Term     uint64
	Member   Member
	Would    bool
	Promised Promised
	Position Position
	Seen     Seen
}

// PromiseRequest asks a member to stop receiving from leaders of lower terms. Vacant is true if the
// record that the candidate claimed had no leader.
type PromiseRequest struct {
	System    string
	Term      uint64
	Candidate Member
	Seen      Seen
	Vacant    bool
}

// PromiseReply answers a PromiseRequest. If the promise was not given, the member has promised to
// follow another candidate (Promised), or a leader is alive.
type PromiseReply struct {
	Term     uint64
	Member   Member
	Given    bool
	Promised Promised
	// Position is final: the member does not receive.
	Position Position
	Seen     Seen
}

// Peer is what an instance knows about another one. Points in time are on the clock of
// Observed.Now.
type Peer struct {
	// Name is the name of its pod, and Address its IP address; "" if that is not known yet.
	Name, Address string
	// Member is the member that it was in its last message.
	Member Member

	// Ping is the last ping that it sent as leader, and PingAt is when that arrived; 0 if none did.
	Ping   Ping
	PingAt time.Duration
	// Gone is true if its program is known to have ended: its pings stopped and its port has refused
	// two connections since, or it has resigned.
	Gone bool

	// Pong is its last answer to a ping of ours, and PongSent is when that ping was sent; 0 if it has
	// not answered.
	Pong     Pong
	PongSent time.Duration
	// Before is the last answer of the pod's previous member, which has lost its data since, and
	// BeforeSent is when that ping was sent; 0 if there is none.
	Before     Pong
	BeforeSent time.Duration

	// AskReply is its answer to our last Ask; one with another term if it has not answered.
	// EarlierReply is its answer to the Ask before that, if that was sent lately; the zero value if it
	// has not answered that.
	AskReply     AskReply
	EarlierReply AskReply
	// PromiseReply is its answer to our last PromiseRequest; one with another term if it has not
	// answered.
	PromiseReply PromiseReply
	// Request is its request for our promise, if we have not answered it yet; nil if there is none.
	Request *PromiseRequest

	// StreamedAt is when our server last saw that it had received and flushed something; Near is true
	// if it is about to have everything that we have.
	StreamedAt time.Duration
	Near       bool
}
