package appstack

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	platformv1 "github.com/mainstay-platform/mainstay/api/platform/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// bindable are the kinds of the tests, of which WebApps can be bound to PostgreSQLs.
func bindable() component.Kinds {
	all := slices.Clone(kinds)
	all[0].TakesBindings = true
	all[1].Binding = &component.Binding{
		Variables: func(secret string) []component.Output {
			return []component.Output{{Name: "DATABASE_URL", Secret: secret, Key: "uri"}}
		},
		AuthorityVariables: []string{"PGSSLROOTCERT"},
	}
	return all
}

// boundTo returns the bindings and the variables of the component back, as text.
func boundTo(decided Decision) string {
	var all []string
	spec := SpecOf(stepOf(decided.Steps, "back").Object)
	for _, one := range listOf(spec["bindings"]) {
		text := fmt.Sprintf("%s/%s", one["kind"], one["name"])
		if one["prefix"] != nil {
			text += fmt.Sprintf("(%s)", one["prefix"])
		}
		all = append(all, text)
	}
	for _, one := range listOf(spec["env"]) {
		all = append(all, fmt.Sprint(one["name"]))
	}
	return strings.Join(all, " ")
}

func TestInjectBindings(t *testing.T) {
	db, orders := one("db", "postgresql", `{"version":"17"}`), one("orders-db", "postgresql", `{"version":"17"}`)
	binds := func(binding string, on ...string) string {
		w := world{newStack(db, orders, one("back", "webApp", `{"image":"a","bindings":[`+binding+`]}`, on...)), plan.Children{}}
		w.stack = WithBindings(w.stack, bindable())
		return boundTo(Decide(w.stack, Observed{Children: w.found, Kinds: bindable()}))
	}
	const explicit = `{"kind":"PostgreSQL","name":"shop-db"}`
	for name, test := range map[string]struct{ got, want string }{
		"a database":           {binds("", "db"), "PostgreSQL/shop-db"},
		"no dependency":        {binds(""), ""},
		"two databases":        {binds("", "orders-db", "db"), "PostgreSQL/shop-orders-db PostgreSQL/shop-db(DB_)"},
		"its own binding":      {binds(explicit, "db"), "PostgreSQL/shop-db"},
		"its own, and another": {binds(explicit, "db", "orders-db"), "PostgreSQL/shop-db PostgreSQL/shop-orders-db(ORDERS_DB_)"},
		"its own with a prefix": {
			binds(`{"kind":"PostgreSQL","name":"shop-db","prefix":"A_"}`, "db", "orders-db"),
			"PostgreSQL/shop-db(A_) PostgreSQL/shop-orders-db",
		},
		"its own without a dep": {binds(explicit), "PostgreSQL/shop-db"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %q, want %q", name, test.got, test.want)
		}
	}
	without := web("back", "db")
	without.Inject = new(false)
	w := world{newStack(db, without), plan.Children{}}
	if got := boundTo(Decide(w.stack, Observed{Children: w.found, Kinds: bindable()})); got != "" {
		t.Errorf("inject is false: got %s", got)
	}
}

// TestBindingsAreDependencies: in the order of creation and of deletion, and in circles.
func TestBindingsAreDependencies(t *testing.T) {
	bound := one("back", "webApp", `{"image":"a","bindings":[{"kind":"PostgreSQL","name":"shop-db"},{"kind":"PostgreSQL","name":"other"},
		{"kind":"WebApp","name":"shop-back"}]}`)
	db := one("db", "postgresql", `{"version":"17","storage":"1Gi"}`)
	stack := newStack(bound, db)
	expanded := WithBindings(stack, bindable())
	if got := expanded.Spec.Components[0].DependsOn; len(got) != 1 || got[0] != "db" || len(stack.Spec.Components[0].DependsOn) != 0 {
		t.Errorf("it depends on %v, and the stored stack says %v", got, stack.Spec.Components[0].DependsOn)
	}
	observed := Observed{Children: plan.Children{}, Kinds: bindable()}
	if got, want := summaryOf(Decide(expanded, observed)), "db Apply, back Wait[db]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := dependencies(stepOf(Decide(expanded, observed).Steps, "back").Object); len(got) != 1 || got[0] != "db" {
		t.Errorf("the object says that it depends on %v", got)
	}
	circle := newStack(bound, one("db", "postgresql", `{"version":"17"}`, "back"))
	const want = "must not depend on itself through others: back -> db -> back"
	if problems := Validate(circle, bindable()); len(problems) != 1 || !strings.Contains(problems[0].Error(), want) {
		t.Errorf("a circle: got %v", problems)
	}
}

// TestBindingsAndOutputs: a variable of both is refused.
func TestBindingsAndOutputs(t *testing.T) {
	both := queue(platformv1.Output{Name: "URL", Path: "status.url"})
	both.Name = "database"
	db := one("db", "postgresql", `{"version":"17"}`)
	stack := newStack(db, both, web("back", "db", "database"))
	const want = `spec.components[2].dependsOn[1]: Invalid value: "database": must not provide the variable DATABASE_URL, which db provides too`
	var found []string
	for _, problem := range Validate(stack, append(bindable(), withQueues("")[len(kinds)])) {
		found = append(found, problem.Error())
	}
	if !slices.Contains(found, want) {
		t.Errorf("got %q", found)
	}
}
