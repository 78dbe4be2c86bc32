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
		all = append(all, storageKind{walVolume, "spec.walStorage.size", wal.Size, wal.StorageClassName, WALVolumeName, "the volume of the log of "})
	}
	return all
}

// claims are those of all instances. They consent to be taken over by a later PostgreSQL of the name,
// so that retained data are taken up again.
func claims(db *databasev1.PostgreSQL, decided Decision) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for ordinal := range int(decided.Replicas) {
		for _, kind := range storageKinds(db) {
			meta := childMeta(db, kind.claim(db.Name, ordinal))
			meta.Annotations = naming.Merged(meta.Annotations, consent(db))
			all = append(all, &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claimOf(kind.class, kind.size)})
		}
	}
	return all
}

// keptClaims are those from that instance on: they stay until the PostgreSQL is deleted, whatever its
// deletion policy, and are used again when it is scaled out.
func keptClaims(db *databasev1.PostgreSQL, from int) []plan.Ref {
	var refs []plan.Ref
	for ordinal := from; ordinal < MaxReplicas; ordinal++ {
		refs = append(refs, Ref(db, "PersistentVolumeClaim", VolumeName(db.Name, ordinal)),
			Ref(db, "PersistentVolumeClaim", WALVolumeName(db.Name, ordinal)))
	}
	return refs
}

// claimTemplates are those of the StatefulSet. They can't be changed: each keeps the size that it was
// made with.
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
