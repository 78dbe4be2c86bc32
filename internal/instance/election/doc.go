// Package election decides which instance of a database leads, and what every instance does about
// it: pure, and without knowing any database.
//
// Safety rests on promises and on sets that intersect, not on clocks. A Lease hands out terms and
// holds the record: who leads, and by which rules acknowledged writes are spread. Who wants to lead
// claims the record, and collects promises from so many members that every acknowledged write is on
// one of them; each has stopped receiving from anybody else before it says what it has.
//
// Observed is all that an instance knows. Its methods note what was heard; Decide says what to do
// next; the program does it, and notes what became of it. docs/decisions/20261123-failover.md is
// the protocol, with its rules R1 to R18. It is tried in test/simulation.
package election
