package integration

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// hasNone checks that nothing was made of a database.
func hasNone(t *testing.T, db *databasev1.PostgreSQL) {
	t.Helper()
	for name, object := range map[string]client.Object{
		"db": &appsv1.StatefulSet{}, "db-certificates": &corev1.Secret{}, "db-config": &corev1.ConfigMap{},
		"data-db-0": &corev1.PersistentVolumeClaim{},
	} {
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: db.Namespace, Name: name}, object)
		if !apierrors.IsNotFound(err) {
			t.Errorf("%T %s was made: %v", object, name, err)
		}
	}
}

// TestDatabaseInAWatchedNamespace: a database elsewhere is not read, and gets nothing.
func TestDatabaseInAWatchedNamespace(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	inside, outside := newDatabase(namespace(t)), newDatabase(namespace(t))
	create(t, outside)
	create(t, inside)
	manager := startManagerWith(t, everywhere, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.WatchNamespaces = []string{inside.Namespace}
	})
	g.Eventually(known(inside, "db", &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	manager.Stop()
	hasNone(t, outside)
	for _, call := range slices.Concat(manager.Requests.Since(0), manager.Requests.Watched()) {
		if strings.Contains(call, "/namespaces/"+outside.Namespace+"/") {
			t.Errorf("the other namespace is asked for: %s", call)
		}
	}
}

// TestDatabaseWithoutWebhooks: what no webhook refused is refused by the manager, with the field,
// and nothing is made until it is right.
func TestDatabaseWithoutWebhooks(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	db.Spec.Parameters = map[string]databasev1.ParameterValue{"fsync": "off"}
	db.Spec.PreferredPrimary = "db-7"
	startManagerWith(t, db.Namespace, nil, withImages)
	create(t, db)
	for _, kind := range []string{databasev1.ConditionStalled, databasev1.ConditionReady} {
		for _, part := range []string{"InvalidSpec", `spec.parameters[fsync]: Invalid value: "off": must not be set`, "spec.preferredPrimary: Unsupported value"} {
			g.Eventually(says(db, kind)).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
		}
	}
	hasNone(t, db)
	change(t, db, func(db *databasev1.PostgreSQL) { db.Spec.Parameters, db.Spec.PreferredPrimary = nil, "" })
	g.Eventually(known(db, "db", &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	g.Eventually(says(db, databasev1.ConditionStalled)).WithContext(t.Context()).Should(gomega.BeEmpty())
}

// versions returns the version of each child of a database.
func versions(ctx context.Context, db *databasev1.PostgreSQL) (map[string]string, error) {
	found := map[string]string{}
	for _, kind := range []schema.GroupVersionKind{
		appsv1.SchemeGroupVersion.WithKind("StatefulSet"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		ofDatabase := client.MatchingLabels{api.LabelInstance: db.Name}
		if err := cluster.Client.List(ctx, list, client.InNamespace(db.Namespace), ofDatabase); err != nil {
			return nil, err
		}
		for _, item := range list.Items {
			found[kind.Kind+" "+item.Name] = string(item.UID) + " " + item.ResourceVersion
		}
	}
	return found, nil
}

// TestDatabaseKindOff: a manager without the kind touches nothing of a database; one that has it
// again finds all as it should be.
func TestDatabaseKindOff(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	create(t, db)
	settled := func(g gomega.Gomega) {
		live := &databasev1.PostgreSQL{}
		g.Expect(known(db, "db", live, always)(t.Context())).To(gomega.Succeed())
		g.Expect(live.Status.ObservedGeneration).To(gomega.Equal(live.Generation))
		g.Expect(known(db, "db", &appsv1.StatefulSet{}, always)(t.Context())).To(gomega.Succeed())
	}
	first := startManagerWith(t, db.Namespace, nil, withImages)
	g.Eventually(settled).Should(gomega.Succeed())
	first.Stop()
	before, err := versions(t.Context(), db)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(len(before)).To(gomega.BeNumerically(">", 10), "%v", before)

	app := newApp(db.Namespace)
	create(t, app)
	without := startManagerWith(t, db.Namespace, nil, func(settings *setup.Settings) {
		withImages(settings)
		settings.Kinds = []string{"webapp"}
	})
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"), "it does not run")
	without.Stop()
	g.Expect(asked(without, "postgresqls")).To(gomega.BeFalse(), "a kind that is off is read")
	g.Expect(versions(t.Context(), db)).To(gomega.Equal(before), "a kind that is off changes its children")

	again := &testenv.Requests{}
	change(t, db, func(db *databasev1.PostgreSQL) { db.Spec.Failover.After = "12s" })
	startManagerWith(t, db.Namespace, again, withImages)
	g.Eventually(settled).Should(gomega.Succeed())
	for _, call := range testenv.In(db.Namespace, again.Since(0, "POST ", "PATCH ", "PUT ", "DELETE ")) {
		g.Expect(call).To(gomega.Or(gomega.ContainSubstring("/configmaps/db-config"), gomega.ContainSubstring("/postgresqls/db/status"),
			gomega.ContainSubstring("/"+app.Name)), "more is written than what changed")
	}
}

// TestDatabaseQuotaGrows: a quota that has no room for all volumes is told in its own words; no pod
// is made of half of them, and all goes on when it grows.
func TestDatabaseQuotaGrows(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	limit := func(count string) corev1.ResourceList {
		return corev1.ResourceList{"persistentvolumeclaims": resource.MustParse(count)}
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: "volumes"}, Spec: corev1.ResourceQuotaSpec{Hard: limit("1")}}
	create(t, quota)
	quota.Status = corev1.ResourceQuotaStatus{Hard: limit("1"), Used: limit("0")}
	g.Expect(cluster.Client.Status().Update(t.Context(), quota)).To(gomega.Succeed())
	startManagerWith(t, db.Namespace, nil, withImages)
	create(t, db)
	for _, part := range []string{"False Refused", "data-db-1", "exceeded quota: volumes", "limited: persistentvolumeclaims=1"} {
		g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
	}
	g.Expect(apierrors.IsNotFound(known(db, "db", &appsv1.StatefulSet{}, always)(t.Context()))).To(gomega.BeTrue(), "pods are made of half of the volumes")
	g.Eventually(func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota); err != nil {
			return err
		}
		quota.Status.Hard = limit("9")
		return cluster.Client.Status().Update(ctx, quota)
	}).WithContext(t.Context()).Should(gomega.Succeed())
	g.Eventually(known(db, "db", &appsv1.StatefulSet{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
}

// TestDatabaseLeavesForeignObjects: a foreign object under the name of what pods use stays as it
// is, is told, and no pod is made.
func TestDatabaseLeavesForeignObjects(t *testing.T) {
	t.Parallel()
	for name, object := range map[string]client.Object{
		"db-certificates": &corev1.Secret{}, "db-app": &corev1.Secret{}, "db-config": &corev1.ConfigMap{}, "db": &coordinationv1.Lease{},
		"data-db-1": &corev1.PersistentVolumeClaim{Spec: claimOf("1Gi", nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gomega.NewWithT(t)
			db := newDatabase(namespace(t))
			object.SetNamespace(db.Namespace)
			object.SetName(name)
			if name == "data-db-1" {
				// It is retained by a PostgreSQL of another name, which goes on using it.
				object.SetLabels(map[string]string{api.LabelOwnerUID: "uid-of-other", api.LabelManagedBy: api.ManagedBy})
				object.SetAnnotations(map[string]string{api.AnnotationAdopt: "PostgreSQL/other"})
			}
			create(t, object)
			version := object.GetResourceVersion()
			startManagerWith(t, db.Namespace, nil, withImages)
			create(t, db)
			for _, part := range []string{"False Conflict", db.Namespace + "/" + name + " exists and was not created by this PostgreSQL"} {
				g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.ContainSubstring(part))
			}
			g.Expect(known(db, name, object, func() bool { return object.GetResourceVersion() == version })(t.Context())).To(gomega.Succeed())
			g.Expect(apierrors.IsNotFound(known(db, "db", &appsv1.StatefulSet{}, always)(t.Context()))).To(gomega.BeTrue(), "pods are made")
			if name == "db-certificates" {
				err := known(db, "db-ca", &corev1.ConfigMap{}, always)(t.Context())
				g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "clients get an authority that is not stored")
			}
		})
	}
}
