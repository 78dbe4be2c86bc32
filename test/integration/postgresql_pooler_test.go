package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
)

// TestDatabasePooler: the pooler is made with what the primary needs for it, an application that is
// bound to the database starts when it takes connections, and leaves it before everything goes.
func TestDatabasePooler(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	manager := startManagerWith(t, db.Namespace, nil, withImages)
	db.Spec.Replicas, db.Spec.Pooler = 1, &databasev1.Pooler{}
	app := newApp(db.Namespace, bindTo)
	create(t, db)
	create(t, app)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	var revision string
	g.Eventually(func(ctx context.Context) (bool, error) {
		provisions, told, err := declared(ctx, db)
		revision = told
		return provisions.Pooler, err
	}).WithContext(t.Context()).Should(gomega.BeTrue(), "the primary is not told of the pooler")
	hasMade(t, db, revision)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "db-pooler"}}
	g.Eventually(known(db, "db-pooler", deployment, always)).WithContext(t.Context()).Should(gomega.Succeed())
	objects := []client.Object{&corev1.Service{}, &corev1.Secret{}, &networkingv1.NetworkPolicy{}, &policyv1.PodDisruptionBudget{}}
	for _, object := range objects {
		g.Eventually(known(db, "db-pooler", object, always)).WithContext(t.Context()).Should(gomega.Succeed())
	}
	from := connectsWith(app)
	g.Eventually(whyNotReady(app)).WithContext(t.Context()).Should(gomega.ContainSubstring("PostgreSQL db, whose pooler takes no connections yet"))
	live := &databasev1.PostgreSQL{}
	ready := func(ctx context.Context) (string, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live)
		condition := meta.FindStatusCondition(live.Status.Conditions, databasev1.ConditionReady)
		if condition == nil {
			return "", err
		}
		return string(condition.Status) + " " + condition.Reason, err
	}
	g.Eventually(ready).WithContext(t.Context()).Should(gomega.Equal("False Updating"))
	rollOut(t, deployment)
	g.Eventually(ready).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Expect(live.Status.Pooler).To(gomega.Equal(&databasev1.PoolerStatus{ReadyInstances: 2, SecretName: "db-pooler"}))
	g.Eventually(from).WithContext(t.Context()).Should(gomega.Equal("db-pooler"))
	bound := &appsv1.Deployment{}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), bound)).To(gomega.Succeed())
	g.Expect(bound.Generation).To(gomega.BeEquivalentTo(1), "its pods are replaced at the very start")
	manager.Settle(t)
	removePooler(t, live, app, ready, append(objects, deployment))
}

// connectsWith returns the name of the Secret with which an app connects; "" before it starts.
func connectsWith(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		bound := &appsv1.Deployment{}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), bound)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil || len(bound.Spec.Template.Spec.Containers[0].Env) == 0 {
			return "", err
		}
		return bound.Spec.Template.Spec.Containers[0].Env[0].ValueFrom.SecretKeyRef.Name, nil
	}
}

// TestPoolerInTheWay: a pooler that can't be made is reported, and keeps neither the database nor
// an application that is bound to it from starting.
func TestPoolerInTheWay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		obstruct func(t *testing.T, db *databasev1.PostgreSQL)
		says     string
	}{
		"a foreign Service": {func(t *testing.T, db *databasev1.PostgreSQL) {
			t.Helper()
			create(t, &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "db-pooler"},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}},
			})
		}, "exists and was not created by this PostgreSQL"},
		"a quota of Deployments": {func(t *testing.T, db *databasev1.PostgreSQL) {
			t.Helper()
			forbid(t, db.Namespace, "count/deployments.apps")
		}, "exceeded quota"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			db := newDatabase(namespace(t))
			startManagerWith(t, db.Namespace, nil, withImages)
			test.obstruct(t, db)
			db.Spec.Replicas, db.Spec.Pooler = 1, &databasev1.Pooler{}
			app := newApp(db.Namespace, bindTo)
			create(t, db)
			create(t, app)
			observedRevision(t, db, "db-1")
			runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
			g.Eventually(func(ctx context.Context) (string, error) {
				live := &databasev1.PostgreSQL{}
				if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live); err != nil || live.Status.Pooler == nil {
					return "", err
				}
				return live.Status.Pooler.Problem, nil
			}).WithContext(t.Context()).Should(gomega.ContainSubstring(test.says))
			if name == "a foreign Service" {
				g.Eventually(connectsWith(app)).WithContext(t.Context()).Should(gomega.Equal("db-app"))
				return
			}
			// The quota refuses the application, too, which so does not wait for the pooler.
			g.Eventually(whyNotReady(app)).WithContext(t.Context()).Should(gomega.ContainSubstring("exceeded quota"))
		})
	}
}

// whyNotReady returns the message of an app's condition Ready.
func whyNotReady(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		live := &msappsv1.WebApp{}
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), live)
		if condition := meta.FindStatusCondition(live.Status.Conditions, msappsv1.ConditionReady); condition != nil {
			return condition.Message, err
		}
		return "", err
	}
}

// removePooler takes the pooler out of the spec of a PostgreSQL: the application that is bound to
// it leaves it, and once it has no pods of before, the pooler goes. ready returns the condition
// Ready.
func removePooler(t *testing.T, live *databasev1.PostgreSQL, app *msappsv1.WebApp, ready func(context.Context) (string, error),
	objects []client.Object) {
	t.Helper()
	from := connectsWith(app)
	g, db, deployment := gomega.NewWithT(t), live, &appsv1.Deployment{}
	g.Expect(cluster.Client.Patch(t.Context(), live, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"pooler":null}}`)))).To(gomega.Succeed())
	g.Eventually(from).WithContext(t.Context()).Should(gomega.Equal("db-app"))
	g.Eventually(ready).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Eventually(func(ctx context.Context) (bool, error) {
		_, err := ready(ctx)
		return live.Status.Pooler.LeavesAt != nil, err
	}).WithContext(t.Context()).Should(gomega.BeTrue())
	g.Expect(known(db, "db-pooler", deployment, always)(t.Context())).To(gomega.Succeed(), "it is deleted before its clients are replaced")
	g.Eventually(func(ctx context.Context) error { // unless the manager writes the status in between
		if _, err := ready(ctx); err != nil {
			return err
		}
		live.Status.Pooler.LeavesAt = &metav1.Time{Time: time.Now().Add(-time.Minute)}
		return cluster.Client.Status().Update(ctx, live)
	}).WithContext(t.Context()).Should(gomega.Succeed())
	touch := func(after string) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"failover":{"after":"`+after+`"}}}`))
		g.Expect(cluster.Client.Patch(t.Context(), live, patch)).To(gomega.Succeed())
	}
	touch("12s")
	g.Eventually(func(ctx context.Context) (string, error) {
		_, err := ready(ctx)
		return live.Status.Pooler.WaitsFor, err
	}).WithContext(t.Context()).Should(gomega.Equal(app.Name), "its pods have not been replaced")
	g.Expect(known(db, "db-pooler", &corev1.Secret{}, always)(t.Context())).To(gomega.Succeed(), "a pod that starts again needs it")
	bound := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	rollOut(t, bound)
	bound.Status.TerminatingReplicas = new(int32(0))
	g.Expect(cluster.Client.Status().Update(t.Context(), bound)).To(gomega.Succeed())
	touch("13s")
	for _, object := range objects {
		g.Eventually(func(ctx context.Context) bool {
			return apierrors.IsNotFound(cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: "db-pooler"}, object))
		}).WithContext(t.Context()).Should(gomega.BeTrue(), "%T stays", object)
	}
	g.Eventually(func(ctx context.Context) (*databasev1.PoolerStatus, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), live)
		return live.Status.Pooler, err
	}).WithContext(t.Context()).Should(gomega.BeNil())
}
