package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestHasLogicalSlot: a physical slot, and what is no slot, need no other wal_level.
func TestHasLogicalSlot(t *testing.T) {
	data := t.TempDir()
	add := func(name string, database uint32, length int) {
		t.Helper()
		state := make([]byte, 200)
		binary.NativeEndian.PutUint32(state[80:], database)
		folder := filepath.Join(data, "pg_replslot", name)
		if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(filepath.Join(folder, "state"), state[:length], 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if hasLogicalSlot(data) {
		t.Error("there is no slot")
	}
	add("physical", 0, 200)
	add("broken", 5, 83)
	if hasLogicalSlot(data) {
		t.Error("a physical slot is a logical one")
	}
	add("logical", 16384, 200)
	if !hasLogicalSlot(data) {
		t.Error("a logical slot is none")
	}
}

// TestHasNoTransactionIDs: this error alone says nothing of the disk.
func TestHasNoTransactionIDs(t *testing.T) {
	for code, want := range map[string]bool{"54000": true, "53100": false, "57P01": false} {
		if got := hasNoTransactionIDs(fmt.Errorf("writing: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%s: got %t", code, got)
		}
	}
	if hasNoTransactionIDs(errors.New("54000")) {
		t.Error("another error counts")
	}
}
