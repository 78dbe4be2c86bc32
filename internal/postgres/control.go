// Package postgres is what an instance needs to know about PostgreSQL: its control file, positions
// and histories, parameters, access rules, names and passwords. It runs no program of PostgreSQL,
// and does no I/O.
package postgres

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

// controlBytes is how many bytes of global/pg_control are read: the server writes them at once, so
// that they are complete after a crash (PG_CONTROL_MAX_SAFE_SIZE of the server's
// catalog/pg_control.h).
const controlBytes = 512

// State is what the server was doing when it wrote the control file: DBState of the server's
// catalog/pg_control.h.
type State uint32

// The states, as the server numbers them.
const (
	StartingUp State = iota
	ShutDown
	ShutDownInRecovery
	ShuttingDown
	InCrashRecovery
	InArchiveRecovery
	InProduction
)

// Control is what global/pg_control says about the data of a server that does not run.
type Control struct {
	// Major is the major version of the server that made the data, from 12 to 18.
	Major int
	// System is the ID of the database system, drawn when its data were initialised. All instances of
	// a database have the same ID.
	System uint64
	State  State
	// Checkpoint is where the last checkpoint begins, and Timeline is the timeline to which it
	// belongs.
	Checkpoint LSN
	Timeline   uint32
	// MinRecovery is up to where, on MinRecoveryTimeline, a standby must replay before its data are
	// consistent; both are 0 on a primary from its first checkpoint on.
	MinRecovery         LSN
	MinRecoveryTimeline uint32
	// MaxConnections and the others are the parameters of the server that wrote the log. A standby
	// with a lower value of one of them can't replay the log.
	MaxConnections, MaxWorkerProcesses, MaxPreparedTransactions, MaxLocksPerTransaction uint32
}

// Needs returns the lowest values with which a standby can replay these data, by the names of the
// parameters.
func (c Control) Needs() map[string]uint32 {
	return map[string]uint32{
		"max_connections": c.MaxConnections, "max_worker_processes": c.MaxWorkerProcesses,
		"max_prepared_transactions": c.MaxPreparedTransactions, "max_locks_per_transaction": c.MaxLocksPerTransaction,
	}
}

// builtIn are the server's defaults of these parameters.
var builtIn = map[string]float64{
	"max_connections": 100, "max_worker_processes": 8, "max_prepared_transactions": 0, "max_locks_per_transaction": 64,
}

// Raise returns the settings to append to the given ones, so that the server has at least the
// values in needs; none if it has them already.
func Raise(settings []Setting, needs map[string]uint32) []Setting {
	var raised []Setting
	for name, least := range needs {
		has := builtIn[name]
		for _, setting := range settings {
			if value, err := strconv.ParseFloat(setting.Value, 64); err == nil && setting.Name == name {
				has = value
			}
		}
		if has < float64(least) {
			raised = append(raised, Setting{Name: name, Value: strconv.FormatUint(uint64(least), 10)})
		}
	}
	slices.SortFunc(raised, func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
	return raised
}

// layouts are the offsets of the checksum, by the version of the file. All other fields that are
// read here have the same offsets in all versions. testdata has files of all seven servers.
var layouts = map[uint32]int{1201: 288, 1300: 288, 1700: 288, 1800: 292}

// majors are the major versions by the version of the catalog, because the version of the file is
// the same from 13 to 16.
var majors = map[uint32]int{
	201909212: 12, 202007201: 13, 202107181: 14, 202209061: 15, 202307071: 16, 202406281: 17, 202506291: 18,
}

// oldestFile and newestFile limit the versions of the file that servers write, or will write, in
// either order of bytes. No server has written a file with another version.
const oldestFile, newestFile = 700, 9999

func isWritten(version uint32) bool { return version >= oldestFile && version <= newestFile }

// ReadControl parses the content of global/pg_control. Its errors say what was found. An error is
// engine.ErrDamaged if no server can have written the file, and not if the file is of an unknown
// version.
func ReadControl(content []byte) (Control, error) {
	if len(content) < controlBytes {
		return Control{}, fmt.Errorf("%w: pg_control has %d bytes, and must have at least %d", engine.ErrDamaged, len(content), controlBytes)
	}
	number := binary.LittleEndian
	version, catalog := number.Uint32(content[8:]), number.Uint32(content[12:])
	end, known := layouts[version]
	if !isWritten(version) && !isWritten(bits.ReverseBytes32(version)) {
		return Control{}, fmt.Errorf("%w: pg_control has the version %d, which no server writes", engine.ErrDamaged, version)
	}
	if !known {
		return Control{}, fmt.Errorf("pg_control has the version %d: only PostgreSQL 12 to 18 on little-endian machines is supported", version)
	}
	if crc32.Checksum(content[:end], crc32.MakeTable(crc32.Castagnoli)) != number.Uint32(content[end:]) {
		return Control{}, fmt.Errorf("%w: pg_control does not match its checksum", engine.ErrDamaged)
	}
	major, known := majors[catalog]
	if !known {
		return Control{}, fmt.Errorf("pg_control is of a catalog version %d, which no release from 12 to 18 has", catalog)
	}
	control := Control{
		Major: major, System: number.Uint64(content), State: State(number.Uint32(content[16:])),
		Checkpoint: LSN(number.Uint64(content[32:])), Timeline: number.Uint32(content[48:]),
		MinRecovery: LSN(number.Uint64(content[136:])), MinRecoveryTimeline: number.Uint32(content[144:]),
		MaxConnections: number.Uint32(content[180:]), MaxWorkerProcesses: number.Uint32(content[184:]),
		MaxPreparedTransactions: number.Uint32(content[192:]), MaxLocksPerTransaction: number.Uint32(content[196:]),
	}
	if control.State > InProduction {
		return Control{}, fmt.Errorf("pg_control has the state %d, which is unknown", control.State)
	}
	return control, nil
}
