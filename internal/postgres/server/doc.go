// Package server runs PostgreSQL 12 to 18 as the engine of an instance: it implements
// [engine.Engine] with the server's own binaries (initdb and postgres, found on the PATH), its
// socket, and its replication protocol.
//
// Nothing that determines from where the server receives, or which clients may connect, is on the
// volume: the configuration is written to the run directory before each start, and the server uses
// the files there. So a server always starts without a source, whatever an earlier process has
// left. The key with which a standby receives is in a directory for its term. To remove a source,
// the key is removed first, so that a receiver that starts late can't connect.
//
// A standby's synchronous_standby_names is never empty. Commits wait only once the checkpointer has
// set a flag in shared memory, which it does some time after the setting was reloaded. As a standby
// has the setting from its start on, the flag is set long before a promotion.
// docs/decisions/20261123-failover.md has the rules.
package server
