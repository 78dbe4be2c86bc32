package integration

import (
	"testing"

	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
)

// TestDeletionIsShown: an object whose deletion waits for finalizers says so, and names those that
// are left. The garbage collector, which would remove one of them, does not run here.
func TestDeletionIsShown(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	const theirs = "example.com/theirs"
	controllerutil.AddFinalizer(db, theirs)
	startManagerWith(t, db.Namespace, nil, withImages)
	create(t, db)
	g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.ContainSubstring("Creating"))
	g.Expect(cluster.Client.Delete(t.Context(), db, client.PropagationPolicy(metav1.DeletePropagationForeground))).To(gomega.Succeed())
	g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.SatisfyAll(
		gomega.ContainSubstring("False Deleting"), gomega.ContainSubstring(theirs), gomega.ContainSubstring("foregroundDeletion (Kubernetes")))
	live := &databasev1.PostgreSQL{}
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(db), live)).To(gomega.Succeed())
	g.Expect(live.Status.Phase).To(gomega.Equal(databasev1.PhaseDeleting))

	change(t, db, func(db *databasev1.PostgreSQL) { controllerutil.RemoveFinalizer(db, metav1.FinalizerDeleteDependents) })
	g.Eventually(says(db, databasev1.ConditionReady)).WithContext(t.Context()).Should(gomega.HaveSuffix("waits for the finalizer " + theirs))
	change(t, db, func(db *databasev1.PostgreSQL) { controllerutil.RemoveFinalizer(db, theirs) })
}
