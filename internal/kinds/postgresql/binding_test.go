package postgresql

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestBinding: what an application gets is in the Secret, and in the ConfigMap of the authority.
func TestBinding(t *testing.T) {
	db, binding := newDatabase(), Binding()
	secret := application(db, Observed{State: database.State{Password: "x"}})
	keys := map[string]bool{}
	for _, output := range binding.Variables(db.Name) {
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
	if got := strings.Join(binding.Names(db.Name, ""), " "); got != names {
		t.Errorf("the variables are %s", got)
	}
}

// TestCredentialsRevision: it changes with the content of the Secret alone, and differs between
// databases of the same password.
func TestCredentialsRevision(t *testing.T) {
	db := newDatabase()
	metricsOf := func(password string) *corev1.Secret {
		return Common(db, Observed{}).MetricsSecret(database.State{MetricsPassword: password})
	}
	of := func(password, metrics string, ownership plan.Ownership) string {
		made := application(db, Observed{State: database.State{Password: password}})
		made.ResourceVersion = password + metrics
		return Common(db, Observed{}).CredentialsRevision(database.State{Children: plan.Children{
			Ref(db, "Secret", made.Name):                     {Object: made, Ownership: ownership},
			Ref(db, "Secret", database.MetricsName(db.Name)): {Object: metricsOf(metrics), Ownership: plan.Ours},
		}})
	}
	first := of("a", "k", plan.Ours)
	if first == "" || first != of("a", "k", plan.Ours) || first == of("b", "k", plan.Ours) || first == of("a", "l", plan.Ours) {
		t.Errorf("the revisions are %s, %s, %s", first, of("b", "k", plan.Ours), of("a", "l", plan.Ours))
	}
	if of("a", "k", plan.Foreign) != "" || of("a", "", plan.Ours) != "" || Common(db, Observed{}).CredentialsRevision(database.State{}) != "" {
		t.Error("there is a revision of what is not known")
	}
	db.Status.CredentialsRevision = first
	status, _ := Status(db, Observed{}, Decision{}, plan.Result{})
	if status.CredentialsRevision != first || strings.Contains(first, corev1.BasicAuthPasswordKey) {
		t.Errorf("without a Secret the revision is %q", status.CredentialsRevision)
	}
}
