package database

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// FromApplication returns a variable with a key of the Secret with which an application connects.
func FromApplication(database, variable, key string) component.Output {
	return component.Output{Name: variable, Secret: ApplicationName(database), Key: key}
}

// CredentialsRevision returns a text that changes with the content of the application's Secret; ""
// while there is none. It is a hash under a key that is as secret as the content, so that no
// password can be guessed from it: the password with which metrics are read, which Mainstay has
// made, and which stays. The authorities do not count: what mounts them follows a change.
func (d *Database) CredentialsRevision(observed State) string {
	application, metrics := d.ownSecret(observed, ApplicationName(d.Name)), d.ownSecret(observed, MetricsName(d.Name))
	if application == nil || metrics == nil || len(metrics.Data[corev1.BasicAuthPasswordKey]) == 0 {
		return ""
	}
	hasher := workload.NewHasher(metrics.Data[corev1.BasicAuthPasswordKey]).For(d.Namespace, application.Name)
	hashes := map[string]string{}
	for key, value := range application.Data {
		if key != AuthorityKey {
			hashes[key] = hasher.HashKey(value)
		}
	}
	return workload.HashAll(hashes)
}

// ownSecret returns a Secret of the database; nil if there is none.
func (d *Database) ownSecret(observed State, name string) *corev1.Secret {
	found := observed.Children[d.Ref("Secret", name)]
	secret, _ := found.Object.(*corev1.Secret)
	if found.Ownership != plan.Ours {
		return nil
	}
	return secret
}
