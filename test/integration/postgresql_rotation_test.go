package integration

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kinds/postgresql"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestDatabaseRotation: a new time in the spec rotates the password once. The Secret gets the next
// one only when the primary has made it; the status says whose turn it is, and until when the
// former password works. Then nothing more is written.
func TestDatabaseRotation(t *testing.T) {
	t.Parallel()
	g, db, recorded := gomega.NewWithT(t), newDatabase(namespace(t)), &testenv.Requests{}
	manager := startManagerWith(t, db.Namespace, recorded, withImages)
	db.Spec.Replicas = 1
	db.Spec.Users = []databasev1.User{{Name: "shop", RotateEvery: "24h", RotatedAt: new(metav1.NewTime(time.Now().Add(-time.Hour)))}}
	create(t, db)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	secret, live := &corev1.Secret{}, &databasev1.PostgreSQL{}
	status := func(is func(databasev1.UserStatus) bool) {
		t.Helper()
		g.Eventually(func(ctx context.Context) bool {
			_ = cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live)
			return len(live.Status.Users) == 1 && is(live.Status.Users[0])
		}).WithContext(t.Context()).Should(gomega.BeTrue())
	}
	_, revision := declaredRoles(t, db, 1)
	hasMade(t, db, revision)
	status(func(one databasev1.UserStatus) bool {
		return one.Login == "shop" && one.Since != nil && one.FormerLogin == ""
	})
	g.Expect(known(db, "db-shop", secret, always)(t.Context())).To(gomega.Succeed())
	former, revisionOfFirst := string(secret.Data["password"]), live.Status.Users[0].Revision

	change(t, db, func(db *databasev1.PostgreSQL) { db.Spec.Users[0].RotatedAt = new(metav1.Now().Rfc3339Copy()) })
	made, revision := declaredRoles(t, db, 2)
	g.Expect(known(db, "db-shop", secret, always)(t.Context())).To(gomega.Succeed())
	next := string(secret.Data[postgresql.NextPasswordKey])
	g.Expect(string(secret.Data["username"]) + " " + string(secret.Data["password"])).To(gomega.Equal("shop " + former))
	g.Expect(postgres.Verifies(made[0].Verifier, former)).To(gomega.BeTrue())
	g.Expect(postgres.Verifies(made[1].Verifier, next)).To(gomega.BeTrue(), "the next password is not the second role's")
	hasMade(t, db, revision)
	g.Eventually(known(db, "db-shop", secret, func() bool {
		_, waits := secret.Data[postgresql.NextPasswordKey]
		return string(secret.Data["username"]) == "shop.2" && string(secret.Data["password"]) == next && !waits
	})).WithContext(t.Context()).Should(gomega.Succeed(), "the Secret does not get the password that the primary has made")
	g.Eventually(func(ctx context.Context) string {
		made, told, _ := declared(ctx, db)
		revision = told
		if len(made.Users) == 0 {
			return ""
		}
		return made.Users[0].Turn.Login
	}).WithContext(t.Context()).Should(gomega.Equal("shop.2"))
	hasMade(t, db, revision)
	status(func(one databasev1.UserStatus) bool {
		return one.Login == "shop.2" && one.FormerLogin == "shop" && one.FormerUntil != nil && one.Revision != revisionOfFirst
	})
	g.Expect(live.Status.Users[0].FormerUntil.Sub(live.Status.Users[0].Since.Time)).To(gomega.Equal(time.Hour))
	manager.Settle(t)
	rotatesOnce(t, db, manager, recorded)
}

// rotatesOnce: another change of the spec writes neither Secrets nor settings.
func rotatesOnce(t *testing.T, db *databasev1.PostgreSQL, manager *testenv.Manager, recorded *testenv.Requests) {
	t.Helper()
	g := gomega.NewWithT(t)
	before := recorded.Count()
	change(t, db, func(db *databasev1.PostgreSQL) { db.Labels = map[string]string{"team": "shop"} })
	manager.Settle(t)
	for _, call := range testenv.In(db.Namespace, recorded.Since(before, "POST ", "PATCH ", "DELETE ", "PUT ")) {
		g.Expect(call).NotTo(gomega.Or(gomega.ContainSubstring("/secrets"), gomega.ContainSubstring("/configmaps")), "it is written again")
	}
}

// declaredRoles returns the roles that the primary is to make, once there are so many.
func declaredRoles(t *testing.T, db *databasev1.PostgreSQL, want int) (users []contract.User, revision string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(ctx context.Context) error {
		provisions, told, err := declared(ctx, db)
		users, revision = provisions.Users, told
		if err == nil && len(users) != want {
			err = errors.New("the primary is to make another number of roles")
		}
		return err
	}).WithContext(t.Context()).Should(gomega.Succeed())
	return users, revision
}
