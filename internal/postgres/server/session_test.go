package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestIsLasting: what the server can't do at the moment is tried again, and what it would refuse
// again is not.
func TestIsLasting(t *testing.T) {
	for code, want := range map[string]bool{
		"40001": false, "53300": false, "55P03": false, "57P03": false, "57014": false, "3D000": true, "42501": true, "28000": true,
	} {
		err := fmt.Errorf("asking the server: %w", &pgconn.PgError{Code: code})
		if got := isLasting(err); got != want {
			t.Errorf("%s: got %t", code, got)
		}
	}
	if isLasting(errors.New("i/o timeout")) || !isLasting(pgx.ScanArgError{Err: errors.New("no number")}) {
		t.Error("no answer lasts, or an answer that can't be read does not")
	}
}
