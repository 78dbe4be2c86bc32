package contract

import (
	"fmt"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Role is the role of an instance for its clients.
type Role string

// The roles.
const (
	// Primary accepts writes: its term is open, and its address is published.
	Primary Role = "primary"
	// Replica receives from the primary, stores what it receives if it should, and accepts reads.
	Replica Role = "replica"
	// NoRole accepts no connections, or none that are of use.
	NoRole Role = ""
)

// Report is what an instance says about itself in an annotation of its Pod, for the manager and for
// people. All values are coarse, so that it is seldom written: never while nothing changes.
type Report struct {
	Role Role `json:"role,omitempty"`
	// State is one of Starting, Waiting, Standby, Following, Cloning, Promoting, Leading, Stopping
	// and Ended.
	State string `json:"state"`
	// Term is the term in which this instance leads, or that of the leader from which it receives; 0
	// means none. Timeline is that of a leading server; 0 at replicas.
	Term     uint64 `json:"term,omitempty"`
	Timeline uint32 `json:"timeline,omitempty"`
	// Quorum is, of a primary, what its commits wait for, such as 1/2: one member of a set of two. The
	// record in the Lease has the whole rule; a change here makes the manager read the record.
	Quorum string `json:"quorum,omitempty"`
	// Cause is, of a primary, why the previous primary no longer leads, as an election.Cause; "" if
	// that is unknown. Gap is how many seconds there was no primary, as far as this instance noticed,
	// rounded up.
	Cause string `json:"cause,omitempty"`
	Gap   int    `json:"gap,omitempty"`
	// Lost is why an instance that led in the term LostTerm no longer leads.
	Lost     string `json:"lost,omitempty"`
	LostTerm uint64 `json:"lostTerm,omitempty"`
	// System is the ID of the database system to which the data belong; "" without data.
	System string `json:"system,omitempty"`
	// Foreign says, of a volume that the instance must not use, what it has and what the instance
	// needs, as in "has the data of PostgreSQL 16, and needs those of PostgreSQL 17"; "" if the
	// instance may use the volume.
	Foreign string `json:"foreign,omitempty"`
	// Incarnation is the random ID of the data, as in election.Member; "" without data.
	Incarnation string `json:"incarnation,omitempty"`
	// Lag is how far the replay is behind: "" below 5 s or if it is unknown, "Seconds" from 5 s on,
	// and "Minutes" from 1 min on.
	Lag string `json:"lag,omitempty"`
	// Percent is the progress of a clone, and Full is how full the volume is, both in percent, in
	// steps of five.
	Percent int `json:"percent,omitempty"`
	Full    int `json:"full,omitempty"`
	// FullLog is that of the log's own volume; 0 if there is none.
	FullLog int `json:"fullLog,omitempty"`
	// Size and SizeLog are how much space these two volumes have for the instance in all, in MiB, to
	// about 2 %; 0 is unknown.
	Size    int64 `json:"size,omitempty"`
	SizeLog int64 `json:"sizeLog,omitempty"`
	// Provided is true for a primary whose server has the application's role and database.
	Provided bool `json:"provided,omitempty"`
	// Provisions is the revision of the databases and users that a primary has made in its term; ""
	// means none.
	Provisions string `json:"provisions,omitempty"`
	// Unreplicated is, of a primary, at most how many bytes of its writes no replica has, as last
	// measured: a power of two. 0 is unknown.
	Unreplicated int64 `json:"unreplicated,omitempty"`
	// Refuses is why a primary accepts no writes at present; "" if it accepts them.
	Refuses string `json:"refuses,omitempty"`
	// PendingRestart is true if a parameter takes effect only after a restart of the server.
	PendingRestart bool `json:"pendingRestart,omitempty"`
	// Problem is what keeps the server from reaching its desired state; "" is nothing.
	Problem string `json:"problem,omitempty"`
}

// maxReportBytes limits the report that is read from a Pod, which every client with the right to
// patch Pods can write.
const maxReportBytes = 4 << 10

// ParseReport decodes what an instance has written to its Pod.
func ParseReport(text string) (Report, error) {
	var report Report
	if err := bounded.Unmarshal([]byte(text), maxReportBytes, &report); err != nil {
		return Report{}, fmt.Errorf("reading an instance's report: %w", err)
	}
	return report, nil
}
