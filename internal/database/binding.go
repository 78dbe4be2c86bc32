package database

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Authority returns the ConfigMap, and its key, with the authorities of a database's certificates.
func Authority(database string) (configMap, key string) { return AuthorityName(database), AuthorityKey }

// credentials are the keys of such a Secret that matter to who connects.
var credentials = []string{"uri", "host", "port", "dbname", corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}

// revisionKey is the key, in the Secret with which metrics are read, of what revisions are hashed
// with.
const revisionKey = "revision-key"

// newRevisionKey returns what revisions are hashed with, for a new Secret. It follows from two
// passwords that were just drawn, so it is as random as they are, and one of them does not tell it.
func newRevisionKey(observed State) []byte {
	sum := sha256.Sum256([]byte(observed.Password + observed.MetricsPassword))
	return []byte(hex.EncodeToString(sum[:]))
}

// CredentialsRevision returns a text that changes with the credentials in a Secret with which
// applications connect; "" while there is none. It is a hash under a key that is as secret as the
// content, so that no password can be guessed from it: one that Mainstay has made beside the
// password with which metrics are read. That password may be changed by users, and serves only
// where an earlier Mainstay has made no key.
func (o State) CredentialsRevision(d *Database, secret string) string {
	application, metrics := o.secret(d, secret), o.secret(d, MetricsName(d.Name))
	if application == nil || metrics == nil {
		return ""
	}
	with := cmp.Or(string(metrics.Data[revisionKey]), string(metrics.Data[corev1.BasicAuthPasswordKey]))
	if with == "" {
		return ""
	}
	hasher := workload.NewHasher([]byte(with)).For(d.Namespace, application.Name)
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
