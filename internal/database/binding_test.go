package database

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestCredentialsRevision: it changes with the credentials alone, not with what else is in the
// Secret, such as the authority, which clients read anew, nor with the password of the metrics.
func TestCredentialsRevision(t *testing.T) {
	d := &Database{Namespace: "shop", Name: "db"}
	of := func(password, authority string, metrics map[string][]byte, ownership plan.Ownership) string {
		made := &corev1.Secret{Data: map[string][]byte{"password": []byte(password), AuthorityKey: []byte(authority)}}
		made.Name, made.ResourceVersion = ApplicationName(d.Name), password+authority
		return State{Children: plan.Children{
			d.Ref("Secret", made.Name):           {Object: made, Ownership: ownership},
			d.Ref("Secret", MetricsName(d.Name)): {Object: &corev1.Secret{Data: metrics}, Ownership: plan.Ours},
		}}.CredentialsRevision(d, ApplicationName(d.Name))
	}
	keyed := func(key, password string) map[string][]byte {
		return map[string][]byte{revisionKey: []byte(key), "password": []byte(password)}
	}
	first := of("a", "x", keyed("k", "m"), plan.Ours)
	for what, same := range map[string]string{
		"another authority":               of("a", "y", keyed("k", "m"), plan.Ours),
		"another password of the metrics": of("a", "x", keyed("k", "n"), plan.Ours),
		"no key, as in earlier versions":  of("a", "x", map[string][]byte{"password": []byte("k")}, plan.Ours),
	} {
		if first == "" || same != first {
			t.Errorf("%s: the revisions of one password are %q and %q", what, first, same)
		}
	}
	if other, key := of("b", "x", keyed("k", "m"), plan.Ours), of("a", "x", keyed("l", "m"), plan.Ours); first == other || first == key {
		t.Errorf("the revisions of others are %s and %s", other, key)
	}
	if of("a", "x", keyed("k", "m"), plan.Foreign) != "" || of("a", "x", nil, plan.Ours) != "" ||
		(State{}).CredentialsRevision(d, ApplicationName(d.Name)) != "" {
		t.Error("there is a revision of what is not known")
	}
}

// TestRevisionKey: the key can't be computed from one of the passwords, nor a password from it.
func TestRevisionKey(t *testing.T) {
	d, keys := &Database{Namespace: "shop", Name: "db"}, map[string]bool{"": true, "a": true, "b": true}
	for _, drawn := range []State{{Password: "a", MetricsPassword: "b"}, {Password: "a"}, {MetricsPassword: "b"}} {
		key := string(d.MetricsSecret(drawn).Data[revisionKey])
		if keys[key] {
			t.Errorf("the key of %q and %q is %q", drawn.Password, drawn.MetricsPassword, key)
		}
		keys[key] = true
	}
}
