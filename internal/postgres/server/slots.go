package server

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// slot is what a slot of a member keeps, and the process that uses it, 0 if none does.
type slot struct {
	user  int
	keeps postgres.LSN
}

// keepTime bounds how long the slots are kept. Meanwhile the leader is not measured, and after five
// seconds without a measure an election begins anew to watch who receives.
const keepTime = 2 * time.Second

// keepSlots creates a slot for each member, and drops those of former members, and those that
// retain more WAL than a standby may lack: such a member has to be rebuilt. One that receives or
// clones may take its time, until the volume is nearly full.
func (e *Engine) keepSlots(ctx context.Context, session *pgx.Conn, end postgres.LSN) error {
	ctx, cancel := context.WithTimeout(ctx, keepTime)
	defer cancel()
	found, err := slots(ctx, session)
	if err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, member := range e.Members() {
		name, err := postgres.SlotName(member)
		if err != nil || member == e.Me() {
			// A peer without data has no name yet, and receives nothing.
			continue
		}
		wanted[name] = true
		if _, exists := found[name]; !exists {
			if _, err := session.Exec(ctx, "SELECT pg_create_physical_replication_slot("+quote(name)+")"); err != nil {
				return fmt.Errorf("making the slot of %s: %w", member.Name, err)
			}
		}
	}
	most, tight := postgres.LSN(e.keeps())<<20, isTight(filepath.Join(e.Data, "pg_wal"))
	for name, s := range found {
		tooFar := s.keeps != 0 && s.keeps+most < end
		var err error
		switch {
		case s.user != 0 && tooFar && tight:
			err = e.dropUsed(ctx, session, name, s.user)
		case s.user == 0 && (tooFar || !wanted[name]):
			err = drop(ctx, session, name)
		}
		if err != nil {
			return fmt.Errorf("dropping a slot: %w", err)
		}
	}
	return nil
}

// dropUsed ends the process that uses a slot, and drops that before the member is back, which tries
// again five times a second.
func (e *Engine) dropUsed(ctx context.Context, session *pgx.Conn, name string, user int) error {
	if _, err := session.Exec(ctx, "SELECT pg_terminate_backend($1)", user); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	for {
		err := drop(ctx, session, name)
		var refused *pgconn.PgError
		if err == nil || !errors.As(err, &refused) || refused.Code != objectInUse {
			return err
		}
		if err := e.pause(ctx, dropEvery); err != nil {
			return err
		}
	}
}

// Errors of a slot that a process uses, and of one that is gone (errcodes-appendix); and how often
// it is tried to drop one.
const (
	objectInUse     = "55006"
	undefinedObject = "42704"
	dropEvery       = 5 * time.Millisecond
)

// drop drops a slot, unless that is gone: that of a clone ends with its process.
func drop(ctx context.Context, session *pgx.Conn, name string) error {
	_, err := session.Exec(ctx, "SELECT pg_drop_replication_slot("+quote(name)+")")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == undefinedObject {
		return nil
	}
	return err
}

// slots returns the slots of members.
func slots(ctx context.Context, session *pgx.Conn) (map[string]slot, error) {
	rows, err := session.Query(ctx, "SELECT slot_name::text, coalesce(active_pid, 0), coalesce(restart_lsn::text, '0/0') FROM pg_replication_slots"+
		" WHERE slot_type = 'physical' AND starts_with(slot_name::text, "+quote(postgres.SlotPrefix)+")")
	if err != nil {
		return nil, fmt.Errorf("asking for the slots: %w", err)
	}
	found := map[string]slot{}
	var name, keeps string
	var s slot
	_, err = pgx.ForEachRow(rows, []any{&name, &s.user, &keeps}, func() error {
		var err error
		s.keeps, err = postgres.ParseLSN(keeps)
		found[name] = s
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("asking for the slots: %w", err)
	}
	return found, nil
}
