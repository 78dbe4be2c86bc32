// Package server runs Valkey as the engine of an instance.
//
// A standby is a replica in Valkey's sense from its start on, because only a replica accepts no
// writes. Its source is never another server, but the relay: a port on loopback, served by this
// program. The relay waits until there is a leader to receive from, and then passes on the stream
// of the leader's server. The stream comes through the peers' port, by mutual TLS, so that no
// password for replication exists outside a pod. Without a source, the relay passes on nothing, so
// nothing is received, whatever the server tries.
//
// The relay passes on only what continues the data. If the leader would send all data instead, the
// member's data are rebuilt beside the old ones (Clone), and the election decides when.
//
// A leader that stops cleanly becomes a standby without a source in the same process, so that it
// can continue with the next leader's stream, without a copy of all data.
package server
