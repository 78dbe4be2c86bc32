package instances

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mainstay-platform/mainstay/test/ledger"
)

// password is that of the only user who connects from outside.
const password = "only-for-this-test"

// Clients write into a database all the time: some through the write Service, and one on each
// instance, which must not be acknowledged anything beside the primary.
type Clients struct {
	d         *Database
	Ledger    *ledger.Ledger
	published atomic.Pointer[Pod]
}

// writeLimit is for how long a client waits for a login and an answer, and lookEvery how often it
// is found out where the write Service leads.
const (
	writeLimit = 5 * time.Second
	lookEvery  = 10 * time.Millisecond
)

// NewClients makes the table and the user, and starts the clients, which pause that long after each
// write. They end with the test.
func NewClients(t testing.TB, d *Database, pause time.Duration) *Clients {
	t.Helper()
	c := &Clients{d: d, Ledger: ledger.New()}
	_, err := d.Published(t.Context()).SQL("CREATE ROLE app LOGIN PASSWORD '" + password + "';" +
		"CREATE TABLE ledger (client text, seq int); GRANT ALL ON ledger TO app; GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO app")
	d.must(err)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	running := 1
	go func() { c.look(ctx); done <- struct{}{} }()
	for i := range 2 {
		running++
		go func() {
			c.Ledger.Client(ctx, fmt.Sprintf("client-%d", i), pause, writeLimit, (&connection{to: c.published.Load}).write)
			done <- struct{}{}
		}()
	}
	for _, pod := range d.Pods {
		running++
		go func() {
			c.Ledger.Client(ctx, "on-"+pod.Name, 50*pause, writeLimit, (&connection{to: func() *Pod { return pod }}).write)
			done <- struct{}{}
		}()
	}
	t.Cleanup(func() {
		end()
		for range running {
			<-done
		}
	})
	return c
}

// look finds out where the write Service leads, as kube-proxy does.
func (c *Clients) look(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(lookEvery) {
		if pod := c.d.Published(ctx); pod != nil {
			c.published.Store(pod)
		}
	}
}

// Check compares the ledger with the rows of the primary. A server that has just become a replica
// may lack the last ones: it fails to divide by zero instead.
func (c *Clients) Check() []string {
	c.d.t.Helper()
	var asked time.Time
	var output, said string
	c.d.Await("rows of the primary", func() bool {
		pod := c.d.Published(context.Background())
		if pod == nil {
			return false
		}
		asked = time.Now()
		var err error
		output, err = pod.SQL("SELECT client || ' ' || seq FROM ledger WHERE 1 / (NOT pg_is_in_recovery())::int = 1")
		if err != nil && err.Error() != said {
			said = err.Error()
			c.d.t.Logf("the rows of %s: %s", pod.Name, said)
		}
		return err == nil
	})
	var rows []ledger.Entry
	for line := range strings.Lines(output) {
		var row ledger.Entry
		if _, err := fmt.Sscanf(line, "%s %d", &row.Client, &row.Seq); err != nil {
			return []string{fmt.Sprintf("the row %q: %v", line, err)}
		}
		rows = append(rows, row)
	}
	return append(c.Ledger.Check(rows, asked), c.Ledger.TwoAtOnce()...)
}

// connection is the connection of one client, which it keeps while it works.
type connection struct {
	to      func() *Pod
	at      *Pod
	session *pgx.Conn
}

// write implements [ledger.Write].
func (c *connection) write(ctx context.Context, entry ledger.Entry) (string, error) {
	if pod := c.to(); c.session == nil || pod != c.at {
		if err := c.connect(ctx, pod); err != nil {
			return "", err
		}
	}
	var file string
	err := c.session.QueryRow(ctx, "INSERT INTO ledger VALUES ($1, $2) RETURNING pg_walfile_name(pg_current_wal_insert_lsn())",
		entry.Client, entry.Seq).Scan(&file)
	if err != nil {
		c.close()
		return "", err
	}
	const timelineDigits = 8
	return c.at.Name + "/" + file[:timelineDigits], nil
}

func (c *connection) connect(ctx context.Context, pod *Pod) error {
	c.close()
	if pod == nil {
		return errors.New("no address is published")
	}
	config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=app password=%s dbname=postgres sslmode=require",
		pod.Address, serverPort, password))
	if err != nil {
		return err
	}
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // this is a test's server
	if c.session, err = pgx.ConnectConfig(ctx, config); err != nil {
		c.session = nil
		return err
	}
	c.at = pod
	return nil
}

func (c *connection) close() {
	if c.session == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_ = c.session.Close(ctx)
	c.session = nil
}

// acknowledged is how many writes were.
func (c *Clients) acknowledged() int {
	count, _, _ := c.Ledger.Acknowledged()
	return count
}
