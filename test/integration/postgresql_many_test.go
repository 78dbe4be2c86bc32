package integration

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/test/cases"
)

// TestManyDatabaseUsers: a hundred users in one spec are accepted, at night a thousand, each
// gets a Secret, and the status has all of them.
func TestManyDatabaseUsers(t *testing.T) {
	t.Parallel()
	users := cases.Number(t, 100, 1000)
	g, db := gomega.NewWithT(t), newDatabase(namespace(t))
	startManagerWith(t, db.Namespace, nil, withImages)
	db.Spec.Replicas = 1
	for i := range users {
		user := databasev1.User{Name: fmt.Sprintf("user-%d", i), RotateEvery: "720h", Roles: []string{"pg_monitor"}}
		db.Spec.Users = append(db.Spec.Users, user)
		if i < users/10 {
			db.Spec.Databases = append(db.Spec.Databases, databasev1.Database{Name: user.Name, Owner: user.Name, Schemas: []string{"sales"}})
		}
	}
	began := time.Now()
	create(t, db)
	var revision string
	g.Eventually(func(ctx context.Context) (users int) {
		provisions, told, _ := declared(ctx, db)
		revision = told
		return len(provisions.Users)
	}).WithContext(t.Context()).Should(gomega.Equal(users))
	t.Logf("declared after %s", time.Since(began).Round(time.Millisecond))
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true, Provisions: revision})
	live := &databasev1.PostgreSQL{}
	g.Eventually(known(db, "db", live, func() bool { return len(live.Status.Users) == users })).WithContext(t.Context()).
		Should(gomega.Succeed())
	g.Expect(known(db, fmt.Sprintf("db-user-%d", users-1), &corev1.Secret{}, always)(t.Context())).To(gomega.Succeed())
}

// TestFirstStatements: the primary gets the statements of the spec, a ConfigMap and a Secret, once
// all of them can be read, and not after the PostgreSQL was ready.
func TestFirstStatements(t *testing.T) {
	t.Parallel()
	g, db := gomega.NewWithT(t), newDatabase(namespace(t))
	startManagerWith(t, db.Namespace, nil, withImages)
	db.Spec.Replicas = 1
	db.Spec.InitSQL = []databasev1.InitSQL{
		{SQL: "SELECT 1"},
		{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "schema"}, Key: "sql"}},
		{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "seed"}, Key: "sql"}},
	}
	create(t, db)
	observedRevision(t, db, "db-1")
	report := contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true}
	runs(t, db, 0, report)
	live := &databasev1.PostgreSQL{}
	says := func(part string) {
		t.Helper()
		g.Eventually(func(ctx context.Context) string {
			_ = known(db, "db", live, always)(ctx)
			return fmt.Sprint(live.Status.Conditions)
		}).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
	}
	says("the database app waits for its first statements: spec.initSQL[1]: the ConfigMap schema does not exist")
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: db.Namespace, Name: name} }
	create(t, &corev1.ConfigMap{ObjectMeta: named("schema"), Data: map[string]string{"sql": "SELECT 2"}})
	create(t, &corev1.Secret{ObjectMeta: named("seed"), StringData: map[string]string{"sql": "SELECT 3"}})
	var revision string
	g.Eventually(func(ctx context.Context) []contract.Statement {
		provisions, told, _ := declared(ctx, db)
		revision = told
		return provisions.InitSQL
	}).WithContext(t.Context()).Should(gomega.Equal([]contract.Statement{
		{SQL: "SELECT 1"}, {SQL: "SELECT 2"}, {SQL: "SELECT 3", IsSecret: true},
	}))
	hasMade(t, db, revision)
	g.Eventually(known(db, "db", live, func() bool { return live.Status.FirstReadyTime != nil })).WithContext(t.Context()).
		Should(gomega.Succeed())
	change(t, db, func(db *databasev1.PostgreSQL) { db.Labels = map[string]string{"team": "shop"} })
	settings := &corev1.ConfigMap{}
	g.Eventually(known(db, "db-config", settings, func() bool {
		told, err := contract.ParseSettings(settings.Data[contract.SettingsKey])
		return err == nil && !told.Initialise && told.Provisions == ""
	})).WithContext(t.Context()).Should(gomega.Succeed(), "the statements stay after the PostgreSQL was ready")
}
