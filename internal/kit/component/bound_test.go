package component_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

// TestBound: what is written into the annotation is read from it, whatever their order; of a text
// of others nothing is.
func TestBound(t *testing.T) {
	all := []component.Bound{
		{Key: component.BoundKey("PostgreSQL", "db", "orders"), Revision: "r2", Secret: "db-orders"},
		{Key: component.BoundKey("Cache", "carts", ""), Revision: "r1"},
	}
	text := component.FormatBound(append(all, all[0]))
	if want := "Cache/carts=r1,PostgreSQL/db/orders=r2:db-orders"; text != want {
		t.Errorf("the annotation is %q, not %q", text, want)
	}
	slices.Reverse(all)
	if got := component.ParseBound(text); !slices.Equal(got, all) {
		t.Errorf("%q is read as %v", text, got)
	}
	for name, text := range map[string]string{
		"nothing": "", "no revision": "PostgreSQL/db", "too long": "a=b," + strings.Repeat("x", component.MaxBound),
	} {
		if got := component.ParseBound(text); got != nil {
			t.Errorf("%s: it is read as %v", name, got)
		}
	}
	if got := component.FormatBound(nil); got != "" {
		t.Errorf("without bindings the annotation is %q", got)
	}
}
