package pgbouncer

import (
	"strings"
	"testing"
)

// TestConfiguration: the lines on which clients and servers depend are there, and so are those of
// the settings.
func TestConfiguration(t *testing.T) {
	text := Configuration(Settings{
		Host: "db-rw.shop.svc", Port: 5432, Listen: "*", ListenPort: 5432, Run: "/run/mainstay", Certificates: "/certificates",
		Mode: Transaction, PoolSize: 20, MaxClients: 1000, MaxConnections: 43,
	})
	for _, line := range []string{
		"* = host=db-rw.shop.svc port=5432", "pool_mode = transaction", "default_pool_size = 20", "max_client_conn = 1000",
		"auth_type = scram-sha-256", "auth_user = mainstay_pooler",
		"auth_query = SELECT name, verifier FROM mainstay.pooler_lookup($1)", "client_tls_sslmode = require",
		"server_tls_sslmode = verify-full", "server_tls_ca_file = /certificates/ca.crt", "unix_socket_mode = 0700",
		"max_db_connections = 43", "ignore_startup_parameters = extra_float_digits",
		"server_connect_timeout = 30",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("there is no line %q in\n%s", line, text)
		}
	}
	if text := Configuration(Settings{Mode: Session}); !strings.Contains(text, "\nserver_connect_timeout = 8\n") {
		t.Errorf("in the mode session, an attempt may outlast a failover:\n%s", text)
	}
	if text := Configuration(Settings{Ignored: []string{"search_path", "jit"}}); !strings.Contains(text,
		"\nignore_startup_parameters = extra_float_digits, search_path, jit\n") {
		t.Errorf("what is ignored on purpose is not in\n%s", text)
	}
	for _, none := range []string{"password", "admin_users", "stats_users"} {
		if strings.Contains(strings.ToLower(text), none) {
			t.Errorf("it has %s", none)
		}
	}
	if got := Users("secret"); got != `"mainstay_pooler" "secret"`+"\n" {
		t.Errorf("got %s", got)
	}
}
