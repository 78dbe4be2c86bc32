package postgres_test

import (
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/postgres"
)

// TestSecondLogin: the name is one that the server accepts, that no user in a spec has, and that is
// different for each user.
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
