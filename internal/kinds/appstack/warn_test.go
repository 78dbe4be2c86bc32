package appstack

import (
	"strings"
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

// TestWarnOfVariables: what envFrom has may be overridden by an injected binding. It is said once.
func TestWarnOfVariables(t *testing.T) {
	db := one("db", "postgresql", `{"version":"17"}`)
	imports := func(from string, on ...string) platformv1.Component {
		return one("back", "webApp", `{"image":"a","envFrom":[`+from+`]}`, on...)
	}
	const all, other = `{"configMapRef":{"name":"settings"}}`, `{"prefix":"APP_","secretRef":{"name":"app"}}`
	const warning = "component back: spec.envFrom: the variables of PostgreSQL shop-db, which are injected (DATABASE_URL, PGSSLROOTCERT), " +
		"take precedence over those of the same names: rename these, write them into env, or set inject to false"
	without := imports(all, "db")
	without.Inject = new(false)
	own := one("back", "webApp", `{"image":"a","bindings":[{"kind":"PostgreSQL","name":"shop-db"}],"envFrom":[`+all+`]}`, "db")
	for name, test := range map[string]struct {
		before *platformv1.AppStack
		back   platformv1.Component
		want   []string
	}{
		"a new stack":         {nil, imports(all, "db"), []string{warning}},
		"a database is added": {newStack(db, imports(all)), imports(all, "db"), []string{warning}},
		"it is added":         {newStack(db), imports(all, "db"), []string{warning}},
		"it was so":           {newStack(db, imports(all, "db")), imports(all, "db"), nil},
		"another prefix":      {nil, imports(other, "db"), nil},
		"a prefix that fits": {nil, imports(other+`,{"prefix":"DATA","secretRef":{"name":"app"}}`, "db"), []string{
			strings.Replace(warning, ", PGSSLROOTCERT", "", 1)}},
		"no database":              {nil, imports(all), nil},
		"nothing is imported":      {nil, web("back", "db"), nil},
		"inject is false":          {nil, without, nil},
		"a binding of its own":     {nil, own, nil},
		"a spec that is no object": {nil, one("back", "webApp", `"envFrom"`, "db"), nil},
	} {
		if diff := cmp.Diff(test.want, WarnOfVariables(newStack(db, test.back), test.before, bindable())); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
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
