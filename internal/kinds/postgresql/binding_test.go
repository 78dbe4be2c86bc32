package postgresql

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestBinding: what an application gets is in the Secret, and in the ConfigMap of the authority.
func TestBinding(t *testing.T) {
	db, binding := newDatabase(), Binding()
	secret := application(db, Observed{State: database.State{Password: "x"}})
	keys := map[string]bool{}
	for _, output := range binding.Variables(binding.Secret(db.Name)) {
		if output.Secret == "" {
			continue
		}
		if _, has := secret.Data[output.Key]; !has || output.Secret != secret.Name {
			t.Errorf("%s: Secret %s has no key %s", output.Name, output.Secret, output.Key)
		}
		keys[output.Key] = true
	}
	if len(keys) != len(secret.Data) {
		t.Errorf("%d keys of %d are offered", len(keys), len(secret.Data))
	}
	name, key := binding.Authority(db.Name)
	if made := Common(db, Observed{}).Authority(database.State{}); made.Name != name || len(made.Data) != 1 {
		t.Errorf("the authority is said to be in %s, and is in %s", name, made.Name)
	} else if _, has := made.Data[key]; !has {
		t.Errorf("%s has no key %s", name, key)
	}
	const names = "DATABASE_URL PGHOST PGPORT PGUSER PGPASSWORD PGDATABASE PGSSLMODE PGSSLROOTCERT"
	if got := strings.Join(binding.Names(""), " "); got != names {
		t.Errorf("the variables are %s", got)
	}
}

// TestCredentialsRevision: what is not known now is as it was.
func TestCredentialsRevision(t *testing.T) {
	db := newDatabase()
	db.Status.CredentialsRevision = "1"
	if status, _ := Status(db, Observed{}, Decision{}, plan.Result{}); status.CredentialsRevision != "1" {
		t.Errorf("without a Secret the revision is %q", status.CredentialsRevision)
	}
}

// TestURIFollows: the uri of the application's Secret gets the user, password and database that
// were written beside it, and nothing else of the Secret is written. The revision changes once it
// has them.
func TestURIFollows(t *testing.T) {
	const own = "postgresql://app:secret@db-rw.shop.svc:5432/app?sslmode=require"
	for name, test := range map[string]struct{ user, password, database, uri, want string }{
		"nothing has changed": {"app", "secret", "app", own, ""},
		"another password": {
			"app", "p:a/b", "app", own, "postgresql://app:p%3Aa%2Fb@db-rw.shop.svc:5432/app?sslmode=require",
		},
		"of another user on purpose": {"shop", "new", "orders", own, ""},
		"of another database on purpose": {
			"app", "new", "orders", own, "postgresql://app:new@db-rw.shop.svc:5432/app?sslmode=require",
		},
		"its own host and options": {
			"app", "new", "app", "postgres://app:secret@proxy:6432/app?sslmode=verify-full&x=1",
			"postgres://app:new@proxy:6432/app?sslmode=verify-full&x=1",
		},
		"it was written, too": {"app", "p:a", "app", "postgresql://app:p%3Aa@db-rw.shop.svc:5432/app", ""},
		"without a password":  {"app", "new", "app", "postgresql://app@db-rw.shop.svc/app", ""},
		"no uri":              {"app", "new", "app", "", ""},
		"another protocol":    {"app", "new", "app", "https://app:secret@db/app", ""},
		"unreadable":          {"app", "new", "app", "postgresql://app:secret@db/%zz", ""},
		"too long":            {"app", "new", "app", own + "&x=" + strings.Repeat("x", maxURI), ""},
		"an empty password":   {"app", "", "app", own, ""},
	} {
		db, observed := newDatabase(), running(newDatabase(), 1)
		secret, ref := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db-app"}}, Ref(db, "Secret", "db-app")
		secret.Data = map[string][]byte{
			"username": []byte(test.user), "password": []byte(test.password), "dbname": []byte(test.database), "uri": []byte(test.uri),
		}
		observed.Children[ref] = plan.Found{Ownership: plan.Ours, Object: secret}
		observed.Children[Ref(db, "Secret", "db-metrics")] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "db-metrics"}, Data: map[string][]byte{"password": []byte("k")},
		}}
		child := func() plan.Child {
			children := Desired(db, observed, Decision{Replicas: 1}).Children
			return children[slices.IndexFunc(children, func(one plan.Child) bool { return one.Object.GetName() == "db-app" })]
		}
		wanted := child()
		if wanted.CreateOnce != (test.want == "") {
			t.Errorf("%s: it is made once: %t", name, wanted.CreateOnce)
		}
		db.Status.CredentialsRevision = "1"
		contested, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{SlowedChildren: []plan.Contest{{Ref: ref}}})
		if isKept := contested.CredentialsRevision == "1"; isKept != (test.want != "") {
			t.Errorf("%s: while another client reverts it, the revision is %s", name, contested.CredentialsRevision)
		}
		status, after := Status(db, observed, Decision{Replicas: 1}, plan.Result{Changes: []plan.Change{{Ref: ref, Operation: plan.Updated}}})
		if isKept := status.CredentialsRevision == "1"; isKept != (test.want != "") || isKept != (after == time.Second) {
			t.Errorf("%s: while it is written, the revision is %s; it is looked again after %s", name, status.CredentialsRevision, after)
		}
		if test.want == "" {
			continue
		}
		if written, _ := wanted.Object.(*corev1.Secret); written == nil || len(written.Data) != 1 || string(written.Data["uri"]) != test.want {
			t.Errorf("%s: %v is written", name, wanted.Object)
		}
		secret.Data["uri"] = []byte(test.want)
		if status, _ = Status(db, observed, Decision{Replicas: 1}, plan.Result{}); !child().CreateOnce || status.CredentialsRevision == "1" {
			t.Errorf("%s: it is written again, or the revision is that of before", name)
		}
	}
}

// TestBoundUser: an application connects as a user once the primary has made it, with the Secret
// that it had then.
func TestBoundUser(t *testing.T) {
	db := newDatabase()
	db.Spec.Users = []databasev1.User{{Name: "orders"}, {Name: "audit", SecretName: "auditors"}}
	observed := running(db, 1)
	secret := func(name, password string) {
		ref := Ref(db, "Secret", name)
		observed.Children[ref] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{"password": []byte(password)},
		}}
	}
	secret("db-metrics", "k")
	secret("db-orders", "a")
	secret("auditors", "b")
	observed.Provisions = []byte("{}")
	step := func(want string) {
		t.Helper()
		status, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		db.Status.Users = status.Users
		var got []string
		for _, name := range []string{"", "app", "orders", "audit", "none"} {
			one := Binding().Account(db, name)
			got = append(got, cmp.Or(one.Problem, one.Secret))
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("got  %s\nwant %s", text, want)
		}
	}
	step("db-app; db-app; whose user orders is not created yet; whose user audit is not created yet; which has no user none")
	report := contract.Report{Role: contract.Primary, State: "Leading", Provisions: contract.ProvisionsRevision(observed.Provisions)}
	observed = says(observed, 0, report)
	step("db-app; db-app; db-orders; auditors; which has no user none")
	first := Binding().Account(db, "orders").Revision

	secret("db-orders", "another")
	observed.Provisions = []byte("{ }")
	step("db-app; db-app; db-orders; auditors; which has no user none")
	if now := Binding().Account(db, "orders").Revision; now != first {
		t.Errorf("the revision is %s before the primary has the password, not %s", now, first)
	}
	report.Provisions = contract.ProvisionsRevision(observed.Provisions)
	observed = says(observed, 0, report)
	step("db-app; db-app; db-orders; auditors; which has no user none")
	if now := Binding().Account(db, "orders").Revision; now == first || now == "" {
		t.Errorf("the revision is %q after the password has changed", now)
	}
	delete(observed.Children, Ref(db, "Secret", "db-orders"))
	db.Spec.Users = db.Spec.Users[:1]
	step("db-app; db-app; db-orders; which has no user audit; which has no user none")
}

// TestPoolerStarts: an application that is not bound yet waits for the pooler of the spec, and for
// the Secret with its address; one that is bound gets each Secret once.
func TestPoolerStarts(t *testing.T) {
	db := newDatabase(pooled)
	db.Spec.Users = []databasev1.User{{Name: "orders"}}
	observed := withPooler(db, running(db, 1), -1)
	observed.Users = map[string]ObservedUser{"orders": {Password: "p"}}
	observed.Provisions = []byte("{}")
	observed = says(observed, 0, contract.Report{
		Role: contract.Primary, State: "Leading", Provisions: contract.ProvisionsRevision(observed.Provisions),
	})
	keep := func(secret *corev1.Secret) {
		observed.Children[Ref(db, "Secret", secret.Name)] = plan.Found{Ownership: plan.Ours, Object: secret}
	}
	keep(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "db-metrics"}, Data: map[string][]byte{"password": []byte("k")}})
	keep(application(db, Observed{State: database.State{Password: "x"}}))
	written := func() {
		wanted := Desired(db, observed, Decision{Replicas: 1})
		for _, name := range []string{"db-orders", "db-pooler"} {
			if secret := made[*corev1.Secret](wanted, name); secret != nil {
				keep(secret)
			}
		}
	}
	ready := func(instances int32) func() { return func() { observed = withPooler(db, observed, instances) } }
	written()
	const starts = " whose pooler takes no connections yet"
	revisions := map[string]bool{}
	for _, step := range []struct {
		name   string
		change func()
		want   string
		again  bool // It is looked again soon.
	}{
		{"the pooler is being made", func() {}, "db-app" + starts + "; db-orders" + starts, false},
		{"no instance is ready", ready(0), "db-app" + starts + "; db-orders" + starts, false},
		{"one is", ready(1), "db-pooler; db-orders whose user orders does not have the address of the pooler yet", true},
		{"the Secret of orders has its address", written, "db-pooler; db-orders", false},
		{"none is ready any more", ready(0), "db-pooler; db-orders", false},
		{"the Secrets are written again", written, "db-pooler; db-orders", false},
	} {
		step.change()
		status, after := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		if db.Status = status; (after == time.Second) != step.again {
			t.Errorf("%s: it is looked again after %s", step.name, after)
		}
		app, orders := Binding().Account(db, ""), Binding().Account(db, "orders")
		show := func(one component.Account) string {
			if one.Starting == "" {
				revisions[one.Revision] = true
			}
			return strings.TrimSpace(one.Secret + " " + one.Starting)
		}
		if got := show(app) + "; " + show(orders); got != step.want {
			t.Errorf("%s: got  %s\nwant %s", step.name, got, step.want)
		}
	}
	keepsPooled(t, db, observed)
	db.Spec.Pooler = nil
	if one := Binding().Account(db, "orders"); one.Starting != "" || len(revisions) != 2 {
		t.Errorf("two users have had %d revisions; without a pooler, one waits: %q", len(revisions), one.Starting)
	}
}

// keepsPooled tests what becomes of the user orders, whose Secret has the address of the pooler: a
// status that does not say so yet, as of another release, does then, also while the password can't
// be used; and nothing is looked for again and again in a PostgreSQL that is paused.
func keepsPooled(t *testing.T, db *databasev1.PostgreSQL, observed Observed) {
	t.Helper()
	db = db.DeepCopy()
	observed.Users = map[string]ObservedUser{"orders": {Problem: "it is empty"}}
	db.Status.Users[0].Pooled = false
	if status, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{}); !status.Users[0].Pooled {
		t.Error("the Secret of a user whose password can't be used has the address, and the status does not say so")
	}
	db.Status.Users[0].Revision = "another"
	if status, _ := Status(db, observed, Decision{Replicas: 1}, plan.Result{}); status.Users[0].Pooled {
		t.Error("the status says of a revision what is true of another one")
	}
	observed.Children = maps.Clone(observed.Children)
	observed.Children[Ref(db, "Secret", "db-orders")] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "db-orders"}, Data: map[string][]byte{"host": []byte("db-rw.shop.svc")},
	}}
	ref := Ref(db, "Secret", "db-orders")
	for why, result := range map[string]plan.Result{
		"the password": {}, "its name": {Conflicts: []plan.Ref{ref}}, "the API server": {Refusals: map[plan.Ref]string{ref: "immutable"}},
	} {
		told, now := db.DeepCopy(), observed
		if why != "the password" {
			now.Users = map[string]ObservedUser{"orders": {Password: "p"}}
		}
		var after time.Duration
		told.Status, after = Status(db, now, Decision{Replicas: 1}, result)
		if one := Binding().Account(told, "orders"); one.Starting != "" || one.Secret != "db-orders" || after == time.Second {
			t.Errorf("an application waits for a Secret that %s keeps as it is: %q; it is looked again after %s", why, one.Starting, after)
		}
	}
	renamed := db.DeepCopy()
	renamed.Spec.Users[0].SecretName = "other"
	if kept := Desired(renamed, observed, Decision{Replicas: 1}).Keep; !slices.Contains(kept, ref) || !slices.Contains(kept, Ref(db, "Secret", "other")) {
		t.Errorf("the Secret that the user connects with is deleted: %v are kept", kept)
	}
	observed.Users = map[string]ObservedUser{"orders": {Password: "p"}}
	for _, db.Spec.Paused = range []bool{false, true} {
		status, after := Status(db, observed, Decision{Replicas: 1}, plan.Result{})
		told := db.DeepCopy()
		told.Status = status
		if waits := Binding().Account(told, "orders").Starting != ""; (after == time.Second) == db.Spec.Paused || waits == db.Spec.Paused {
			t.Errorf("paused: %t: it is looked again after %s, and an application waits: %t", db.Spec.Paused, after, waits)
		}
	}
}
