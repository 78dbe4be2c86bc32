package server

import (
	"testing"
	"time"

	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestRolesAreReleased: a role of a rotating user that gets another password is first prevented
// from logging in.
func TestRolesAreReleased(t *testing.T) {
	has := role{verifier: "v1", canLogIn: true}
	for name, test := range map[string]struct {
		user contract.User
		want bool
	}{
		"the second role":                       {contract.User{As: "shop", Verifier: "v2"}, true},
		"the first, whose turn it is not":       {contract.User{Verifier: "v2", Turn: contract.Turn{Login: "shop.2"}}, true},
		"the first, in an overlap":              {contract.User{Verifier: "v2", Turn: contract.Turn{Until: time.Now()}}, true},
		"a user that takes no turns":            {contract.User{Verifier: "v2", Turn: contract.Turn{Since: time.Now()}}, false},
		"the same password":                     {contract.User{As: "shop", Verifier: "v1"}, false},
		"one that ends, which is done after it": {contract.User{As: "shop"}, false},
		"one that is not known":                 {contract.User{As: "shop", IsUnknown: true}, false},
	} {
		if got := has.isReleasedFor(test.user); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}
