package appstack

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestWarnOfData: a user who removes or renames a component with data learns where they may stay.
// What the stack says of it need not be what its object says.
func TestWarnOfData(t *testing.T) {
	db := one("db", "postgresql", `{"version":"17"}`)
	const warning = "component db is removed: PostgreSQL shop-db is deleted, and a component of another name starts without its data: " +
		"its data stay only if data-shop-db does"
	for name, test := range map[string]struct {
		before, after []platformv1.Component
		want          []string
	}{
		"it stays":              {[]platformv1.Component{db}, []platformv1.Component{web("a"), db}, nil},
		"it is removed":         {[]platformv1.Component{web("a"), db}, []platformv1.Component{web("a")}, []string{warning}},
		"it is renamed":         {[]platformv1.Component{db}, []platformv1.Component{one("base", "postgresql", `{"version":"17"}`)}, []string{warning}},
		"it has another type":   {[]platformv1.Component{db}, []platformv1.Component{web("db")}, []string{warning}},
		"one without data goes": {[]platformv1.Component{web("a"), db}, []platformv1.Component{db}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, WarnOfData(newStack(test.after...), newStack(test.before...), kinds)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestStatusOfData: the status says where the data stay, while a component waits for its deletion,
// while it is deleted, and while the whole stack is; not where it stays itself.
func TestStatusOfData(t *testing.T) {
	db := one("db", "postgresql", `{"version":"17"}`)
	const stays = "its data stay on data-shop-db"
	for name, test := range map[string]struct {
		change func(w world)
		want   string
	}{
		"it is to be deleted":  {func(world) {}, stays},
		"it waits":             {func(w world) { w.make(t, web("user", "db"), "") }, "is deleted after user; " + stays},
		"it is being deleted":  {func(w world) { deleteNow(find(w.found, "shop-db")) }, "is being deleted; " + stays},
		"the stack is deleted": {func(w world) { deleteNow(w.stack) }, stays},
		"the stack is deleted, and it stays": {func(w world) {
			deleteNow(w.stack)
			w.stack.Finalizers = []string{metav1.FinalizerOrphanDependents}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := world{newStack(web("a")), plan.Children{}}
			w.make(t, db, "")
			test.change(w)
			for _, c := range Status(w.stack, w.observed(), Decide(w.stack, w.observed()), plan.Result{}).Components {
				if c.Name == "db" && c.Message != test.want {
					t.Errorf("got  %s\nwant %s", c.Message, test.want)
				}
			}
		})
	}
}
