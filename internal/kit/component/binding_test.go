package component_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
)

func TestUnready(t *testing.T) {
	revision, starting := "1", ""
	account := func(_ component.Object, user string) component.Account {
		if user != "" {
			return component.Account{Problem: "which has no user " + user}
		}
		return component.Account{Revision: revision, Starting: starting}
	}
	kind := component.Bindable{Binding: component.Binding{Condition: "Writable", Account: account},
		Kind: databasev1.GroupVersion.WithKind("PostgreSQL")}
	db := &databasev1.PostgreSQL{}
	check := func(want string) {
		t.Helper()
		if got := kind.Unready(db, ""); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := kind.Unready(nil, ""); got != "which does not exist" {
		t.Errorf("of nothing: %q", got)
	}
	check("whose condition Writable is not reported yet")
	db.Status.Conditions = []metav1.Condition{{Type: "Writable", Status: metav1.ConditionFalse, Reason: "FailingOver"}}
	check("whose condition Writable is False (FailingOver)")
	db.Status.Conditions[0].Status = metav1.ConditionTrue
	check("")
	starting = "whose pooler takes no connections yet"
	check("")
	if got := kind.Starting(db, ""); got != starting {
		t.Errorf("a new application waits for %q", got)
	}
	if got := kind.Unready(db, "orders"); got != "which has no user orders" {
		t.Errorf("as a user that is none: %q", got)
	}
	revision = ""
	check("whose credentials are not known yet")
	if got := kind.Starting(db, ""); got != "whose credentials are not known yet" {
		t.Errorf("a new application waits for %q", got)
	}
	db.DeletionTimestamp = &metav1.Time{}
	check("which is being deleted")
	all := component.Bindables{kind}
	if _, known := all.Get("PostgreSQL"); !known || all.Names()[0] != "PostgreSQL" {
		t.Errorf("the kinds are %v", all.Names())
	}
	if _, known := all.Get("Cache"); known {
		t.Error("Cache is known")
	}
}
