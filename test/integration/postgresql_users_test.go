package integration

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/postgres"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// declared returns what the primary is to make, if the settings have its revision.
func declared(ctx context.Context, db *databasev1.PostgreSQL) (contract.Provisions, string, error) {
	secret, settings := &corev1.Secret{}, &corev1.ConfigMap{}
	err := errors.Join(
		cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: "db-provisions"}, secret),
		cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: "db-config"}, settings),
	)
	if err != nil {
		return contract.Provisions{}, "", err
	}
	content := secret.Data[contract.ProvisionsKey]
	told, err := contract.ParseSettings(settings.Data[contract.SettingsKey])
	if err != nil {
		return contract.Provisions{}, "", err
	}
	if told.Provisions != contract.ProvisionsRevision(content) {
		return contract.Provisions{}, "", errors.New("the settings have another revision")
	}
	provisions, err := contract.ParseProvisions(content)
	return provisions, told.Provisions, err
}

// hasMade lets the primary say that it has made a revision.
func hasMade(t *testing.T, db *databasev1.PostgreSQL, revision string) {
	t.Helper()
	reports(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true, Provisions: revision})
}

// TestDatabaseUsers: a user gets a Secret, and the primary what the server keeps in place of its
// password; an edit of the password counts; a user that leaves takes its Secret along.
func TestDatabaseUsers(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	own, db := namespace(t), newDatabase(namespace(t))
	startManagerWith(t, db.Namespace, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.Namespace, settings.SecretNamespaces = own, []string{db.Namespace}
	})
	db.Spec.Replicas = 1
	db.Spec.Users = []databasev1.User{{Name: "shop"}, {Name: "given", PasswordSecret: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "mine"}, Key: "secret",
	}}}
	db.Spec.Databases = []databasev1.Database{{Name: "orders", Owner: "shop"}}
	create(t, db)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	live, secret := &databasev1.PostgreSQL{}, &corev1.Secret{}
	ready := func() string {
		condition := meta.FindStatusCondition(live.Status.Conditions, databasev1.ConditionReady)
		if condition == nil {
			return ""
		}
		return string(condition.Status) + " " + condition.Reason + " " + condition.Message
	}
	says := func(part string) {
		t.Helper()
		g.Eventually(func(ctx context.Context) string {
			_ = cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live)
			return ready()
		}).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
	}
	says("False SecretNotUsable some users cannot be updated: user given: the Secret mine does not exist")
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "mine"}, StringData: map[string]string{"secret": "hello"}})
	says("False Provisioning db-0 is applying spec.databases, spec.users")
	provisions, revision, err := declared(t.Context(), db)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(known(db, "db-shop", secret, always)(t.Context())).To(gomega.Succeed())
	g.Expect(postgres.Verifies(provisions.Users[0].Verifier, string(secret.Data["password"]))).To(gomega.BeTrue())
	g.Expect(postgres.Verifies(provisions.Users[1].Verifier, "hello")).To(gomega.BeTrue())
	g.Expect(string(secret.Data["uri"])).To(gomega.ContainSubstring("/orders?"))
	hasMade(t, db, revision)
	says("True Available")

	secret.Data["password"] = []byte("edited")
	g.Expect(cluster.Client.Update(t.Context(), secret)).To(gomega.Succeed())
	g.Eventually(func(ctx context.Context) bool {
		provisions, revision, err = declared(ctx, db)
		return err == nil && provisions.Users[1].As == "shop" && postgres.Verifies(provisions.Users[1].Verifier, "edited")
	}).WithContext(t.Context()).Should(gomega.BeTrue(), "an edited password is not passed on")
	g.Eventually(known(db, "db-shop", secret, func() bool {
		return string(secret.Data["uri"]) == "postgresql://shop.2:edited@db-rw."+db.Namespace+".svc:5432/orders?sslmode=require"
	})).WithContext(t.Context()).Should(gomega.Succeed(), "the address does not follow the password")
	hasMade(t, db, revision)
	says("True Available")
	leave(t, db, says)
}

// leave takes all users and databases out of the spec.
func leave(t *testing.T, db *databasev1.PostgreSQL, says func(part string)) {
	t.Helper()
	g, secret := gomega.NewWithT(t), &corev1.Secret{}
	change(t, db, func(db *databasev1.PostgreSQL) { db.Spec.Users, db.Spec.Databases = nil, nil })
	g.Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: "db-shop"}, secret))
	}).WithContext(t.Context()).Should(gomega.BeTrue(), "the Secret of a former user stays")
	provisions, revision, err := declared(t.Context(), db)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(provisions.FormerUsers).To(gomega.HaveLen(3))
	hasMade(t, db, revision)
	g.Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: "db-provisions"}, secret))
	}).WithContext(t.Context()).Should(gomega.BeTrue(), "what was made stays listed")
	says("True Available")
	g.Expect(known(db, "mine", secret, always)(t.Context())).To(gomega.Succeed(), "the user's own Secret is gone")
}

// TestDatabaseUserInTheWay: a Secret of another owner keeps its user back, and nobody else; it is
// left as it is, and nothing is written again and again.
func TestDatabaseUserInTheWay(t *testing.T) {
	t.Parallel()
	g, db, recorded := gomega.NewWithT(t), newDatabase(namespace(t)), &testenv.Requests{}
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "db-shop"}, StringData: map[string]string{"password": "theirs"}})
	manager := startManagerWith(t, db.Namespace, recorded, withImages)
	db.Spec.Replicas = 1
	db.Spec.Users = []databasev1.User{{Name: "shop"}, {Name: "other"}}
	create(t, db)
	var provisions contract.Provisions
	g.Eventually(func(ctx context.Context) (err error) { provisions, _, err = declared(ctx, db); return err }).WithContext(t.Context()).
		Should(gomega.Succeed())
	g.Expect(provisions.Users).To(gomega.ConsistOf(gomega.HaveField("Name", "other")))
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	live := &databasev1.PostgreSQL{}
	g.Eventually(known(db, "db", live, func() bool {
		ready := meta.FindStatusCondition(live.Status.Conditions, databasev1.ConditionReady)
		return ready != nil && strings.Contains(ready.Message, "user shop: the Secret db-shop exists and was not created by this PostgreSQL")
	})).WithContext(t.Context()).Should(gomega.Succeed())
	manager.Settle(t)
	before := recorded.Count()
	change(t, db, func(db *databasev1.PostgreSQL) { db.Labels = map[string]string{"team": "shop"} })
	manager.Settle(t)
	for _, call := range testenv.In(db.Namespace, recorded.Since(before, "POST ", "PATCH ", "DELETE ", "PUT ")) {
		g.Expect(call).NotTo(gomega.Or(gomega.ContainSubstring("/secrets"), gomega.ContainSubstring("/configmaps")), "it is written again")
	}
	secret := &corev1.Secret{}
	g.Expect(known(db, "db-shop", secret, always)(t.Context())).To(gomega.Succeed())
	g.Expect(string(secret.Data["password"])).To(gomega.Equal("theirs"))
}
