package integration

import (
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
)

// TestDatabaseSecrets: a Secret that was edited or deleted is noticed at once where Secrets are
// watched, and elsewhere when the PostgreSQL changes.
func TestDatabaseSecrets(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	own, watched, unwatched := namespace(t), newDatabase(namespace(t)), newDatabase(namespace(t))
	startManagerWith(t, watched.Namespace, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.Namespace, settings.SecretNamespaces = own, []string{watched.Namespace}
	})
	manager := startManagerWith(t, unwatched.Namespace, nil, withImages)
	for _, db := range []*databasev1.PostgreSQL{watched, unwatched} {
		create(t, db)
		g.Eventually(known(db, "db-app", &corev1.Secret{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	}
	manager.Settle(t)

	certificates := &corev1.Secret{}
	g.Expect(known(watched, "db-certificates", certificates, always)(t.Context())).To(gomega.Succeed())
	before := string(certificates.Data["0.crt"])
	certificates.Data["0.crt"] = []byte("nothing")
	g.Expect(cluster.Client.Update(t.Context(), certificates)).To(gomega.Succeed())
	g.Eventually(known(watched, "db-certificates", certificates, func() bool { return string(certificates.Data["0.crt"]) != "nothing" })).
		WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(before).NotTo(gomega.BeEmpty())

	remade := func(db *databasev1.PostgreSQL, than types.UID) {
		secret := &corev1.Secret{}
		g.Eventually(known(db, "db-app", secret, func() bool { return secret.UID != than && len(secret.Data["uri"]) > 0 })).
			WithContext(t.Context()).Should(gomega.Succeed())
	}
	lost := func(db *databasev1.PostgreSQL) types.UID {
		secret := &corev1.Secret{}
		g.Expect(known(db, "db-app", secret, always)(t.Context())).To(gomega.Succeed())
		uid := secret.UID
		g.Expect(cluster.Client.Delete(t.Context(), secret)).To(gomega.Succeed())
		return uid
	}
	remade(watched, lost(watched))
	uid := lost(unwatched)
	change(t, unwatched, func(db *databasev1.PostgreSQL) { db.Labels = map[string]string{"team": "shop"} })
	remade(unwatched, uid)
}
