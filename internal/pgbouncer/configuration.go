// Package pgbouncer knows the configuration of PgBouncer (https://www.pgbouncer.org/config.html) as
// the pooler of a PostgreSQL. It does no I/O.
package pgbouncer

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// Mode is when PgBouncer takes a client's connection to the server back.
type Mode string

// Modes.
const (
	// Transaction: after each transaction.
	Transaction Mode = "transaction"
	// Session: when it disconnects.
	Session Mode = "session"
)

// Admin is the name of the user and of the database of the console. Over the socket, PgBouncer lets
// the operating system user of its own process log in by that name. There are no other
// administrators, because admin_users is empty.
const Admin = "pgbouncer"

// Settings are what differs between poolers.
type Settings struct {
	// Host and Port are those of the primary.
	Host string
	Port int
	// Listen is the address on which clients connect, "*" for all, and ListenPort its port.
	Listen     string
	ListenPort int
	// Run is the directory of the socket and of both files, and Certificates that of tls.crt, tls.key
	// and ca.crt.
	Run, Certificates string
	Mode              Mode
	// PoolSize is how many connections to the server each pair of user and database has at most, and
	// MaxClients how many clients may be connected at once.
	PoolSize, MaxClients int
	// MaxConnections is how many connections each database has at most, of all users.
	MaxConnections int
	// Ignored are parameters that clients may send and that have no effect, in addition to
	// extra_float_digits.
	Ignored []string
}

// Names of the files in the directory Run.
const (
	ConfigurationFile = "pgbouncer.ini"
	UsersFile         = "users.txt"
)

// Users returns the content of UsersFile, which has the role of the pooler only: PgBouncer looks up
// all other users in the server. At the server the role logs in by certificate and needs no
// password. In this file it needs one, which must be secret: with an empty one, PgBouncer would let
// any client log in as the role without a password.
func Users(secret string) string { return fmt.Sprintf("%q %q\n", postgres.PoolerRole, secret) }

// Values of parameters, in seconds unless another unit is given.
const (
	// queryWaitTimeout is how long a client waits for a connection to the server, so that it does not
	// fail while there is no primary: longer than a failover takes.
	queryWaitTimeout = "60"
	// loginRetry is how long after a failed connection to the server the next one is tried. With
	// PgBouncer's default of 15 s, a failover would last longer through a pooler.
	loginRetry = "0.2"
	// tcpUserTimeout, in milliseconds, is after how long the connection to a server that acknowledges
	// nothing is closed.
	tcpUserTimeout = "10000"
)

// Times that a login at the server may take. A busy primary needs some seconds for the TLS
// handshake, and a login takes five of its answers. Clients that come after one has failed are
// refused, if there is no other connection.
const (
	// ConnectTimeout is the limit in the mode Session, and of each attempt of the session in which the
	// pooler itself listens. In Session no statements are held back, so an attempt to reach a primary
	// that is gone may outlast the failover by as long.
	ConnectTimeout = 8 * time.Second
	// slowConnectTimeout is the limit in the mode Transaction. Attempts to reach a primary that is
	// gone do not last that long: PAUSE ends them (per_loop_pause in PgBouncer's janitor.c, 1.21 to
	// 1.24).
	slowConnectTimeout = 30 * time.Second
)

// Configuration returns the content of ConfigurationFile.
func Configuration(s Settings) string {
	file := func(name string) string { return filepath.Join(s.Certificates, name) }
	connectTimeout := slowConnectTimeout
	if s.Mode == Session {
		connectTimeout = ConnectTimeout
	}
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%d", s.Host, s.Port), "",
		"[pgbouncer]",
		"listen_addr = " + s.Listen, fmt.Sprintf("listen_port = %d", s.ListenPort),
		"unix_socket_dir = " + s.Run, "unix_socket_mode = 0700",
		"pool_mode = " + string(s.Mode),
		fmt.Sprintf("max_client_conn = %d", s.MaxClients), fmt.Sprintf("default_pool_size = %d", s.PoolSize),
		fmt.Sprintf("max_db_connections = %d", s.MaxConnections),
		"max_prepared_statements = 200",
		// PgBouncer refuses startup parameters that it can't keep for each client. extra_float_digits is
		// sent by many drivers on their own, and ignoring it changes no value. Ignoring others could
		// change results, so only those that a user has named are ignored.
		"ignore_startup_parameters = " + strings.Join(append([]string{"extra_float_digits"}, s.Ignored...), ", "),
		// PgBouncer looks up the server's SCRAM verifier, and uses the client's proof to log in there: it
		// knows no password.
		"auth_type = scram-sha-256", "auth_file = " + filepath.Join(s.Run, UsersFile),
		"auth_user = " + postgres.PoolerRole, "auth_dbname = postgres",
		"auth_query = SELECT name, verifier FROM " + postgres.PoolerLookup + "($1)",
		"client_tls_sslmode = require", "client_tls_ca_file = " + file("ca.crt"), "client_tls_cert_file = " + file("tls.crt"), "client_tls_key_file = " + file("tls.key"),
		"client_tls_protocols = secure",
		"server_tls_sslmode = verify-full", "server_tls_ca_file = " + file("ca.crt"),
		"server_tls_cert_file = " + file("tls.crt"), "server_tls_key_file = " + file("tls.key"), "server_tls_protocols = secure",
		"server_login_retry = " + loginRetry, fmt.Sprintf("server_connect_timeout = %.0f", connectTimeout.Seconds()),
		"query_wait_timeout = " + queryWaitTimeout, "client_login_timeout = " + queryWaitTimeout,
		"tcp_keepalive = 1", "tcp_keepidle = 5", "tcp_keepintvl = 2", "tcp_keepcnt = 3", "tcp_user_timeout = " + tcpUserTimeout,
		"log_connections = 0", "log_disconnections = 0", "log_stats = 0",
	}
	return strings.Join(lines, "\n") + "\n"
}
