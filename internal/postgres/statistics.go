package postgres

// Statistics are what a running server reports about itself, for monitoring. Durations are in
// seconds.
type Statistics struct {
	// Connections are those of clients, and of ours; MaxConnections is how many there may be.
	Connections, MaxConnections float64
	// OldestTransaction is for how long the transaction runs that began first; 0 without one.
	OldestTransaction float64
	// TransactionIDAge is how many transactions ago the oldest row was frozen. The server stops taking
	// writes shortly before 2^31.
	TransactionIDAge float64
	// ReplayBytes and ReplayTime are how far a standby's replay is behind what it has received.
	ReplayBytes, ReplayTime float64
	// Databases are at most MaxDatabases, those that were made first.
	Databases []DatabaseStatistics
	// Receivers are the members that receive from this server.
	Receivers []ReceiverStatistics
}

// MaxDatabases is of how many databases there are statistics: each costs a look at all its files.
const MaxDatabases = 100

// DatabaseStatistics are those of one database. All but Size count since the statistics were reset.
type DatabaseStatistics struct {
	Name                                                                       string
	Size, Commits, Rollbacks, Deadlocks, TemporaryBytes, BlocksRead, BlocksHit float64
}

// ReceiverStatistics are how far a member is behind that receives.
type ReceiverStatistics struct {
	Pod string
	// LagBytes are those of the log that it has not replayed, and LagTime is how long it took until
	// it had replayed what was written last.
	LagBytes, LagTime float64
}
