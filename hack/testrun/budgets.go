package main

import "time"

// The kinds on which budgets depend.
const (
	// firstKinds were there when it was promised that `make test` takes 20 minutes.
	firstKinds = 5
	// laterKinds have come since: AppStack, PostgreSQL, Cache and EcommercePlatform.
	laterKinds = 4
	// plannedKinds are the later ones when all are there, at most: then `make test` takes 35
	// minutes.
	plannedKinds = 10
)

// What each later kind may add to a layer.
const (
	pureAllowance        = 10 * time.Second
	integrationAllowance = 25 * time.Second
	faultsAllowance      = 25 * time.Second
	endToEndAllowance    = 75 * time.Second
)

// databasesAllowance is what faults of a database on the cluster add to `make test`, on top of its
// 20 minutes. A failover waits for time-outs, so no faster machine and no other test makes it
// shorter.
const databasesAllowance = 5 * time.Minute

// limit returns how long the layer may take. It is printed next to the time taken. Exceeding it is
// a reason to investigate, not a failure. The limits of a lane make up the promise about `make
// test`.
func (l layer) limit() time.Duration { return l.limitWith(laterKinds) }

// limitWith returns how long the layer may take with so many kinds beside the first ones.
func (l layer) limitWith(later int) time.Duration {
	return l.budget + time.Duration(later)*l.perKind
}
