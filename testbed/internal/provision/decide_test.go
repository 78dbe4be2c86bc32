package provision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// boundClaim asks for request, and its status says reported.
func boundClaim(request, reported string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pvc-1", Resources: corev1.VolumeResourceRequirements{Requests: storage(request)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: storage(reported)},
	}
}

func ownVolume(capacity string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationProvisionedBy: Name}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: storage(capacity), PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeReleased},
	}
}

func TestDecideClaim(t *testing.T) {
	unbound := func(annotations map[string]string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	chosen := map[string]string{annotationProvisioner: Name, annotationSelectedNode: "node-1"}
	deleted := unbound(chosen)
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	lost := boundClaim("2Gi", "1Gi")
	lost.Status.Phase = corev1.ClaimLost
	for _, test := range []struct {
		name   string
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		want   action
	}{
		{"ours", unbound(chosen), nil, actionCreate},
		{"being deleted", deleted, nil, actionNone},
		{"another's", unbound(map[string]string{annotationProvisioner: "x", annotationSelectedNode: "node-1"}), nil, actionNone},
		{"no node yet", unbound(map[string]string{annotationProvisioner: Name}), nil, actionNone},
		{"enough", boundClaim("1Gi", "1Gi"), ownVolume("1Gi"), actionNone},
		{"asks for more", boundClaim("2Gi", "1Gi"), ownVolume("1Gi"), actionGrow},
		{"grown, not reported", boundClaim("2Gi", "1Gi"), ownVolume("2Gi"), actionReport},
		{"larger than asked for", boundClaim("100Mi", "300Mi"), ownVolume("300Mi"), actionNone},
		{"another's volume", boundClaim("2Gi", "1Gi"), &corev1.PersistentVolume{}, actionNone},
		{"volume not seen yet", boundClaim("2Gi", "1Gi"), nil, actionNone},
		{"lost", lost, ownVolume("1Gi"), actionNone},
	} {
		if got := decideClaim(test.claim, test.volume); got != test.want {
			t.Errorf("%s: action %d, want %d", test.name, got, test.want)
		}
	}
}

func TestCheckClaim(t *testing.T) {
	block, filesystem := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	for _, test := range []struct {
		name    string
		spec    corev1.PersistentVolumeClaimSpec
		refused bool
	}{
		{"plain", corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &filesystem,
		}, false},
		{"shared", corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}, true},
		{"block", corev1.PersistentVolumeClaimSpec{VolumeMode: &block}, true},
		{"from a snapshot", corev1.PersistentVolumeClaimSpec{DataSource: &corev1.TypedLocalObjectReference{Name: "s"}}, true},
	} {
		err := checkClaim(&corev1.PersistentVolumeClaim{Spec: test.spec})
		if (err != nil) != test.refused {
			t.Errorf("%s: error %v, want one: %t", test.name, err, test.refused)
		}
	}
}

func TestIsReclaimable(t *testing.T) {
	if !isReclaimable(ownVolume("1Gi")) {
		t.Error("a released volume is kept")
	}
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"bound": func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound },
		"retained": func(v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		},
		"another's": func(v *corev1.PersistentVolume) { v.Annotations = nil },
	} {
		volume := ownVolume("1Gi")
		change(volume)
		if isReclaimable(volume) {
			t.Errorf("a %s volume would be deleted", name)
		}
	}
}

func TestRoundSize(t *testing.T) {
	const mebi = 1 << 20
	for request, want := range map[int64]int64{
		0: 300 * mebi, 300 * mebi: 300 * mebi, 300*mebi + 1: 301 * mebi, 1000 * mebi: 1000 * mebi,
	} {
		if got := roundSize(request); got != want {
			t.Errorf("roundSize(%d) = %d, want %d", request, got, want)
		}
	}
}

func TestDesiredVolume(t *testing.T) {
	retain := corev1.PersistentVolumeReclaimRetain
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "data", UID: "1234", Annotations: map[string]string{annotationSelectedNode: "node-2"},
	}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, ReclaimPolicy: &retain}
	volume := desiredVolume(claim, class, "/volumes/pvc-1234/mount", 300<<20)
	if volume.Name != "pvc-1234" || volume.Spec.Local.Path != "/volumes/pvc-1234/mount" {
		t.Errorf("the volume is %s at %s", volume.Name, volume.Spec.Local.Path)
	}
	if volume.Spec.PersistentVolumeReclaimPolicy != retain {
		t.Errorf("the reclaim policy is %s, want the class's", volume.Spec.PersistentVolumeReclaimPolicy)
	}
	capacity := volume.Spec.Capacity[corev1.ResourceStorage]
	if capacity.String() != "300Mi" {
		t.Errorf("the capacity is %s, want 300Mi", capacity.String())
	}
	values := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values
	if len(values) != 1 || values[0] != "node-2" {
		t.Errorf("the volume can be used on %v, want node-2", values)
	}
}
