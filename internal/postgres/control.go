// Package postgres knows PostgreSQL as an engine of the instances: its control file and its
// positions. Nothing here needs a program of PostgreSQL.
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

// controlBytes is how much of global/pg_control is read: the server writes this much at once, so
// that it is whole after a crash (PG_CONTROL_MAX_SAFE_SIZE of the server's catalog/pg_control.h).
const controlBytes = 512

// State is what the server was doing when it wrote the control file: DBState of the server's
// catalog/pg_control.h.
type State uint32

// The states.
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
	// Major is the version of the server that made the data, from 12 to 18.
	Major int
	// System is the id of the database system, drawn when its data were initialised. All instances of
	// a database have the same.
	System uint64
	State  State
	// Checkpoint is where the last one is, and Timeline is that to which it belongs.
	Checkpoint LSN
	Timeline   uint32
	// MinRecovery is how far a standby must replay before its data are consistent, on
	// MinRecoveryTimeline; 0 on a primary.
	MinRecovery         LSN
	MinRecoveryTimeline uint32
	// MaxConnections and the others are the parameters with which the log was written: a standby with
	// less of one can't replay it.
	MaxConnections, MaxWorkerProcesses, MaxPreparedTransactions, MaxLocksPerTransaction uint32
}

// Needs returns what a standby of these data needs at least, by the names of the parameters.
func (c Control) Needs() map[string]uint32 {
	return map[string]uint32{
		"max_connections": c.MaxConnections, "max_worker_processes": c.MaxWorkerProcesses,
		"max_prepared_transactions": c.MaxPreparedTransactions, "max_locks_per_transaction": c.MaxLocksPerTransaction,
	}
}

// builtIn are the server's own values of these parameters, where none is set.
var builtIn = map[string]float64{
	"max_connections": 100, "max_worker_processes": 8, "max_prepared_transactions": 0, "max_locks_per_transaction": 64,
}

// Raise returns the settings that must come after those, so that a server has what it needs; none
// if it has.
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

// layouts says, for each version of the file, where its checksum is. What is read here is at the
// same place in all of them. Files of all seven servers are in testdata.
var layouts = map[uint32]int{1201: 288, 1300: 288, 1700: 288, 1800: 292}

// majors are the servers by the version of their catalog: the version of the file is the same from
// 13 to 16.
var majors = map[uint32]int{
	201909212: 12, 202007201: 13, 202107181: 14, 202209061: 15, 202307071: 16, 202406281: 17, 202506291: 18,
}

// oldestFile and newestFile are versions of the file that some server has, or will have, in either
// order of bytes: what is outside was written by none.
const oldestFile, newestFile = 700, 9999

func isWritten(version uint32) bool { return version >= oldestFile && version <= newestFile }

// ReadControl reads the content of global/pg_control. Its errors say what was found: a file of
// another version, or one that does not fit its checksum, says nothing about the data. What no
// server has written is engine.ErrDamaged.
func ReadControl(content []byte) (Control, error) {
	if len(content) < controlBytes {
		return Control{}, fmt.Errorf("%w: pg_control has %d bytes, want at least %d", engine.ErrDamaged, len(content), controlBytes)
	}
	number := binary.LittleEndian
	version, catalog := number.Uint32(content[8:]), number.Uint32(content[12:])
	end, known := layouts[version]
	if !isWritten(version) && !isWritten(bits.ReverseBytes32(version)) {
		return Control{}, fmt.Errorf("%w: pg_control has the version %d, which no server writes", engine.ErrDamaged, version)
	}
	if !known {
		return Control{}, fmt.Errorf("pg_control has the version %d: PostgreSQL 12 to 18 are known, on a little-endian machine", version)
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
