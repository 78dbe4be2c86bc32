package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// leads writes the record of a leader that waits for nobody, of a PostgreSQL or a Cache.
func leads(ctx context.Context, db client.Object, pod string) error {
	lease := &coordinationv1.Lease{}
	if err := there(db.GetNamespace(), db.GetName(), lease, always)(ctx); err != nil {
		return err
	}
	member := election.Member{Name: pod, Incarnation: "1"}
	text, err := election.Record{
		System: "1", Term: 2, Seq: 3, Timeline: 2, Open: true, Holder: election.Holder{Member: member}, Rules: []election.Rule{{Leader: member}},
	}.Encode()
	lease.Annotations[api.AnnotationRecord] = text
	return errors.Join(err, cluster.Client.Update(ctx, lease))
}

// ownersOf returns how many owners each claim of a database of three has, and which are being
// deleted.
func ownersOf(db *databasev1.PostgreSQL) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found := ""
		for ordinal := range 3 {
			claim := &corev1.PersistentVolumeClaim{}
			if err := known(db, fmt.Sprintf("data-%s-%d", db.Name, ordinal), claim, always)(ctx); err != nil {
				return "", err
			}
			if claim.DeletionTimestamp != nil {
				found += "deleted "
			}
			found += fmt.Sprint(len(claim.OwnerReferences), " ")
		}
		return found, nil
	}
}

// TestVolumesStay: the volumes of instances that were scaled away stay, also where they belong to
// the PostgreSQL, and follow its policy. They are deleted once the spec says that they are not
// needed.
func TestVolumesStay(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	db.Spec.DeletionPolicy = databasev1.DeletionDelete
	recorded := &testenv.Requests{}
	startManagerWith(t, db.Namespace, recorded, withImages)
	create(t, db)
	observedRevision(t, db, "db-1")
	g.Eventually(ownersOf(db)).WithContext(t.Context()).Should(gomega.Equal("1 1 1 "))
	g.Eventually(func(ctx context.Context) error { return leads(ctx, db, "db-0") }).WithContext(t.Context()).
		Should(gomega.Succeed())
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})

	live := &databasev1.PostgreSQL{}
	change := func(with func(*databasev1.PostgreSQLSpec)) {
		g.Expect(known(db, "db", live, always)(t.Context())).To(gomega.Succeed())
		before := live.DeepCopy()
		with(&live.Spec)
		g.Expect(cluster.Client.Patch(t.Context(), live, client.MergeFrom(before))).To(gomega.Succeed())
	}
	change(func(spec *databasev1.PostgreSQLSpec) { spec.Replicas = 1 })
	set := &appsv1.StatefulSet{}
	g.Eventually(known(db, "db", set, func() bool { return *set.Spec.Replicas == 1 })).WithContext(t.Context()).
		Should(gomega.Succeed())
	g.Eventually(known(db, "db", live, func() bool { return live.Status.ObservedGeneration == live.Generation })).WithContext(t.Context()).
		Should(gomega.Succeed())
	change(func(spec *databasev1.PostgreSQLSpec) { spec.DeletionPolicy = databasev1.DeletionRetain })
	g.Eventually(ownersOf(db)).WithContext(t.Context()).Should(gomega.Equal("0 0 0 "))
	for _, call := range recorded.Since(0, "DELETE ") {
		g.Expect(call).NotTo(gomega.ContainSubstring("/persistentvolumeclaims/"))
	}
	observedRevision(t, db, "db-1")
	change(func(spec *databasev1.PostgreSQLSpec) { spec.Reclaim = databasev1.DeletionDelete })
	g.Eventually(ownersOf(db)).WithContext(t.Context()).Should(gomega.Equal("0 deleted 0 deleted 0 "))
}

// TestEarlierVolumes: a PostgreSQL of one instance that finds volumes of three lets all of them
// answer before one leads, and allows no new data.
func TestEarlierVolumes(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	db := newDatabase(namespace(t))
	db.Spec.Replicas = 1
	for _, ordinal := range []int{0, 2} {
		create(t, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: db.Namespace, Name: fmt.Sprintf("data-db-%d", ordinal), Annotations: map[string]string{api.AnnotationAdopt: "PostgreSQL/db"},
			},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		})
	}
	startManagerWith(t, db.Namespace, &testenv.Requests{}, withImages)
	create(t, db)
	set := &appsv1.StatefulSet{}
	g.Eventually(known(db, "db", set, always)).WithContext(t.Context()).Should(gomega.Succeed())
	g.Expect(*set.Spec.Replicas).To(gomega.BeEquivalentTo(3))
	settings, err := told(t.Context(), db)
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(settings.Pods).To(gomega.Equal([]string{"db-0", "db-1", "db-2"}))
	lease := &coordinationv1.Lease{}
	g.Expect(known(db, "db", lease, always)(t.Context())).To(gomega.Succeed())
	record, err := election.Decode(lease.Annotations[api.AnnotationRecord])
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(record.Initialise).To(gomega.BeEmpty())

	g.Eventually(func(ctx context.Context) error { return leads(ctx, db, "db-0") }).WithContext(t.Context()).
		Should(gomega.Succeed())
	runs(t, db, 0, contract.Report{Role: contract.Primary, State: "Leading", Term: 2, Provided: true})
	g.Eventually(known(db, "db", set, func() bool { return *set.Spec.Replicas == 1 })).WithContext(t.Context()).
		Should(gomega.Succeed())
	g.Expect(ownersOf(db)(t.Context())).To(gomega.Equal("0 0 0 "))
}
