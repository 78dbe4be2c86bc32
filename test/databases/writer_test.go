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

// writer writes into a database all the time, as an application does: through the write Service,
// with what the application's Secret says, and with one connection for as long as that works.
type writer struct {
	Ledger *ledger.Ledger
	d      *database
	config *pgx.ConnConfig
}

// newWriter makes the table and starts the client, which ends with the test.
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
	w := &writer{Ledger: ledger.New(), d: d, config: config}
	primary := d.postgreSQL().Status.Primary
	d.sql(primary, "app", "GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO app")
	d.sql(primary, "app", "SET ROLE app; CREATE TABLE ledger (client text, seq int)")
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.Ledger.Client(ctx, "client", writeEvery, statementLimit, (&connection{config: config}).write)
		close(done)
	}()
	t.Cleanup(func() { end(); <-done })
	w.awaitMore("first acknowledged writes")
	return w
}

// awaitMore waits until some more writes were acknowledged.
func (w *writer) awaitMore(what string) {
	w.d.t.Helper()
	before, _, _ := w.Ledger.Acknowledged()
	eventually(w.d.t, what, func() bool {
		now, _, _ := w.Ledger.Acknowledged()
		return now > before+20
	})
}

// check compares what the client was told with the rows that are there.
func (w *writer) check() []string {
	ctx, cancel := context.WithTimeout(w.d.t.Context(), within)
	defer cancel()
	session, err := pgx.ConnectConfig(ctx, w.config)
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
	return append(w.Ledger.Check(found, asked), w.Ledger.TwoAtOnce()...)
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
