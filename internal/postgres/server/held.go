package server

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/instance/election"
)

// held is the session in which the last clone was made, guarded by Engine.mu. Its temporary slot
// makes the leader keep what the copy does not contain, while the new server replays what it does,
// and until the server's own slot does so. Nothing is sent in the session: if its connection
// breaks, only wal_keep_size is left.
type held struct {
	leader election.Member
	// close ends the session; nil means that there is none. It may wait for the leader.
	close func()
}

// hold keeps the session of a clone from the leader open, in place of an earlier one.
func (e *Engine) hold(leader election.Member, closeSession func()) {
	e.release()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = held{leader: leader, close: closeSession}
}

// release ends the session of the last clone, if there is one, without waiting for that.
func (e *Engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held.close != nil {
		go e.held.close()
	}
	e.held = held{}
}

// releaseOther ends the session of the last clone if that was made from another member than the
// leader.
func (e *Engine) releaseOther(leader election.Member) {
	e.mu.Lock()
	isOther := e.held.leader != leader
	e.mu.Unlock()
	if isOther {
		e.release()
	}
}

// closeTimeout is how long the end of a replication session may take if the leader hangs.
const closeTimeout = 2 * time.Second

// closeSource ends a replication session.
func closeSource(source *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = source.Close(ctx)
}

// reportsEnough is in how many measurements in a row a standby must have received, so that its own
// slot keeps the log from then on: the slot keeps what comes after the standby's first report, and
// it reports every second.
const reportsEnough = 12
