package database

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Authority returns the ConfigMap, and its key, with the authorities of a database's certificates.
func Authority(database string) (configMap, key string) { return AuthorityName(database), AuthorityKey }

// credentials are the keys of such a Secret that matter to who connects.
var credentials = []string{"uri", "host", "port", "dbname", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}

// CredentialsRevision returns a text that changes with the credentials in a Secret with which
// applications connect; "" while there is none. It is a hash under a key that is as secret as the
// content, so that no password can be guessed from it: the password with which metrics are read,
// which Mainstay has made, and which stays.
func (o State) CredentialsRevision(d *Database, secret string) string {
	application, metrics := o.secret(d, secret), o.secret(d, MetricsName(d.Name))
	if application == nil || metrics == nil || len(metrics.Data[corev1.BasicAuthPasswordKey]) == 0 {
		return ""
	}
	hasher := workload.NewHasher(metrics.Data[corev1.BasicAuthPasswordKey]).For(d.Namespace, application.Name)
	hashes := map[string]string{}
	for _, key := range credentials {
		if value, has := application.Data[key]; has {
			hashes[key] = hasher.HashKey(value)
		}
	}
	return workload.HashAll(hashes)
}

// secret returns a Secret of the database; nil if there is none.
func (o State) secret(d *Database, name string) *corev1.Secret {
	found := o.Children[d.Ref("Secret", name)]
	secret, _ := found.Object.(*corev1.Secret)
	if found.Ownership != plan.Ours {
		return nil
	}
	return secret
}
