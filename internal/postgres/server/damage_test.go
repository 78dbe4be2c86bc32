package server

import (
	"errors"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
)

func TestDamageIn(t *testing.T) {
	for line, want := range map[string]bool{
		"PANIC:  could not locate a valid checkpoint record at 0/4000080":              true,
		`FATAL:  relation mapping file "global/pg_filenode.map" contains invalid data`: true,
		`PANIC:  could not write to file "pg_wal/xlogtemp.9": No space left on device`: false,
		`PANIC:  could not fsync file "base/1/2": Input/output error`:                  false,
		`FATAL:  could not map anonymous shared memory: Cannot allocate memory`:        false,
		`FATAL:  database files are incompatible with server`:                          false,
		`LOG:  waiting for WAL to become available at 0/5000018`:                       false,
		"see the container's log": false,
	} {
		if got := errors.Is(damageIn(line), engine.ErrDamaged); got != want {
			t.Errorf("%s: got %t", line, got)
		}
	}
}
