// Package server is Valkey as the engine of an instance.
//
// A standby is a replica in Valkey's sense from its start on, because only a replica takes no
// writes. Its source never is another server, but the relay: a port on loopback, served by this
// program, that waits until there is a leader to receive from, and then passes on the stream of the
// leader's server. The stream comes through the peers' port, by mutual TLS, so that no password for
// replication exists outside a pod. What the relay does not pass on can't arrive: without a source
// nothing is received, whatever the server tries.
//
// The relay passes on only what continues the data. If the leader would send all of them instead,
// the member's data are rebuilt beside the old ones (Clone), and the election decides when.
//
// A leader that stops cleanly becomes a standby without a source in the same process: so it can
// continue to receive from the next leader without a copy of all data.
package server
