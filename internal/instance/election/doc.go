// Package election decides which instance of a database leads, and what each instance does next. It
// is pure, and independent of the database engine.
//
// Safety depends on promises and on sets of members that intersect, not on clocks. A Lease assigns
// terms and stores the record: the leader, and the rules by which acknowledged writes are
// replicated. A candidate claims the record, and collects promises from so many members that every
// acknowledged write is on one of them. Each of these stops receiving from other members before it
// reports its position.
//
// Observed is all that an instance knows. Its methods note messages and results, Decide returns the
// next action, and the program carries it out and notes the result. Points in time are durations
// since the start of the program (Observed.Now), and 0 means never.
// docs/decisions/20261123-failover.md describes the protocol, with its rules R1 to R18.
// test/simulation tests it.
package election
