package database

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestCredentialsRevision: it changes with the credentials alone, not with what else is in the
// Secret, such as the authority, which clients read anew.
func TestCredentialsRevision(t *testing.T) {
	d := &Database{Namespace: "shop", Name: "db"}
	of := func(password, authority, metrics string, ownership plan.Ownership) string {
		made := &corev1.Secret{Data: map[string][]byte{"password": []byte(password), AuthorityKey: []byte(authority)}}
		made.Name, made.ResourceVersion = ApplicationName(d.Name), password+authority+metrics
		return State{Children: plan.Children{
			d.Ref("Secret", made.Name):           {Object: made, Ownership: ownership},
			d.Ref("Secret", MetricsName(d.Name)): {Object: d.MetricsSecret(State{MetricsPassword: metrics}), Ownership: plan.Ours},
		}}.CredentialsRevision(d, ApplicationName(d.Name))
	}
	first := of("a", "x", "k", plan.Ours)
	if first == "" || first != of("a", "y", "k", plan.Ours) {
		t.Errorf("the revisions of one password are %s and %s", first, of("a", "y", "k", plan.Ours))
	}
	if other, key := of("b", "x", "k", plan.Ours), of("a", "x", "l", plan.Ours); first == other || first == key {
		t.Errorf("the revisions of others are %s and %s", other, key)
	}
	if of("a", "x", "k", plan.Foreign) != "" || of("a", "x", "", plan.Ours) != "" || (State{}).CredentialsRevision(d, ApplicationName(d.Name)) != "" {
		t.Error("there is a revision of what is not known")
	}
}
