package server

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestContested: what fails because of other transactions is tried again, and nothing else.
func TestContested(t *testing.T) {
	refused := func(code, message string) error { return &pgconn.PgError{Code: code, Message: message} }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"nothing failed":         {nil, false},
		"a lock":                 {refused("55P03", "canceling statement due to lock timeout"), true},
		"a deadlock":             {refused("40P01", "deadlock detected"), true},
		"another change":         {refused("XX000", "tuple concurrently updated"), true},
		"within another error":   {fmt.Errorf("copying: %w", refused("55P03", "canceling statement due to lock timeout")), true},
		"another internal error": {refused("XX000", "cache lookup failed for role 7"), false},
		"the statement_timeout":  {refused("57014", "canceling statement due to statement timeout"), false},
		"not of the server":      {errors.New("unexpected EOF"), false},
	} {
		if got := isContested(test.err); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
