package appstack

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestWarnOfData: a user who removes or renames a component with data learns where they may stay.
// What the stack says of it need not be what its object says.
func TestWarnOfData(t *testing.T) {
	db := one("db", "postgresql", `{"version":"17"}`)
	const warning = "component db is removed: PostgreSQL shop-db is deleted, and a component of another name starts without its data: " +
		"its data stay only if data-shop-db does"
	const ofQueue = "component queue is removed: Queue shop-queue is deleted, and a component of another name starts without its data: " +
		"whether its data stay, if it has any, is up to its own controller"
	topic := schema.GroupVersionKind{Group: "mq.example.com", Version: "v1", Kind: "Topic"}
	all := append(withQueues(""), component.NewExternal(topic, nil))
	other := queue()
	other.Spec.Raw = []byte(strings.Replace(queueSpec, `"Queue"`, `"Topic"`, 1))
	larger := queue()
	larger.Spec.Raw = []byte(strings.Replace(queueSpec, `"size":3`, `"size":5`, 1))
	for name, test := range map[string]struct {
		before, after []platformv1.Component
		want          []string
	}{
		"it stays":              {[]platformv1.Component{db}, []platformv1.Component{web("a"), db}, nil},
		"it is removed":         {[]platformv1.Component{web("a"), db}, []platformv1.Component{web("a")}, []string{warning}},
		"it is renamed":         {[]platformv1.Component{db}, []platformv1.Component{one("base", "postgresql", `{"version":"17"}`)}, []string{warning}},
		"it has another type":   {[]platformv1.Component{db}, []platformv1.Component{web("db")}, []string{warning}},
		"one without data goes": {[]platformv1.Component{web("a"), db}, []platformv1.Component{db}, nil},
		"an object stays":       {[]platformv1.Component{queue()}, []platformv1.Component{larger, db}, nil},
		"an object is removed":  {[]platformv1.Component{web("a"), queue()}, []platformv1.Component{web("a")}, []string{ofQueue}},
		"it has another kind":   {[]platformv1.Component{queue()}, []platformv1.Component{other}, []string{ofQueue}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, WarnOfData(newStack(test.after...), newStack(test.before...), all)); diff != "" {
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

// TestStatusOfObjects: of an object of another project that is to be deleted, it is not known
// whether its data stay, and the status says so.
func TestStatusOfObjects(t *testing.T) {
	w := world{newStack(web("a")), plan.Children{}}
	w.make(t, queue(), "")
	deleteNow(find(w.found, "shop-queue"))
	status := Status(w.stack, w.observed(), Decide(w.stack, w.observed()), plan.Result{})
	const want = "is being deleted; whether its data stay, if it has any, is up to its own controller"
	if got := status.Components[0]; got.Name != "queue" || got.Message != want {
		t.Errorf("got  %s: %s\nwant %s", got.Name, got.Message, want)
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
