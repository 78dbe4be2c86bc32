package postgres_test

import (
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestSecondLogin: it is a name that the server takes, that no user of a spec has, and another one
// for each user.
func TestSecondLogin(t *testing.T) {
	long := strings.Repeat("a", 62)
	names := map[string]bool{}
	for _, user := range []string{"shop", strings.Repeat("a", 61), long + "b", long + "c", long, "a" + strings.Repeat("é", 31)} {
		second := postgres.SecondLogin(user)
		if names[second] || len(second) > 63 || !strings.Contains(second, ".") || postgres.CheckUser(second) != nil {
			t.Errorf("%s: got %q", user, second)
		}
		names[second] = true
	}
	if got := postgres.SecondLogin("shop"); got != "shop.2" {
		t.Errorf("got %q", got)
	}
}
