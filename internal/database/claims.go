package database

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// leaving are the StatefulSet, the pods and the claims of an earlier database of the name that are
// being deleted, or will be. Claims of this one that are being deleted are not among them: their
// data are in its record.
func (d *Database) leaving(observed State) []plan.Wait {
	var waits []plan.Wait
	add := func(kind, name string) {
		waits = append(waits, plan.Wait{For: d.Ref(kind, name), Message: "is still being deleted"})
	}
	set := observed.Children[d.Ref("StatefulSet", d.Name)]
	if set.Ownership == plan.Former {
		add("StatefulSet", d.Name)
	}
	for i := range observed.Pods {
		owner := metav1.GetControllerOf(&observed.Pods[i])
		if owner != nil && owner.Kind == "StatefulSet" && (set.Ownership != plan.Ours || set.Object.GetUID() != owner.UID) {
			add("Pod", observed.Pods[i].Name)
		}
	}
	for ordinal := range MaxReplicas {
		for _, volume := range d.Volumes {
			name := volume.Claim(d.Name, ordinal)
			found := observed.Children[d.Ref("PersistentVolumeClaim", name)]
			if found.Ownership == plan.Former || found.Ownership == plan.Consenting && found.Object.GetDeletionTimestamp() != nil {
				add("PersistentVolumeClaim", name)
			}
		}
	}
	return waits
}

// claims are those of all instances.
func (d *Database) claims(count int32) []*corev1.PersistentVolumeClaim {
	var all []*corev1.PersistentVolumeClaim
	for ordinal := range int(count) {
		for _, volume := range d.Volumes {
			all = append(all, d.claimFor(volume, ordinal))
		}
	}
	return all
}

// claimFor is a claim of an instance. It consents to be taken over by a later database of the
// name, so that retained data are taken up again.
func (d *Database) claimFor(volume Volume, ordinal int) *corev1.PersistentVolumeClaim {
	meta := d.Meta(volume.Claim(d.Name, ordinal))
	meta.Annotations = naming.Merged(meta.Annotations, d.consent())
	if !volume.GrownAt.IsZero() {
		meta.Annotations[api.AnnotationGrownAt] = volume.GrownAt.Format(time.RFC3339)
		if volume.GrownFrom.Size > 0 {
			meta.Annotations[api.AnnotationGrownFrom] = volume.GrownFrom.String()
		}
	}
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: claimOf(volume.Class, volume.Size)}
}

// AddVolumes adds the claims of so many instances, and those that there are already of others: what
// is no child would be deleted, and spec.deletionPolicy is about the deletion of the object. A
// claim that no instance uses keeps its size; if unused ones are reclaimed, they are deleted. One
// of an instance that is only needed for now never shrinks: Grow does not know of it. They need the
// Lease: new ones that are there before it would keep it from allowing new data.
func (d *Database) AddVolumes(to *plan.Plan, observed State, used int, reclaims bool) {
	for ordinal := range MaxReplicas {
		for _, volume := range d.Volumes {
			claim := d.claimFor(volume, ordinal)
			if ordinal >= used {
				unused := d.remaining(observed, claim.Name)
				if unused == nil {
					continue
				}
				if reclaims {
					to.Delete = append(to.Delete, d.Ref("PersistentVolumeClaim", claim.Name))
					continue
				}
				claim.Spec.Resources.Requests = unused.Spec.Resources.Requests
			} else if live := observed.Claim(d, claim.Name); live != nil && live.Spec.Resources.Requests.Storage().Cmp(volume.Size) > 0 {
				claim.Spec.Resources.Requests = live.Spec.Resources.Requests
			}
			to.Children = append(to.Children, plan.Child{
				Object: claim, Retain: d.DeletionPolicy == databasev1.DeletionRetain, KeepOthers: true,
				Needs: append(waitedFor(to), d.Ref("Lease", d.Name)),
			})
		}
	}
}

// remaining returns a claim of ours that is not being deleted; nil if there is none of that name.
func (d *Database) remaining(observed State, name string) *corev1.PersistentVolumeClaim {
	found := observed.Children[d.Ref("PersistentVolumeClaim", name)]
	claim, isClaim := found.Object.(*corev1.PersistentVolumeClaim)
	if !isClaim || found.Ownership != plan.Ours || claim.DeletionTimestamp != nil {
		return nil
	}
	return claim
}

// hasUnused reports whether there are claims of instances that the spec does not want.
func (d *Database) hasUnused(observed State) bool {
	for ordinal := int(d.Replicas); ordinal < MaxReplicas; ordinal++ {
		for _, volume := range d.Volumes {
			if d.remaining(observed, volume.Claim(d.Name, ordinal)) != nil {
				return true
			}
		}
	}
	return false
}

// claimTemplates are those of the StatefulSet. They can't be changed: each keeps the size that it
// was made with.
func (d *Database) claimTemplates(live *appsv1.StatefulSet) []corev1.PersistentVolumeClaim {
	var all []corev1.PersistentVolumeClaim
	for _, volume := range d.Volumes {
		made := corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: volume.Name, Annotations: d.consent()}, Spec: claimOf(volume.Class, volume.Size),
		}
		if live != nil {
			for _, before := range live.Spec.VolumeClaimTemplates {
				if before.Name == volume.Name {
					made.Annotations = before.Annotations
					made.Spec = claimOf(volume.Class, *before.Spec.Resources.Requests.Storage())
				}
			}
		}
		all = append(all, made)
	}
	return all
}

// consent allows the database to take over the claim that has it as annotations.
func (d *Database) consent() map[string]string {
	return map[string]string{api.AnnotationAdopt: d.Kind + "/" + d.Name}
}

func claimOf(class *string, size resource.Quantity) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: class,
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}
}
