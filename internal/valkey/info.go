package valkey

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// Replication is the answer to INFO replication.
type Replication struct {
	// Leads is true for a primary in Valkey's sense. A standby without a source is a replica in that
	// sense.
	Leads bool
	// ID is the replication ID, and Offset is the end of what was written, or by a replica applied.
	ID     string
	Offset int64
	// Connected is true for a replica that receives from its source.
	Connected bool
	// Backlog is true if the server keeps what it writes, for replicas that were away.
	Backlog bool
	// Replicas are the members that receive.
	Replicas []Replica
	// Good is how many replicas count for min-replicas-to-write; 0 if that is not set.
	Good int64
}

// Unreplicated returns how many bytes of a leader's writes no replica has acknowledged; false if no
// replica receives.
func (r Replication) Unreplicated() (bytes int64, known bool) {
	for _, replica := range r.Replicas {
		if behind := max(r.Offset-replica.Offset, 0); replica.Online && (!known || behind < bytes) {
			bytes, known = behind, true
		}
	}
	return bytes, known
}

// leastLag is the smallest result of [LagClass], in bytes.
const leastLag = 64 << 10

// LagClass returns a number of bytes, rounded up to a power of two, and to leastLag at least.
func LagClass(bytes int64) int64 {
	class := int64(leastLag)
	for class < bytes && class < maxPlace {
		class *= 2
	}
	return class
}

// Refuses returns why a leader accepts no writes; "" if it accepts them. least is its parameter
// min-replicas-to-write.
func (r Replication) Refuses(p Persistence, least string) string {
	switch needed := number(least); {
	case p.AppendFailed:
		return "the server can't write its append-only file"
	case r.Good < needed:
		return fmt.Sprintf("%d replicas receive, and min-replicas-to-write needs %d", r.Good, needed)
	}
	return ""
}

// Persistence is what INFO persistence says about the storing of the data.
type Persistence struct {
	// SaveFailed, RewriteFailed and AppendFailed are true if the last snapshot, the last rewrite of
	// the append-only file, or the last write to it failed.
	SaveFailed, RewriteFailed, AppendFailed bool
	// Unwritten is how many bytes the server has yet to write to its append-only file.
	Unwritten int64
}

// ParsePersistence parses the answer to INFO persistence.
func ParsePersistence(text string) Persistence {
	found := info(text)
	failed := func(key string) bool { state, there := found[key]; return there && state != "ok" }
	return Persistence{
		SaveFailed: failed("rdb_last_bgsave_status"), RewriteFailed: failed("aof_last_bgrewrite_status"),
		AppendFailed: failed("aof_last_write_status"), Unwritten: number(found["aof_buffer_length"]),
	}
}

// Problem says what could not be stored, and where to look; "" if nothing failed.
func (p Persistence) Problem() string {
	const remedy = ": check the free space on the volume, and the log"
	switch {
	case p.AppendFailed:
		return "the last write to the append-only file failed" + remedy
	case p.RewriteFailed:
		return "the last rewrite of the append-only file failed" + remedy
	case p.SaveFailed:
		return "the last snapshot failed" + remedy
	}
	return ""
}

// Replica is a member that receives from a leader.
type Replica struct {
	Member election.Member
	// Offset is up to where it has acknowledged the stream, and Age is how many seconds ago. Online is
	// false while the stream is not sent to it yet, or it has yet to load its copy of the data.
	Offset int64
	Age    int64
	Online bool
}

// Limits of what is read of an answer to INFO: lines, and replicas.
const (
	maxInfoLines = 4096
	maxReplicas  = 64
)

// info returns the fields of an answer to INFO. It skips headings and lines without a value.
func info(text string) map[string]string {
	found, count := map[string]string{}, 0
	for line := range strings.Lines(text) {
		if count++; count > maxInfoLines {
			break
		}
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok && !strings.HasPrefix(key, "#") {
			found[key] = value
		}
	}
	return found
}

func number(text string) int64 {
	value, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return value
}

// ParseReplication parses the answer to INFO replication; it returns false if the text is not one.
func ParseReplication(text string) (Replication, bool) {
	found := info(text)
	r := Replication{Leads: found["role"] == "master", ID: found["master_replid"], Offset: number(found["master_repl_offset"])}
	r.Good = number(found["min_slaves_good_slaves"])
	r.Backlog = found["repl_backlog_active"] == "1"
	if !r.Leads {
		// master_repl_offset is the end of what a replica would pass on, which begins with the first byte
		// received.
		r.Offset = max(number(found["slave_repl_offset"]), 0)
		r.Connected = found["master_link_status"] == "up"
	}
	for i := range maxReplicas {
		text, there := found["slave"+strconv.Itoa(i)]
		if !there {
			break
		}
		if replica, ok := parseReplica(text); ok {
			// Until it has loaded its copy, it acknowledges nothing: that says nothing about what it has.
			replica.Online = replica.Online && (replica.Offset > 0 || r.Offset == 0)
			r.Replicas = append(r.Replicas, replica)
		}
	}
	return r, replicationID.MatchString(r.ID) && (r.Leads || found["role"] == "slave")
}

// parseReplica parses ip=NAME,port=...,state=online,offset=1400,lag=0. NAME is what the leader's
// program has set as the address of the connection: see [ReplicaName].
func parseReplica(text string) (Replica, bool) {
	values := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			values[key] = value
		}
	}
	member, ok := ParseReplicaName(values["ip"])
	return Replica{Member: member, Offset: number(values["offset"]), Age: number(values["lag"]), Online: values["state"] == "online"}, ok
}

// ReplicaName returns the name of a member's connection, in place of an IP address.
func ReplicaName(member election.Member) string { return member.Name + "/" + member.Incarnation }

// maxReplicaName is how long such a name may be, in bytes (NET_HOST_STR_LEN of the server, without
// the NUL).
const maxReplicaName = 255

// ParseReplicaName parses what [ReplicaName] returns; false for other names.
func ParseReplicaName(name string) (election.Member, bool) {
	pod, incarnation, found := strings.Cut(name, "/")
	ok := found && pod != "" && incarnation != "" && len(name) <= maxReplicaName
	return election.Member{Name: pod, Incarnation: incarnation}, ok
}

// Statistics are what a running server reports about itself, for monitoring. Durations are in
// seconds, and sizes in bytes. SaveFailed and RewriteFailed are 1 or 0. MaxConnections is without
// those that are reserved for Mainstay.
type Statistics struct {
	Connections, MaxConnections, Rejected                   float64
	MemoryUsed, MemoryMax, MemoryResident                   float64
	Keys, Expired, Evicted, Hits, Misses                    float64
	Commands, NetworkIn, NetworkOut                         float64
	SaveFailed, RewriteFailed, LastFork, ReplicationBacklog float64
	// Receivers are the members that receive from this server.
	Receivers []ReceiverStatistics
}

// ReceiverStatistics say how far a member that receives is behind.
type ReceiverStatistics struct {
	Pod      string
	LagBytes float64
}

// ParseStatistics parses the answer to INFO. Fields that are missing are 0.
func ParseStatistics(text string) Statistics {
	found := info(text)
	value := func(key string) float64 {
		number, err := strconv.ParseFloat(found[key], 64)
		if err != nil {
			return 0
		}
		return number
	}
	failed := func(key string) float64 {
		if state, there := found[key]; there && state != "ok" {
			return 1
		}
		return 0
	}
	const micro = 1e-6
	s := Statistics{
		Connections: value("connected_clients"), MaxConnections: max(value("maxclients")-Reserved, 0), Rejected: value("rejected_connections"),
		MemoryUsed: value("used_memory"), MemoryMax: value("maxmemory"), MemoryResident: value("used_memory_rss"),
		Expired: value("expired_keys"), Evicted: value("evicted_keys"), Hits: value("keyspace_hits"), Misses: value("keyspace_misses"),
		Commands: value("total_commands_processed"), NetworkIn: value("total_net_input_bytes"), NetworkOut: value("total_net_output_bytes"),
		SaveFailed: failed("rdb_last_bgsave_status"), RewriteFailed: failed("aof_last_bgrewrite_status"),
		LastFork: value("latest_fork_usec") * micro, ReplicationBacklog: value("repl_backlog_histlen"),
	}
	for key, text := range found {
		if strings.HasPrefix(key, "db") { // db0:keys=1,expires=0,avg_ttl=0
			if keys, _, ok := strings.Cut(strings.TrimPrefix(text, "keys="), ","); ok {
				s.Keys += float64(number(keys))
			}
		}
	}
	replication, _ := ParseReplication(text)
	for _, replica := range replication.Replicas {
		if replica.Online {
			s.receives(replica.Member.Name, float64(max(replication.Offset-replica.Offset, 0)))
		}
	}
	return s
}

// receives adds a connection of a replica. Of several of one pod, one is not gone yet, or holds
// what its copy of the data lacks: the one that has most counts.
func (s *Statistics) receives(pod string, lag float64) {
	for i := range s.Receivers {
		if s.Receivers[i].Pod == pod {
			s.Receivers[i].LagBytes = min(s.Receivers[i].LagBytes, lag)
			return
		}
	}
	s.Receivers = append(s.Receivers, ReceiverStatistics{Pod: pod, LagBytes: lag})
}
