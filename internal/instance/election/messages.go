package election

import "time"

// Seen is the highest that a member ever met in a record or message. It outlives the record: after
// a restored etcd, it shows that the record is an older one.
type Seen struct {
	Term     uint64 `json:"term"`
	Seq      uint64 `json:"seq"`
	Timeline uint32 `json:"timeline"`
}

// merge returns the higher of both.
func (s Seen) merge(other Seen) Seen {
	if other.Term > s.Term || other.Term == s.Term && other.Seq > s.Seq {
		s.Term, s.Seq = other.Term, other.Seq
	}
	s.Timeline = max(s.Timeline, other.Timeline)
	return s
}

// isPossible reports whether elections can have reached these values.
func (s Seen) isPossible() bool {
	return s.Term < maxCount && s.Seq < maxCount && s.Timeline < maxTimeline
}

// Promised is the candidate that a member last promised to follow. The zero value is none.
type Promised struct {
	Term      uint64 `json:"term"`
	Candidate Member `json:"candidate"`
}

// Local is what a member keeps on its volume. It is durable before any action that depends on it.
type Local struct {
	Promised Promised `json:"promised"`
	Seen     Seen     `json:"seen"`
}

// Ping is what a leader sends to all others every half second, from the loop that also checks that
// its server still writes, and from no other.
type Ping struct {
	System string
	Leader Member
	Seen   Seen
	// Term is that of the leader.
	Term uint64
	// History is what the leader's data contain.
	History History
	// Version is the version of the record that the leader last wrote or read.
	Version string
	// Resigned is true when the leader has given up this term for good: it has released the record,
	// or can't, because it does not reach the API server or may no longer write there.
	Resigned bool
	// Free are the members whose data no rule needs, so that they may be rebuilt.
	Free []Member
	// Addresses are the IP addresses of all instances that the leader knows, its own among them, by
	// the names of their pods: a failover must not wait for DNS.
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
	// Diverged is true if the member's data are damaged, are not part of the leader's history, or
	// are no longer continued by its WAL: they can only be rebuilt.
	Diverged bool
}

// Ask asks whether a member would promise. It changes nothing. Vacant is true if the record that
// the candidate read has no leader.
type Ask struct {
	System string
	Term   uint64
	Member Member
	Seen   Seen
	Vacant bool
}

// AskReply answers an Ask. Position is not final: the member may be receiving.
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

// PromiseReply answers a PromiseRequest. If the promise was not given, the reason is Promised, or a
// live leader.
type PromiseReply struct {
	Term     uint64
	Member   Member
	Given    bool
	Promised Promised
	// Position is final: the member does not receive.
	Position Position
	Seen     Seen
}

// Peer is what an instance knows about another one.
type Peer struct {
	// Name is the other's pod, and Address its IP address; "" if it is not known yet.
	Name, Address string
	// Member is the other as it last answered.
	Member Member

	// Ping is the last that it sent as leader, and PingAt when that arrived; 0 if none did.
	Ping   Ping
	PingAt time.Duration
	// Gone is true if its stream of pings was cut, and its port has refused two connections since.
	Gone bool

	// Pong is its last answer to a ping of ours, and PongSent when that ping was sent; 0 if none
	// came.
	Pong     Pong
	PongSent time.Duration
	// Before is the last answer of the pod's member before that, which has lost its data since, and
	// BeforeSent when that ping was sent.
	Before     Pong
	BeforeSent time.Duration

	// AskReply is its answer to the last Ask; of another term if there is none.
	AskReply AskReply
	// PromiseReply is its answer to the last PromiseRequest; of another term if there is none.
	PromiseReply PromiseReply
	// Request is its request for our promise that is not answered yet; nil if there is none.
	Request *PromiseRequest

	// StreamedAt is when our server last saw it receive and flush; Near is true if it is about to
	// have all that we have.
	StreamedAt time.Duration
	Near       bool
}
