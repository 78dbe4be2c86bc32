package provision

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations by which Kubernetes' volume controller and scheduler talk to provisioners.
const (
	annotationProvisioner   = "volume.kubernetes.io/storage-provisioner"
	annotationSelectedNode  = "volume.kubernetes.io/selected-node"
	annotationProvisionedBy = "pv.kubernetes.io/provisioned-by"
)

// action is what a claim needs.
type action int

const (
	actionNone   action = iota
	actionCreate        // no volume yet: make one
	actionGrow          // the claim asks for more than its volume has
	actionReport        // the volume grew, the claim's status does not say so yet
)

// decideClaim chooses by this table; volume is nil when the claim has none:
//
//	being deleted                                  none
//	unbound, not ours                              none
//	unbound, no node chosen yet                    none (WaitForFirstConsumer)
//	unbound, ours                                  create
//	bound, volume not ours or not seen yet         none
//	bound, request above the volume's capacity     grow
//	bound, status below the volume's capacity      report
func decideClaim(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) action {
	if claim.DeletionTimestamp != nil {
		return actionNone
	}
	if claim.Spec.VolumeName == "" {
		if claim.Annotations[annotationProvisioner] != Name || claim.Annotations[annotationSelectedNode] == "" {
			return actionNone
		}
		return actionCreate
	}
	if volume == nil || volume.Annotations[annotationProvisionedBy] != Name ||
		claim.Status.Phase != corev1.ClaimBound {
		return actionNone
	}
	capacity := volume.Spec.Capacity[corev1.ResourceStorage]
	request := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	reported := claim.Status.Capacity[corev1.ResourceStorage]
	switch {
	case request.Cmp(capacity) > 0:
		return actionGrow
	case reported.Cmp(capacity) < 0:
		return actionReport
	default:
		return actionNone
	}
}

// checkClaim refuses what these volumes cannot do. An event is better than a volume that behaves
// differently from its claim.
func checkClaim(claim *corev1.PersistentVolumeClaim) error {
	if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) {
		return errors.New("a testbed volume is on one node: ReadWriteMany is not possible")
	}
	if claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock {
		return errors.New("a testbed volume is a file system: volumeMode Block is not possible")
	}
	if claim.Spec.DataSource != nil || claim.Spec.DataSourceRef != nil {
		return errors.New("a testbed volume starts empty: data sources are not possible")
	}
	return nil
}

// volumeName returns the name that every provisioner uses: unique, and derived from the claim.
func volumeName(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }

// desiredVolume returns the volume of a claim, mounted at path. It is a `local` volume, not a
// hostPath, because the kubelet then applies fsGroup, as it does for real disks.
func desiredVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, path string, size int64) *corev1.PersistentVolume {
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        volumeName(claim),
			Annotations: map[string]string{annotationProvisionedBy: Name},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)},
			AccessModes:                   claim.Spec.AccessModes,
			PersistentVolumeReclaimPolicy: reclaim,
			StorageClassName:              class.Name,
			VolumeMode:                    &mode,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
					Values: []string{claim.Annotations[annotationSelectedNode]},
				}}}},
			}},
		},
	}
}

// isReclaimable reports whether a volume and its data are to be deleted.
func isReclaimable(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[annotationProvisionedBy] == Name &&
		volume.Status.Phase == corev1.VolumeReleased &&
		volume.DeletionTimestamp == nil &&
		volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}
