package server

import (
	"archive/tar"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/mainstay-platform/mainstay/internal/instance/engine"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// maxEntries is how many files and directories a clone may have. It only stops a broken leader.
const maxEntries = 50_000_000

// Clone implements [engine.Engine], with the BASE_BACKUP command of the replication protocol
// (https://www.postgresql.org/docs/current/protocol-replication.html). The copy includes the log
// that makes it consistent. The session stays open until the new server receives from the leader:
// see held.
func (e *Engine) Clone(ctx context.Context, directory string, from engine.Upstream, progress engine.Progress) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	e.mu.Lock()
	e.abort = cancel
	e.mu.Unlock()
	e.release()
	if err := e.clone(ctx, directory, from, progress); err != nil {
		return fmt.Errorf("cloning the data of %s: %w", from.Leader.Name, err)
	}
	e.noteHealth()
	return nil
}

func (e *Engine) clone(ctx context.Context, directory string, from engine.Upstream, progress engine.Progress) error {
	source, err := e.replication(ctx, from)
	if err != nil {
		return err
	}
	err = e.copyFrom(ctx, source, directory, progress)
	if err == nil {
		err = ctx.Err() // It was aborted meanwhile.
	}
	if err != nil {
		closeSource(source)
		return err
	}
	e.hold(from.Leader, func() { closeSource(source) })
	return nil
}

// copyFrom copies the leader's data to an empty directory.
func (e *Engine) copyFrom(ctx context.Context, source *pgconn.PgConn, directory string, progress engine.Progress) error {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	if names, err := os.ReadDir(directory); err != nil || len(names) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", directory))
	}
	into, err := openCopy(directory, e.newLog())
	if err != nil {
		return err
	}
	defer into.close()
	b := &backup{ctx: ctx, source: source, progress: progress, major: e.programs}
	if err := b.begin(); err != nil {
		return err
	}
	if err := checkRoom(directory, b.total); err != nil {
		return err
	}
	if err := into.unpack(tar.NewReader(b)); err != nil {
		return err
	}
	if err := b.end(); err != nil {
		return err
	}
	return into.sync()
}

// replication opens a replication connection to a leader, with our certificate.
func (e *Engine) replication(ctx context.Context, from engine.Upstream) (*pgconn.PgConn, error) {
	config, err := pgconn.ParseConfig("host=localhost user=" + postgres.ReplicationRole + " sslmode=disable")
	if err != nil {
		return nil, fmt.Errorf("describing a session: %w", err)
	}
	certificate, err := tls.LoadX509KeyPair(filepath.Join(e.Certificates, "tls.crt"), filepath.Join(e.Certificates, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("reading the instance's certificate: %w", err)
	}
	authority, err := os.ReadFile(filepath.Join(e.Certificates, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the certificates: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, errors.New("ca.crt contains no certificate")
	}
	config.Host, config.Port, config.ConnectTimeout, config.Fallbacks = from.Host, uint16(e.Port), connectTimeout, nil
	config.TLSConfig = &tls.Config{
		Certificates: []tls.Certificate{certificate}, RootCAs: roots, ServerName: certified(from), MinVersion: tls.VersionTLS12,
	}
	// With them, the leader soon notices that this instance is gone, also while the session is idle;
	// wal_sender_timeout limits only a session in which log is sent.
	config.RuntimeParams = map[string]string{
		"replication": "yes", "application_name": "mainstay-clone",
		"tcp_keepalives_idle": "10", "tcp_keepalives_interval": "5", "tcp_keepalives_count": "3", "idle_session_timeout": "0",
	}
	session, err := pgconn.ConnectConfig(ctx, config)
	if refused, isServers := errors.AsType[*pgconn.PgError](err); isServers && refused.Code == undefinedObject {
		// Servers before version 14 have no such timeout.
		delete(config.RuntimeParams, "idle_session_timeout")
		session, err = pgconn.ConnectConfig(ctx, config)
	}
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	return session, nil
}

// backup reads the answer to BASE_BACKUP, as the one tar file that it contains.
type backup struct {
	ctx      context.Context
	source   *pgconn.PgConn
	progress engine.Progress
	// major is the version of our own server; 0 is any.
	major int
	// framed is true from version 15 on: each message of the copy begins with a byte for its kind.
	framed bool
	total  int64
	done   int64
	rest   []byte
	ended  bool
}

// begin sends the command, and reads the answer up to the copy. It fails if the leader has
// tablespaces outside of its data directory.
func (b *backup) begin() error {
	major, _, _ := strings.Cut(b.source.ParameterStatus("server_version"), ".")
	version, err := strconv.Atoi(major)
	if err != nil {
		return fmt.Errorf("the leader has the version %.40q, which is unknown", major)
	}
	if b.major != 0 && version != b.major {
		return fmt.Errorf("the leader has PostgreSQL %d, and this instance %d: they need images of one major version", version, b.major)
	}
	// A temporary slot makes the leader keep the log that the copy and the new server need, however
	// long it takes: it ends with the session.
	slot := fmt.Sprintf("CREATE_REPLICATION_SLOT "+postgres.SlotPrefix+"clone_%016x TEMPORARY PHYSICAL RESERVE_WAL", rand.Uint64())
	if _, err := b.source.Exec(b.ctx, slot).ReadAll(); err != nil {
		return fmt.Errorf("reserving the log: %w", err)
	}
	command := "BASE_BACKUP LABEL 'mainstay' PROGRESS FAST WAL"
	if b.framed = version >= 15; b.framed {
		command = "BASE_BACKUP (LABEL 'mainstay', PROGRESS, CHECKPOINT 'fast', WAL, MANIFEST 'no')"
	}
	b.source.Frontend().SendQuery(&pgproto3.Query{String: command})
	if err := b.source.Frontend().Flush(); err != nil {
		return fmt.Errorf("asking for a backup: %w", err)
	}
	results := 0
	for {
		message, err := b.receive()
		if err != nil {
			return err
		}
		switch message := message.(type) {
		case *pgproto3.CopyOutResponse:
			return nil
		case *pgproto3.RowDescription:
			results++
		case *pgproto3.DataRow:
			// The first result is where the log begins, the second has a row for each tablespace.
			if err := b.tablespace(results, message.Values); err != nil {
				return err
			}
		}
	}
}

func (b *backup) tablespace(result int, row [][]byte) error {
	if result != 2 || len(row) != 3 {
		return nil
	}
	if row[0] != nil {
		return fmt.Errorf("the leader has a tablespace in %.200q: tablespaces can't be cloned, move the tables to pg_default and drop it", row[1])
	}
	if size, err := strconv.ParseInt(string(row[2]), 10, 64); err == nil {
		b.total = size << 10
	}
	return nil
}

// receive returns the next message that is not a notice. An error message of the server is returned
// as an error.
func (b *backup) receive() (pgproto3.BackendMessage, error) {
	for {
		message, err := b.source.ReceiveMessage(b.ctx)
		if err != nil {
			return nil, fmt.Errorf("receiving the backup: %w", err)
		}
		switch message := message.(type) {
		case *pgproto3.NoticeResponse, *pgproto3.ParameterStatus:
		case *pgproto3.ErrorResponse:
			return nil, fmt.Errorf("the leader sends no backup: %w", pgconn.ErrorResponseToPgError(message))
		default:
			return message, nil
		}
	}
}

// Read implements [io.Reader].
func (b *backup) Read(into []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.ended {
			return 0, io.EOF
		}
		message, err := b.receive()
		if err != nil {
			return 0, err
		}
		switch message := message.(type) {
		case *pgproto3.CopyData:
			b.rest = message.Data
			if b.framed && len(message.Data) > 0 {
				b.rest = nil
				if message.Data[0] == 'd' {
					b.rest = message.Data[1:]
				}
			}
		case *pgproto3.CopyDone:
			b.ended = true
		default:
			return 0, fmt.Errorf("receiving the backup: got %T in its middle", message)
		}
	}
	count := copy(into, b.rest)
	b.rest = b.rest[count:]
	b.done += int64(count)
	if b.progress != nil {
		b.progress(b.done, max(b.total, b.done))
	}
	return count, nil
}

// end reads the rest of the answer: only at its end the leader confirms that the backup is
// complete.
func (b *backup) end() error {
	if _, err := io.Copy(io.Discard, b); err != nil {
		return err
	}
	for {
		message, err := b.receive()
		if err != nil {
			return err
		}
		if _, isEnd := message.(*pgproto3.ReadyForQuery); isEnd {
			return nil
		}
	}
}
