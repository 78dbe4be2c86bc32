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

// Mode is when a client gives its connection to the server back.
type Mode string

// Modes.
const (
	// Transaction: after each transaction.
	Transaction Mode = "transaction"
	// Session: when it disconnects.
	Session Mode = "session"
)

// Admin is the user and the database of the console. PgBouncer lets the user of its own process in
// over the socket by that name; nobody else is an administrator, as long as admin_users is empty.
const Admin = "pgbouncer"

// Settings are what differs between poolers.
type Settings struct {
	// Host and Port are those of the primary.
	Host string
	Port int
	// Listen is the address for clients, * for all, and ListenPort its port.
	Listen     string
	ListenPort int
	// Run is a directory for the socket and the files, Certificates the one with tls.crt, tls.key and
	// ca.crt.
	Run, Certificates string
	Mode              Mode
	// PoolSize is how many connections to the server each pair of user and database has at most,
	// MaxClients how many clients may be connected.
	PoolSize, MaxClients int
	// MaxConnections is how many connections each database has at most, of all users.
	MaxConnections int
	// Ignored are parameters that clients may send and that have no effect, beside extra_float_digits.
	Ignored []string
}

// Names of the files in the directory Run.
const (
	ConfigurationFile = "pgbouncer.ini"
	UsersFile         = "users.txt"
)

// Users returns the content of UsersFile: all others are looked up in the server. The role needs no
// password there, because it has a certificate. Here it needs a secret one: PgBouncer accepts an
// empty password where the file has an empty one.
func Users(secret string) string { return fmt.Sprintf("%q %q\n", postgres.PoolerRole, secret) }

// Durations in seconds. A client waits rather than fails while there is no primary: for as long as
// a failover may take, and some time more.
const (
	waits = "60"
	// loginRetry is how long after a failed connection to the server the next one is tried. The
	// default, 15 s, is what makes a failover last longer through a pooler.
	loginRetry = "0.2"
	// A server that does not answer is given up after some 10 s, as its clients would.
	unacknowledged = "10000" // milliseconds
)

// Connects is how long a connection to the server may take to be made: if it takes longer, clients
// that log in are refused. A busy primary may need some seconds for the certificates. Attempts to
// reach a primary that says nothing follow each other until statements are held back, two to four
// seconds after it fell silent. The last one ends up to this time later, which is about when the
// next primary leads if spec.failover.after is 11s, the default, or more. With less, and in
// Session, where nothing is held back, an attempt may outlast the failover by up to this time. The
// session in which the pooler itself listens may take as long.
const Connects = 8 * time.Second

// Configuration returns the content of ConfigurationFile.
func Configuration(s Settings) string {
	file := func(name string) string { return filepath.Join(s.Certificates, name) }
	lines := []string{
		"[databases]", fmt.Sprintf("* = host=%s port=%d", s.Host, s.Port), "",
		"[pgbouncer]",
		"listen_addr = " + s.Listen, fmt.Sprintf("listen_port = %d", s.ListenPort),
		"unix_socket_dir = " + s.Run, "unix_socket_mode = 0700",
		"pool_mode = " + string(s.Mode),
		fmt.Sprintf("max_client_conn = %d", s.MaxClients), fmt.Sprintf("default_pool_size = %d", s.PoolSize),
		fmt.Sprintf("max_db_connections = %d", s.MaxConnections),
		"max_prepared_statements = 200",
		// What PgBouncer can't keep for a client, it refuses. Many drivers send this one by themselves,
		// and it changes no value. Ignoring others, or options as a whole, would change answers: only
		// what a user names is.
		"ignore_startup_parameters = " + strings.Join(append([]string{"extra_float_digits"}, s.Ignored...), ", "),
		// The server's verifiers are looked up, and a client's proof is used to log in there: no
		// password is known here.
		"auth_type = scram-sha-256", "auth_file = " + filepath.Join(s.Run, UsersFile),
		"auth_user = " + postgres.PoolerRole, "auth_dbname = postgres",
		"auth_query = SELECT name, verifier FROM " + postgres.PoolerLookup + "($1)",
		"client_tls_sslmode = require", "client_tls_ca_file = " + file("ca.crt"), "client_tls_cert_file = " + file("tls.crt"), "client_tls_key_file = " + file("tls.key"),
		"client_tls_protocols = secure",
		"server_tls_sslmode = verify-full", "server_tls_ca_file = " + file("ca.crt"),
		"server_tls_cert_file = " + file("tls.crt"), "server_tls_key_file = " + file("tls.key"), "server_tls_protocols = secure",
		"server_login_retry = " + loginRetry, fmt.Sprintf("server_connect_timeout = %.0f", Connects.Seconds()),
		"query_wait_timeout = " + waits, "client_login_timeout = " + waits,
		"tcp_keepalive = 1", "tcp_keepidle = 5", "tcp_keepintvl = 2", "tcp_keepcnt = 3", "tcp_user_timeout = " + unacknowledged,
		"log_connections = 0", "log_disconnections = 0", "log_stats = 0",
	}
	return strings.Join(lines, "\n") + "\n"
}
