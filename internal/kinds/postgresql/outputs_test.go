package postgresql

import (
	"testing"

	"github.com/mainstay-platform/mainstay/internal/database"
)

// TestOutputs: what a stack injects is in the Secret with which an application connects.
func TestOutputs(t *testing.T) {
	db := newDatabase()
	secret := application(db, Observed{State: database.State{Password: "x"}})
	outputs := Outputs(db.Name)
	if len(outputs) != len(secret.Data) {
		t.Errorf("%d outputs, and %d keys", len(outputs), len(secret.Data))
	}
	for _, output := range outputs {
		if _, has := secret.Data[output.Key]; !has || output.Secret != secret.Name {
			t.Errorf("%s: Secret %s has no key %s", output.Name, output.Secret, output.Key)
		}
	}
}
