package server

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// slot is a replication slot of a member: user is the PID of the process that uses it, 0 if there
// is none, and keeps is from where on it retains the log.
type slot struct {
	user  int
	keeps postgres.LSN
}

// keepTimeout limits one call of keepSlots. Meanwhile the leader is not measured, and after five
// seconds without a measurement the election has to count the members' silence anew.
const keepTimeout = 2 * time.Second

// keepSlots creates a slot for each member. It drops the slots of former members, and unused slots
// that retain more WAL than walKeepMB: their members have to be rebuilt. A slot that is in use, by
// a member that receives or clones, may retain more until the volume is nearly full. end is the end
// of the log.
func (e *Engine) keepSlots(ctx context.Context, session *pgx.Conn, end postgres.LSN) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
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
	most, tight := postgres.LSN(e.walKeepMB())<<20, isTight(filepath.Join(e.Data, "pg_wal"))
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

// hasLogicalSlot reports whether the data have a logical replication slot, or what a crash has left
// of one. What can't be read is none: the server will say so.
//
// Source: ReplicationSlotOnDisk in replication/slot.c of PostgreSQL 12 to 18: 16 bytes of magic
// number, checksum, version and length, a name of 64 bytes, and the OID of the database, which is 0
// for a physical slot.
func hasLogicalSlot(data string) bool {
	const folder, length = "pg_replslot", 16 + 64 + 4
	entries, _ := os.ReadDir(filepath.Join(data, folder))
	return slices.ContainsFunc(entries, func(entry os.DirEntry) bool {
		file, err := os.Open(filepath.Join(data, folder, entry.Name(), "state"))
		if err != nil {
			return false
		}
		defer file.Close()
		content := make([]byte, length)
		_, err = io.ReadFull(file, content)
		return err == nil && binary.NativeEndian.Uint32(content[length-4:]) != 0
	})
}

// dropUsed ends the process that uses a slot, and drops the slot before the member, which
// reconnects within 200 ms, uses it again.
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

// dropForeign drops the unused slots of a standby that are not ours, such as those of subscribers
// when it was the leader: nothing reads from them, so that they would keep the log until the volume
// is full. A leader that is restarted, and leads again, still has them. It is no reason not to
// follow if that fails: the standby tries again when it follows the next time. Copies of the
// leader's slots (version 17) are left out: they can't be dropped, and our settings allow none.
func (e *Engine) dropForeign(ctx context.Context, l *life) {
	ctx, cancel := l.within(ctx)
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, keepTimeout)
	defer stop()
	session, err := e.connect(ctx)
	if err != nil {
		return
	}
	defer disconnect(session)
	query := "SELECT slot_name::text FROM pg_replication_slots WHERE NOT active AND NOT starts_with(slot_name::text, " +
		quote(postgres.SlotPrefix) + ")"
	if l.major >= 17 {
		query += " AND NOT synced"
	}
	rows, err := session.Query(ctx, query)
	if err != nil {
		return
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return
	}
	for _, name := range names {
		if err := drop(ctx, session, name); err != nil && ctx.Err() != nil {
			return
		}
	}
}

// The error codes for a slot that is in use, and for one or a parameter that does not exist
// (errcodes-appendix), and the pause between two attempts to drop a slot.
const (
	objectInUse     = "55006"
	undefinedObject = "42704"
	dropEvery       = 5 * time.Millisecond
)

// drop drops a slot. It is no error if the slot is gone already: that of a clone ends with the
// clone's session.
func drop(ctx context.Context, session *pgx.Conn, name string) error {
	_, err := session.Exec(ctx, "SELECT pg_drop_replication_slot("+quote(name)+")")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == undefinedObject {
		return nil
	}
	return err
}

// slots returns the slots of members, by their names.
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
