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

// writeEvery is the time between two writes of a client.
const writeEvery = 10 * time.Millisecond

// statementLimit returns after how long a client gives a login or a statement up. With -brief other
// tests run beside it, and a login alone may take seconds.
func statementLimit() time.Duration {
	if *brief {
		return 5 * time.Second
	}
	return time.Second
}

// through is the client that writes through the Service of the database, and throughPooler the one
// that writes through that of its pooler.
const through, throughPooler = "client", "pooled client"

// writer writes into a database all the time, as an application does: through the write Service,
// with what the application's Secret says, and with one connection for as long as that works.
type writer struct {
	Ledger *ledger.Ledger
	d      *database
	// clients are the names of those that write.
	clients []string
	// compare compares what the client was told with what is there. mayLose is whether the last
	// writes before the fault may be lost where no write waits for a replica.
	compare func(ctx context.Context, mayLose bool) []string
}

// newWriter makes the table of a PostgreSQL and starts the client, and the one of the pooler if
// there is a pooler.
func newWriter(t *testing.T, d *database) *writer {
	t.Helper()
	config := d.connects(name+"-app", name+"-rw")
	primary := d.postgreSQL().Status.Primary
	d.sql(primary, "app", "GRANT EXECUTE ON FUNCTION pg_walfile_name(pg_lsn) TO app")
	d.sql(primary, "app", "SET ROLE app; CREATE TABLE ledger (client text, seq int)")
	w := &writer{Ledger: ledger.New(), d: d}
	w.compare = func(ctx context.Context, _ bool) []string {
		patient := config.Copy()
		patient.ConnectTimeout = patience
		return compareRows(ctx, patient, w.Ledger)
	}
	w.start(through, (&connection{config: config}).write)
	if d.postgreSQL().Spec.Pooler != nil {
		w.start(throughPooler, (&connection{config: d.connects(name+"-pooler", name+"-pooler")}).write)
	}
	return w
}

// connects returns how a client connects to a Service with what a Secret says.
func (d *database) connects(secretName, serviceName string) *pgx.ConnConfig {
	d.t.Helper()
	var secret corev1.Secret
	d.get(secretName, &secret)
	var service corev1.Service
	d.get(serviceName, &service)
	at := url.URL{Scheme: "postgresql", Host: fmt.Sprintf("%s:%d", service.Spec.ClusterIP, service.Spec.Ports[0].Port),
		User: url.UserPassword(string(secret.Data["username"]), string(secret.Data["password"])), Path: string(secret.Data["dbname"]),
		RawQuery: "sslmode=require"}
	config, err := pgx.ParseConfig(at.String())
	d.must(err)
	config.ConnectTimeout = statementLimit()
	config.TLSConfig = &tls.Config{InsecureSkipVerify: true} //nolint:gosec // the name in it is not that of the address
	return config
}

// start starts a client, which ends with the test.
func (w *writer) start(client string, write ledger.Write) {
	w.d.t.Helper()
	w.clients = append(w.clients, client)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.Ledger.Client(ctx, client, writeEvery, statementLimit(), write)
		close(done)
	}()
	w.d.t.Cleanup(func() { end(); <-done })
	w.awaitMore("first acknowledged writes")
}

// awaitMore waits until some more writes of each client were acknowledged.
func (w *writer) awaitMore(what string) {
	w.d.t.Helper()
	for _, client := range w.clients {
		before := w.Ledger.AcknowledgedTo(client)
		eventually(w.d.t, what+" to the "+client, func() bool { return w.Ledger.AcknowledgedTo(client) > before+20 })
	}
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
	var problem error
	for ; ctx.Err() == nil; time.Sleep(poll) {
		found, asked, err := rowsOf(ctx, config)
		if err == nil {
			return told.Check(found, asked)
		}
		if problem == nil || ctx.Err() == nil { // The end of the context is no cause.
			problem = err
		}
	}
	return []string{fmt.Sprintf("the rows of the primary: %v", problem)}
}

// rowsOf reads all rows of the primary, and says when they were asked for. The Service may lead to
// the former primary for a moment. A replica, which may lack the last rows, refuses a transaction
// that may write.
func rowsOf(ctx context.Context, config *pgx.ConnConfig) (found []ledger.Entry, asked time.Time, err error) {
	session, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, asked, err
	}
	defer func() { _ = session.Close(ctx) }()
	transaction, err := session.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadWrite})
	if err != nil {
		return nil, asked, err
	}
	asked = time.Now()
	rows, err := transaction.Query(ctx, "SELECT client, seq FROM ledger")
	if err != nil {
		return nil, asked, err
	}
	found, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ledger.Entry])
	return found, asked, err
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
