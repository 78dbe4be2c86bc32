package server

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// slot is what a slot of a member keeps. One that is lost has kept more than it may, and serves
// nobody any more.
type slot struct {
	active, lost bool
	keeps        postgres.LSN
}

// keepSlots makes a slot for each member, and drops those of members that are no more, or that keep
// more of the log than a standby may lack: such a member has to be made anew.
func (e *Engine) keepSlots(ctx context.Context, session *pgx.Conn, end postgres.LSN) error {
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
	most := postgres.LSN(e.keeps()) << 20
	for name, s := range found {
		tooFar := s.lost || s.keeps != 0 && s.keeps+most < end
		if s.active || wanted[name] && !tooFar {
			continue
		}
		if _, err := session.Exec(ctx, "SELECT pg_drop_replication_slot("+quote(name)+")"); err != nil {
			return fmt.Errorf("dropping a slot: %w", err)
		}
	}
	return nil
}

// slots returns the slots of members.
func slots(ctx context.Context, session *pgx.Conn) (map[string]slot, error) {
	rows, err := session.Query(ctx, "SELECT slot_name::text, active, coalesce(restart_lsn::text, '0/0'),"+
		// Versions before 13 have no such column.
		" coalesce(to_jsonb(s)->>'wal_status' = 'lost', false) FROM pg_replication_slots s"+
		" WHERE slot_type = 'physical' AND starts_with(slot_name::text, "+quote(postgres.SlotPrefix)+")")
	if err != nil {
		return nil, fmt.Errorf("asking for the slots: %w", err)
	}
	found := map[string]slot{}
	var name, keeps string
	var s slot
	_, err = pgx.ForEachRow(rows, []any{&name, &s.active, &keeps, &s.lost}, func() error {
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
