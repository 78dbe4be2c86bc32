package postgresql

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// storageKind is one of the volumes that each instance has.
type storageKind struct {
	// volume is its name in a pod, which claims begin with.
	volume string
	// field is where its size is in a spec.
	field string
	size  resource.Quantity
	class *string
	// claim returns the name of an instance's claim.
	claim func(database string, ordinal int) string
	// what names it in messages.
	what string
}

// storageKinds are those of the database: the data, and the log if that is not with them.
func storageKinds(db *databasev1.PostgreSQL) []storageKind {
	spec := &db.Spec
	all := []storageKind{{dataVolume, "spec.storage", spec.Storage, spec.StorageClassName, VolumeName, "the volume of "}}
	if wal := spec.WALStorage; wal != nil {
		all = append(all, storageKind{walVolume, "spec.walStorage.size", wal.Size, wal.StorageClassName, WALVolumeName, "the WAL volume of "})
	}
	return all
}

// claims are those of all instances.
func claims(db *databasev1.PostgreSQL, decided Decision) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for ordinal := range int(decided.Replicas) {
		for _, kind := range storageKinds(db) {
			all = append(all, claimFor(db, kind, ordinal))
		}
	}
	return all
}

// claimFor is a claim of an instance. It consents to be taken over by a later PostgreSQL of the
// name, so that retained data are taken up again.
func claimFor(db *databasev1.PostgreSQL, kind storageKind, ordinal int) *corev1.PersistentVolumeClaim {
	meta := childMeta(db, kind.claim(db.Name, ordinal))
	meta.Annotations = naming.Merged(meta.Annotations, consent(db))
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claimOf(kind.class, kind.size)}
}

// addVolumes adds the claims of so many instances, and those that there are already of others: what
// is no child would be deleted, and spec.deletionPolicy is about the deletion of the PostgreSQL. A
// claim that no instance uses keeps its size.
func addVolumes(to *plan.Plan, db *databasev1.PostgreSQL, observed Observed, used int) {
	for ordinal := range MaxReplicas {
		for _, kind := range storageKinds(db) {
			claim := claimFor(db, kind, ordinal)
			if ordinal >= used {
				found := observed.Children[Ref(db, "PersistentVolumeClaim", claim.Name)]
				unused, isClaim := found.Object.(*corev1.PersistentVolumeClaim)
				if !isClaim || found.Ownership != plan.Ours || unused.DeletionTimestamp != nil {
					continue
				}
				claim.Spec.Resources.Requests = unused.Spec.Resources.Requests
			}
			to.Children = append(to.Children, plan.Child{
				Object: claim, Retain: db.Spec.DeletionPolicy == databasev1.DeletionRetain, KeepOthers: true,
			})
		}
		if db.Spec.WALStorage == nil {
			to.Keep = append(to.Keep, Ref(db, "PersistentVolumeClaim", WALVolumeName(db.Name, ordinal)))
		}
	}
}

// claimTemplates are those of the StatefulSet. They can't be changed: each keeps the size that it
// was made with.
func claimTemplates(db *databasev1.PostgreSQL, live *appsv1.StatefulSet) []corev1.PersistentVolumeClaim {
	var all []corev1.PersistentVolumeClaim
	for _, kind := range storageKinds(db) {
		made := corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: kind.volume, Annotations: consent(db)}, Spec: claimOf(kind.class, kind.size),
		}
		if live != nil {
			for _, before := range live.Spec.VolumeClaimTemplates {
				if before.Name == kind.volume {
					made.Annotations = before.Annotations
					made.Spec = claimOf(kind.class, *before.Spec.Resources.Requests.Storage())
				}
			}
		}
		all = append(all, made)
	}
	return all
}

// consent allows the PostgreSQL to take over the claim that has it as annotations.
func consent(db *databasev1.PostgreSQL) map[string]string {
	return map[string]string{api.AnnotationAdopt: "PostgreSQL/" + db.Name}
}

func claimOf(class *string, size resource.Quantity) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: class,
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}
}
