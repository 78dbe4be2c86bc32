//go:build e2e

package databases

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/test/ledger"
)

// A client writes every writeEvery, and gives a statement up after statementLimit.
const (
	writeEvery     = 10 * time.Millisecond
	statementLimit = time.Second
)

// through is the client that writes through the Service.
const through = "client"

// writer writes into a database all the time, as an application does: through the write Service,
// with what the application's Secret says, and with one connection for as long as that works.
type writer struct {
	Ledger *ledger.Ledger
	d      *database
	// compare compares what the client was told with what is there. mayLose is whether the last
	// writes before the fault may be lost where no write waits for a replica.
	compare func(ctx context.Context, mayLose bool) []string
}

// newWriter makes the table of a PostgreSQL and starts the client.
func newWriter(t *testing.T, d *database) *writer {
	t.Helper()
	var secret corev1.Secret
	d.get(name+"-app", &secret)
	var service corev1.Service
	d.get(name+"-rw", &service)
	at := url.URL{Scheme: "postgresql", Host: fmt.Sprintf("%s:%d", service.Spec.ClusterIP, service.Spec.Ports[0].Port),
		User: url.UserPassword(string(secret.Data["username"]), string(secret.Data["password"])), Path: string(secret.Data["dbname"]),
		RawQuery: "sslmode=require&connect_timeout=1"}
	config, err := pgx.ParseConfig(at.String())
	d.must(err)
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the name in it is not that of the address
	primary := d.postgreSQL().Status.Primary
	d.sql(primary, "app", "GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO app")
	d.sql(primary, "app", "SET ROLE app; CREATE TABLE ledger (client text, seq int)")
	w := &writer{Ledger: ledger.New(), d: d}
	w.compare = func(ctx context.Context, _ bool) []string { return compareRows(ctx, config, w.Ledger) }
	w.start((&connection{config: config}).write)
	return w
}

// start starts the client, which ends with the test.
func (w *writer) start(write ledger.Write) {
	w.d.t.Helper()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.Ledger.Client(ctx, through, writeEvery, statementLimit, write)
		close(done)
	}()
	w.d.t.Cleanup(func() { end(); <-done })
	w.awaitMore("first acknowledged writes")
}

// awaitMore waits until some more writes were acknowledged.
func (w *writer) awaitMore(what string) {
	w.d.t.Helper()
	before := w.Ledger.AcknowledgedTo(through)
	eventually(w.d.t, what, func() bool { return w.Ledger.AcknowledgedTo(through) > before+20 })
}

// check returns what is wrong: what the client was told is not there, or two servers took writes at
// once.
func (w *writer) check(mayLose bool) []string {
	ctx, cancel := context.WithTimeout(w.d.t.Context(), within)
	defer cancel()
	return append(w.compare(ctx, mayLose), w.Ledger.TwoAtOnce()...)
}

// compareRows compares what the client was told with the rows that are there.
func compareRows(ctx context.Context, config *pgx.ConnConfig, told *ledger.Ledger) []string {
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = session.Close(ctx) }()
	asked := time.Now()
	rows, err := session.Query(ctx, "SELECT client, seq FROM ledger")
	if err != nil {
		return []string{err.Error()}
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Entry])
	if err != nil {
		return []string{err.Error()}
	}
	return told.Check(found, asked)
}

// connection is the connection of a client, which it keeps while it works.
type connection struct {
	config  *pgx.ConnConfig
	session *pgx.Conn
}

// write implements [ledger.Write]. A server's life as the primary is its address and timeline.
func (c *connection) write(ctx context.Context, entry ledger.Entry) (string, error) {
	if c.session == nil {
		made, err := pgx.ConnectConfig(ctx, c.config)
		if err != nil {
			return "", err
		}
		c.session = made
	}
	var server string
	err := c.session.QueryRow(ctx, "INSERT INTO ledger VALUES ($1, $2) RETURNING "+
		"host(inet_server_addr()) || '/' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)", entry.Client, entry.Seq).Scan(&server)
	if err != nil {
		ended, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_ = c.session.Close(ended)
		c.session = nil
		return "", err
	}
	return server, nil
}
