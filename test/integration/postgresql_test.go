package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// withImages lets the manager know images of databases.
func withImages(settings *setup.Settings) {
	settings.InstanceImage = "mainstay:1.0"
	settings.PgBouncerImage = "registry.example.com/pgbouncer:1.24.1"
	settings.PostgreSQLImages = map[string]string{"17": "registry.example.com/postgresql:17.11"}
}

// newDatabase returns the PostgreSQL of the smallest use, with three instances.
func newDatabase(namespace string) *databasev1.PostgreSQL {
	return &databasev1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
		Spec:       databasev1.PostgreSQLSpec{Version: "17", Storage: resource.MustParse("1Gi"), Replicas: 3},
	}
}

// known returns a check that an object of the database's namespace exists and is as wanted.
func known(db *databasev1.PostgreSQL, name string, object client.Object, wanted func() bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: db.Namespace, Name: name}, object); err != nil {
			return err
		}
		if !wanted() {
			return fmt.Errorf("%s is not as wanted", name)
		}
		return nil
	}
}

func always() bool { return true }

// TestDatabaseIsMade: everything that the instances need is there, in an order in which they can't
// make new data over old ones.
func TestDatabaseIsMade(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	recorded := &testenv.Requests{}
	db := newDatabase(namespace(t))
	startManagerWith(t, db.Namespace, recorded, withImages)
	create(t, db)
	set := &appsv1.StatefulSet{}
	g.Eventually(known(db, "db", set, always)).WithContext(t.Context()).Should(gomega.Succeed())
	for name, object := range map[string]client.Object{
		"db-certificates": &corev1.Secret{}, "db-app": &corev1.Secret{}, "db-metrics": &corev1.Secret{}, "db-config": &corev1.ConfigMap{}, "db-ca": &corev1.ConfigMap{},
		"db-instance": &rbacv1.Role{}, "db": &coordinationv1.Lease{}, "db-rw": &discoveryv1.EndpointSlice{}, "db-ro": &corev1.Service{},
		"data-db-2": &corev1.PersistentVolumeClaim{},
	} {
		g.Expect(known(db, name, object, always)(t.Context())).To(gomega.Succeed(), name)
	}
	g.Eventually(known(db, "db", &policyv1.PodDisruptionBudget{}, always)).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(known(db, "db", &networkingv1.NetworkPolicy{}, always)(t.Context())).To(gomega.Succeed())
	lease := &coordinationv1.Lease{}
	g.Expect(known(db, "db", lease, always)(t.Context())).To(gomega.Succeed())
	record, err := election.Decode(lease.Annotations[api.AnnotationRecord])
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(record.Initialise).To(gomega.Equal("db-0"))
	claim := &corev1.PersistentVolumeClaim{}
	g.Expect(known(db, "data-db-0", claim, always)(t.Context())).To(gomega.Succeed())
	g.Expect(claim.OwnerReferences).To(gomega.BeEmpty(), "a retained volume goes with its owner")

	written := []string{}
	for _, call := range recorded.Since(0, "POST ", "PATCH ") {
		if strings.Contains(call, "/leases") || strings.Contains(call, "/persistentvolumeclaims") {
			written = append(written, call)
		}
	}
	g.Expect(len(written)).To(gomega.BeNumerically(">=", 4))
	g.Expect(written[0]).To(gomega.ContainSubstring("/leases"), "the record comes before the first volume: %v", written)
}

// runs creates the pod of an instance, as the StatefulSet's controller and our program would.
func runs(t *testing.T, db *databasev1.PostgreSQL, ordinal int, report contract.Report) {
	t.Helper()
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: db.Namespace, Name: fmt.Sprintf("%s-%d", db.Name, ordinal),
			Labels: map[string]string{
				api.LabelOwnerKind: "postgresql", api.LabelOwner: db.Name, api.LabelManagedBy: api.ManagedBy,
				appsv1.ControllerRevisionHashLabelKey: "db-1",
			},
			Annotations: map[string]string{api.AnnotationInstance: string(text)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "postgres", Image: "postgresql:17.11"}}},
	}
	create(t, pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.Phase = corev1.PodRunning
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// observedRevision lets the StatefulSet say that it has seen its template.
func observedRevision(t *testing.T, db client.Object, revision string) {
	t.Helper()
	set := &appsv1.StatefulSet{}
	gomega.NewWithT(t).Eventually(func(ctx context.Context) error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(db), set); err != nil {
			return err
		}
		set.Status.ObservedGeneration, set.Status.UpdateRevision, set.Status.Replicas = set.Generation, revision, 3
		return cluster.Client.Status().Update(ctx, set)
	}).WithContext(t.Context()).Should(gomega.Succeed())
}

// TestDatabaseLives: what the instances say makes the status; an edit of a child is undone, and
// nothing else is written; a changed template evicts one replica.
func TestDatabaseLives(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	recorded := &testenv.Requests{}
	startManagerWith(t, db.Namespace, recorded, withImages)
	create(t, db)
	observedRevision(t, db, "db-1")
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Timeline: 3, Provided: true})
	for ordinal := 1; ordinal < 3; ordinal++ {
		runs(t, db, ordinal, contract.Report{Role: contract.Replica, State: "Following", Term: 2})
	}
	live := &databasev1.PostgreSQL{}
	g.Eventually(known(db, "db", live, func() bool { return live.Status.Phase == databasev1.PhaseRunning })).WithContext(t.Context()).
		Should(gomega.Succeed())
	g.Expect(live.Status.Primary + " " + live.Status.InstanceSummary).To(gomega.Equal("db-0 3/3"))
	quiet := recorded.Count()
	settings := &corev1.ConfigMap{}
	g.Expect(known(db, "db-config", settings, always)(t.Context())).To(gomega.Succeed())
	settings.Data[contract.SettingsKey] = "edited"
	g.Expect(cluster.Client.Update(t.Context(), settings)).To(gomega.Succeed())
	g.Eventually(known(db, "db-config", settings, func() bool { return settings.Data[contract.SettingsKey] != "edited" })).
		WithContext(t.Context()).Should(gomega.Succeed(), "an edit is not undone")
	for _, call := range testenv.In(db.Namespace, recorded.Since(quiet, "POST ", "PATCH ", "DELETE ", "PUT ")) {
		g.Expect(call).To(gomega.Or(gomega.ContainSubstring("/configmaps/db-config"),
			gomega.ContainSubstring("/postgresqls/db/status")), "more is written than what was edited")
	}

	observedRevision(t, db, "db-2")
	g.Eventually(func(ctx context.Context) bool {
		err := cluster.Client.Get(ctx, types.NamespacedName{Namespace: db.Namespace, Name: "db-2"}, &corev1.Pod{})
		return apierrors.IsNotFound(err)
	}).WithContext(t.Context()).Should(gomega.BeTrue(), "the replica with the highest number is not replaced")
	g.Expect(known(db, "db-0", &corev1.Pod{}, always)(t.Context())).To(gomega.Succeed(), "more than one pod is replaced")
	g.Expect(known(db, "db-1", &corev1.Pod{}, always)(t.Context())).To(gomega.Succeed(), "more than one pod is replaced")
}
