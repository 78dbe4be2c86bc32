package postgresql

import (
	"strings"
	"testing"

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

// TestCredentialsRevision: what is not known now is as it was.
func TestCredentialsRevision(t *testing.T) {
	db := newDatabase()
	db.Status.CredentialsRevision = "1"
	if status, _ := Status(db, Observed{}, Decision{}, plan.Result{}); status.CredentialsRevision != "1" {
		t.Errorf("without a Secret the revision is %q", status.CredentialsRevision)
	}
}
