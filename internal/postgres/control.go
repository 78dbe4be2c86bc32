// Package postgres knows PostgreSQL as an engine of the instances: its control file and its
// positions. Nothing here needs a program of PostgreSQL.
package postgres

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
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
}

// layouts says, for each version of the file, where its checksum is. What is read here is at the
// same place in all of them. Files of all seven servers are in testdata.
var layouts = map[uint32]int{1201: 288, 1300: 288, 1700: 288, 1800: 292}

// majors are the servers by the version of their catalog: the version of the file is the same from
// 13 to 16.
var majors = map[uint32]int{
	201909212: 12, 202007201: 13, 202107181: 14, 202209061: 15, 202307071: 16, 202406281: 17, 202506291: 18,
}

// ReadControl reads the content of global/pg_control. Its errors say what was found: a file of
// another version, or one that does not fit its checksum, says nothing about the data.
func ReadControl(content []byte) (Control, error) {
	if len(content) < controlBytes {
		return Control{}, fmt.Errorf("pg_control has %d bytes, want at least %d", len(content), controlBytes)
	}
	number := binary.LittleEndian
	version, catalog := number.Uint32(content[8:]), number.Uint32(content[12:])
	end, known := layouts[version]
	if !known {
		return Control{}, fmt.Errorf("pg_control has the version %d: PostgreSQL 12 to 18 are known, on a little-endian machine", version)
	}
	if crc32.Checksum(content[:end], crc32.MakeTable(crc32.Castagnoli)) != number.Uint32(content[end:]) {
		return Control{}, errors.New("pg_control does not fit its checksum")
	}
	major, known := majors[catalog]
	if !known {
		return Control{}, fmt.Errorf("pg_control is of a catalog version %d, which no release from 12 to 18 has", catalog)
	}
	control := Control{
		Major: major, System: number.Uint64(content), State: State(number.Uint32(content[16:])),
		Checkpoint: LSN(number.Uint64(content[32:])), Timeline: number.Uint32(content[48:]),
		MinRecovery: LSN(number.Uint64(content[136:])), MinRecoveryTimeline: number.Uint32(content[144:]),
	}
	if control.State > InProduction {
		return Control{}, fmt.Errorf("pg_control has the state %d, which is unknown", control.State)
	}
	return control, nil
}
