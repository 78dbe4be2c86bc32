package instances

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestPoolerSlowPrimary: a primary that takes long for each answer serves the clients of a pooler
// slowly. They are held back once at most, and the connections to it are not made anew again and
// again.
func TestPoolerSlowPrimary(t *testing.T) {
	t.Parallel()
	const lag = 4500 * time.Millisecond // With the pause before it, longer than a primary may be silent.
	const held = "statements are held back"
	d := New(t, server, contract.Settings{FailoverAfter: longAfter}, 1)
	d.mount(map[string]string{"username": "app", "password": "secret", "dbname": "shop"})
	d.Await("an instance that serves", func() bool { return d.IsWhole(t.Context()) })
	d.declare(contract.Provisions{Pooler: true})
	d.serve()
	p := newPooler(d)
	var session *pgx.Conn
	execute := func() (err error) {
		if session == nil {
			if session, err = p.connect(t.Context(), "secret"); err != nil {
				session = nil
				return err
			}
		}
		_, err = session.Exec(t.Context(), "SELECT 1", pgx.QueryExecModeSimpleProtocol)
		return err
	}
	said := func(what string) int {
		text, err := os.ReadFile(p.log)
		d.must(err)
		return strings.Count(string(text), what)
	}
	d.Await("a statement through the pooler", func() bool { return execute() == nil })
	defer func() { _ = session.Close(context.Background()) }()
	// While the primary is slow, the pooler gets no session of its own with it.
	d.Await("a session of the pooler with the primary", p.isReady)
	d.lag.Store(int64(lag))
	d.Await("end of the first silence", func() bool { return said(held) > 0 && said("the primary was slow") > 0 })
	for range 4 {
		begun := time.Now()
		if err := execute(); err != nil {
			t.Errorf("a statement fails after %s: %v", time.Since(begun).Round(time.Millisecond), err)
		}
		t.Logf("a statement took %s", time.Since(begun).Round(time.Millisecond))
	}
	if count := said(held); count != 1 {
		t.Errorf("statements were held back %d times", count)
	}
	if count := said("RECONNECT"); count > 0 {
		t.Errorf("PgBouncer made all connections anew %d times", count)
	}
}
