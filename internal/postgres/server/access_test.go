//go:build instances

package server

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestAccessOfUsers: the user's lines of pg_hba.conf take effect without a restart, for both roles
// of a user, and never for our own roles. A line that is not accepted is left out, and the server
// accepts all others.
func TestAccessOfUsers(t *testing.T) {
	a, b, _ := newCluster(t).begin(2)
	own := filepath.Join(filepath.Dir(a.run), "certificates")
	app := postgres.Application{User: "app", Password: "first", Database: "app"}
	a.do(Call{Do: "provide", Application: app})
	first := contract.User{Name: "shop", Verifier: verifierOf(t, "one"), ConnectionLimit: -1}
	second := contract.User{Name: "shop.2", As: "shop", Verifier: verifierOf(t, "two"), ConnectionLimit: -1, Roles: []string{"shop"}}
	a.do(Call{Do: "declared", Application: app, Provisions: contract.Provisions{Users: []contract.User{first, second}}})
	started := a.value(t, "postgres", "SELECT pg_postmaster_start_time()::text")
	for _, test := range []struct {
		lines string
		want  map[string]bool // who logs in
	}{
		{"", map[string]bool{"app first": true, "shop one": true, "shop.2 two": true}},
		{"hostssl all shop all reject", map[string]bool{"app first": true, "shop one": false, "shop.2 two": false}},
		{"hostssl all +shop all reject", map[string]bool{"app first": true, "shop one": false, "shop.2 two": false}},
		{"hostssl app shop 127.0.0.0/8 scram-sha-256\nhostssl all all all reject",
			map[string]bool{"app first": false, "shop one": true, "shop.2 two": true}},
		{"hostssl all all 10.0.0.0/8 reject\nhostssl orders all all reject\nlocal all all reject\nhost all all all trust", map[string]bool{
			"app first": true, "app wrong": false, "shop one": true,
		}},
		{"hostssl all app all scram-sha-256 clientcert=verify-full\nhostssl all shop ::/0 cert",
			map[string]bool{"app first": false, "shop one": true}},
		{"hostssl all shop all cert", map[string]bool{"app first": true, "shop one": false}},
		{"hostssl all all all reject", map[string]bool{"app first": false}},
	} {
		a.sets(map[string]string{postgres.AccessParameter: test.lines})
		if got := a.value(t, "postgres", "SELECT count(*)::text FROM pg_hba_file_rules WHERE error IS NOT NULL"); got != "0" {
			t.Errorf("%q: the server refuses %s lines", test.lines, got)
		}
		for who, want := range test.want {
			user, password, _ := strings.Cut(who, " ")
			session, err := a.dial(t, own, "user="+user+" dbname=app password="+password)
			if (err == nil) != want {
				t.Errorf("%q: %s: got %v", test.lines, who, err)
			}
			if session != nil {
				_ = session.Close(t.Context())
			}
		}
	}
	if got := a.value(t, "postgres", "SELECT pg_postmaster_start_time()::text"); got != started {
		t.Error("the server was started again")
	}
	if got := a.value(t, "postgres", "SELECT count(*)::text FROM pg_stat_replication WHERE state = 'streaming'"); got == "0" {
		t.Errorf("%s does not receive while all clients are refused", b.name)
	}
}
