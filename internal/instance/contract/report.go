package contract

import (
	"fmt"

	"github.com/mainstay-platform/mainstay/internal/kit/bounded"
)

// Role is the role of an instance for its clients.
type Role string

// The roles.
const (
	// Primary takes writes: its term is open and its address published.
	Primary Role = "primary"
	// Replica receives from the primary and takes reads.
	Replica Role = "replica"
	// NoRole takes no connections, or none that are worth it.
	NoRole Role = ""
)

// Report is what an instance says about itself on its Pod, for the manager and for people. All of
// it is coarse, so that it is seldom written: at rest never.
type Report struct {
	Role Role `json:"role,omitempty"`
	// State is one of Starting, Waiting, Standby, Following, Cloning, Promoting, Leading, Stopping
	// and Ended.
	State string `json:"state"`
	// Term is that of the leader, and Timeline that of the data.
	Term     uint64 `json:"term,omitempty"`
	Timeline uint32 `json:"timeline,omitempty"`
	// Quorum is, of a primary, what its commits wait for, as 1/2: one of a set of two. The record says
	// it too; a change of it here tells the manager to look there.
	Quorum string `json:"quorum,omitempty"`
	// Cause is, of a primary, why the previous one no longer leads, as an election.Cause; "" if
	// that is unknown. Gap is for how many seconds there was no primary, as far as this one
	// noticed, rounded up.
	Cause string `json:"cause,omitempty"`
	Gap   int    `json:"gap,omitempty"`
	// Lost is why an instance that led in the term LostTerm no longer leads.
	Lost     string `json:"lost,omitempty"`
	LostTerm uint64 `json:"lostTerm,omitempty"`
	// System is the id of the database system that the data are of; "" without data.
	System string `json:"system,omitempty"`
	// Foreign says what is on the volume that the instance does not touch, and what it needs, as in
	// "has the data of PostgreSQL 16, and needs those of PostgreSQL 17"; "" if it may use the volume.
	Foreign string `json:"foreign,omitempty"`
	// Incarnation is that of the data; "" without data.
	Incarnation string `json:"incarnation,omitempty"`
	// Lag is how far the replay is behind: "" for nothing to speak of, Seconds or Minutes.
	Lag string `json:"lag,omitempty"`
	// Percent is how far a clone is, and Full how full the volume is, both in steps of five.
	Percent int `json:"percent,omitempty"`
	Full    int `json:"full,omitempty"`
	// FullLog is how full the volume of the log is, in such steps too; 0 without one.
	FullLog int `json:"fullLog,omitempty"`
	// Size and SizeLog are how large these volumes are for the instance, in MiB, to about 2 %; 0 is
	// unknown.
	Size    int64 `json:"size,omitempty"`
	SizeLog int64 `json:"sizeLog,omitempty"`
	// Provided is true for a primary that has made the application's role and database.
	Provided bool `json:"provided,omitempty"`
	// Provisions is the revision of the databases and users that a primary has made.
	Provisions string `json:"provisions,omitempty"`
	// Unreplicated is how many bytes of what a primary has written no replica has, at most, as last
	// measured: a power of two. 0 is unknown.
	Unreplicated int64 `json:"unreplicated,omitempty"`
	// Refuses is why a primary accepts no writes at present; "" if it does.
	Refuses string `json:"refuses,omitempty"`
	// PendingRestart is true if a parameter takes effect only after a restart of the server.
	PendingRestart bool `json:"pendingRestart,omitempty"`
	// Problem is what keeps the server from reaching its desired state.
	Problem string `json:"problem,omitempty"`
}

// maxReportBytes limits the report that is read from a Pod, which every client with the right to
// patch Pods can write.
const maxReportBytes = 4 << 10

// ParseReport reads what an instance has written on its Pod.
func ParseReport(text string) (Report, error) {
	var report Report
	if err := bounded.Unmarshal([]byte(text), maxReportBytes, &report); err != nil {
		return Report{}, fmt.Errorf("reading an instance's report: %w", err)
	}
	return report, nil
}
