package database

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Database is an object of a kind of databases, by what these kinds have in common. Its spec is
// defaulted and valid.
type Database struct {
	// Kind is that of the object, such as PostgreSQL, and Noun what messages call it.
	Kind, Noun      string
	Namespace, Name string
	Generation      int64
	// Part are the labels of its objects.
	Part        naming.Part
	Labels      databasev1.Labels
	Annotations databasev1.Annotations
	// Replicas is how many instances the spec wants.
	Replicas int32
	// Hibernated is true while none of them is to run.
	Hibernated       bool
	Paused           bool
	Window           *rolloutv1.Window
	TopologySpread   databasev1.TopologySpread
	PreferredPrimary string
	SwitchoverAt     *metav1.Time
	// AcceptLoss is the term in which a user accepts that writes are lost; 0 for none.
	AcceptLoss     int64
	DeletionPolicy databasev1.DeletionPolicy
	// Reclaim is what becomes of the volumes of removed instances.
	Reclaim databasev1.DeletionPolicy
	// Volumes are those that each instance has; without any, the data go with the pods.
	Volumes []Volume
	// Ports are those of the server.
	Ports []Port
	// MetricsPort is that of the metrics.
	MetricsPort int32
	// Extras are certificates beside those of the instances.
	Extras []Extra
	// InstanceSecrets are the names of the Secrets that instances read from the API server, beside
	// those that are mounted.
	InstanceSecrets []string
	// Image is the server's; "" if the installation has none for the version. ContainerName is its
	// container.
	Image, ContainerName string
	Pods                 Pods
	// Before is what the status said.
	Before Before
}

// Volume is one of the volumes that each instance has.
type Volume struct {
	// Name is its name in a pod, which claims begin with.
	Name string
	// Field is where its size is in a spec.
	Field string
	Size  resource.Quantity
	Class *string
	// Claim returns the name of an instance's claim.
	Claim func(database string, ordinal int) string
	// What names it in messages, before the name of the pod.
	What string
	// Growth is when it grows by itself; nil is never. GrownAt is when it has last; the zero time is
	// never. GrownFrom is how full the volumes were then. GrowsAt is when one that is full enough may
	// grow again; the zero time if none waits.
	Growth           *Growth
	GrownAt, GrowsAt time.Time
	GrownFrom        Filled
}

// Pods is what a spec says of its pods.
type Pods struct {
	// RunAsUser is the user and the group of all processes.
	RunAsUser         int64
	ImagePullSecrets  []corev1.LocalObjectReference
	NodeSelector      map[string]string
	Tolerations       []corev1.Toleration
	PriorityClassName string
	// RestartedAt replaces the instances' pods when it changes.
	RestartedAt *metav1.Time
}

// Port is a port of the server: of the pods, and of the Services.
type Port struct {
	Name   string
	Number int32
	// Closed is true for a port that no client is to reach.
	Closed bool
}

// Before is what the status said before this reconcile, as far as it is remembered there.
type Before struct {
	Primary, FormerPrimary string
	Term                   int64
	PrimaryChange          *databasev1.PrimaryChange
	// Unreplicated is the last primary's contract.Report.Unreplicated; 0 if it is unknown.
	Unreplicated int64
	Switchover   Switchover
	// WasReady reports whether the database was ever ready.
	WasReady   bool
	Conditions []metav1.Condition
}

// Ref names a child.
func (d *Database) Ref(kind, name string) plan.Ref {
	return plan.Ref{Group: groups[kind], Kind: kind, Namespace: d.Namespace, Name: name}
}

// Meta returns the metadata of a child: name, labels and annotations. Ours take precedence over the
// user's.
func (d *Database) Meta(name string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Name: name, Labels: naming.Merged(plain(d.Labels), d.Part.Labels())}
	if len(d.Annotations) > 0 {
		meta.Annotations = naming.Merged(d.Annotations)
	}
	return meta
}

// PodMeta returns the labels and annotations of pods, with these annotations of the kind. Our own
// find and restart the pods; users may choose another default container for kubectl.
func (d *Database) PodMeta(annotations map[string]string) metav1.ObjectMeta {
	kubectl := map[string]string{"kubectl.kubernetes.io/default-container": d.ContainerName}
	return metav1.ObjectMeta{
		Labels:      naming.Merged(plain(d.Labels), d.Part.Labels(), d.Part.Owner()),
		Annotations: naming.Merged(kubectl, d.Annotations, annotations),
	}
}

// plain returns labels in the type that Kubernetes uses.
func plain(labels databasev1.Labels) map[string]string {
	all := make(map[string]string, len(labels))
	for key, value := range labels {
		all[key] = string(value)
	}
	return all
}

// selector selects the pods.
func (d *Database) selector() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: d.Part.Selector()}
}

// Selector returns the selector of the pods as text.
func (d *Database) Selector() string { return metav1.FormatLabelSelector(d.selector()) }
