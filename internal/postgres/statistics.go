package postgres

// Statistics are what a running server reports about itself, for monitoring. Durations are in
// seconds, and sizes in bytes.
type Statistics struct {
	// Connections is the number of connections of clients and of Mainstay, and MaxConnections is how
	// many there may be.
	Connections, MaxConnections float64
	// OldestTransaction is the age of the oldest running transaction; 0 without one.
	OldestTransaction float64
	// TransactionIDAge is how many transactions ago the oldest row was frozen. The server stops
	// accepting writes shortly before 2^31.
	TransactionIDAge float64
	// ReplayBytes and ReplayTime are how far a standby's replay is behind what it has received, in
	// bytes and in time.
	ReplayBytes, ReplayTime float64
	// Databases are those of the server, the oldest first, at most MaxDatabases.
	Databases []DatabaseStatistics
	// Receivers are the members that receive from this server.
	Receivers []ReceiverStatistics
}

// MaxDatabases is for how many databases at most there are statistics: for each of them the server
// inspects all of its files.
const MaxDatabases = 100

// DatabaseStatistics are the statistics of one database. All except Size are counted since the
// statistics were last reset.
type DatabaseStatistics struct {
	Name                                                                       string
	Size, Commits, Rollbacks, Deadlocks, TemporaryBytes, BlocksRead, BlocksHit float64
}

// ReceiverStatistics say how far a member that receives is behind.
type ReceiverStatistics struct {
	Pod string
	// LagBytes is how much of the log it has not replayed, and LagTime is how long it took until it
	// had replayed what was written last.
	LagBytes, LagTime float64
}
