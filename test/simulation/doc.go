// Package simulation tries the election of internal/instance/election: the real decisions, with
// simulated servers, peers, Lease and clocks. A schedule is drawn from a seed: crashes, pauses,
// partitions, lost answers, wiped volumes, restored records. After every step the invariants I1 to
// I10 of docs/decisions/20261123-failover.md are checked.
package simulation
