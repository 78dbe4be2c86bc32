// Package server runs PostgreSQL 12 to 18 as the engine of an instance: it implements
// [engine.Engine] with the server's own binaries (initdb and postgres, found on the PATH), its
// socket, and its replication protocol.
//
// Nothing that determines where the server receives from, or which clients may connect, is on the
// volume: the configuration is written to the run directory before each start, and the server uses
// the files there. So a server always starts without a source, whatever an earlier process left.
// The key with which a standby receives is in a directory of its term; it is removed first, so that
// a receiver that starts late can't connect.
//
// A standby's synchronous_standby_names is never empty. The flag by which commits know that they
// have to wait is set by the checkpointer some time after a reload; so it is set long before the
// promotion. docs/decisions/20261123-failover.md has the rules.
package server
