package database

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// State is what is observed of one database, whatever its kind, read once.
type State struct {
	// Children are the objects found under the names of children, of every kind; the Secrets and
	// the Lease were read from the API server.
	Children plan.Children
	// Pods are those of the database, in any state.
	Pods []corev1.Pod
	// PodsRefused says why a pod that is missing can't be created, in the words of the API server; ""
	// if none is missing, or nothing is known.
	PodsRefused string
	// Certificates is the content that the Secret of the instances' certificates is to have. It is
	// that of the existing Secret, unless certificates had to be issued.
	Certificates map[string][]byte
	// CertificatesChange is when Certificates has to be looked at again.
	CertificatesChange time.Time
	// Password is a new random one each time; it is used where the application's Secret does not
	// exist.
	Password string
	// MetricsPassword is drawn as Password is, for the Secret with which metrics are read.
	MetricsPassword string
	// HasMonitorAPI reports whether the cluster has PodMonitors. MonitorLabels are the labels by which
	// Prometheus selects them.
	HasMonitorAPI bool
	MonitorLabels map[string]string
	// Catalogue has the image of each major version.
	Catalogue map[string]string
	// InstanceImage is the image with the program of the instances: that of this Mainstay.
	InstanceImage string
	// AddressType is the family of the cluster's addresses; "" means IPv4.
	AddressType discoveryv1.AddressType
	// Now is when this was observed.
	Now time.Time
}

// Instance is one pod of the database, and what its program says.
type Instance struct {
	Ordinal int
	Pod     *corev1.Pod
	// Report is the zero value if the program has said nothing yet.
	Report contract.Report
}

// IsReady reports whether it takes connections.
func (i Instance) IsReady() bool {
	if i.Pod.DeletionTimestamp != nil || i.Report.Role == contract.NoRole {
		return false
	}
	return slices.ContainsFunc(i.Pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Instances returns the pods of the database by their number. What a pod says that can't be read
// counts as nothing said.
func (o State) Instances(d *Database) []Instance {
	var all []Instance
	for i := range o.Pods {
		pod := &o.Pods[i]
		ordinal := OrdinalOf(d.Name, pod.Name)
		if ordinal < 0 {
			continue
		}
		instance := Instance{Ordinal: ordinal, Pod: pod}
		if text := pod.Annotations[api.AnnotationInstance]; text != "" {
			instance.Report, _ = contract.ParseReport(text)
		}
		all = append(all, instance)
	}
	slices.SortFunc(all, func(a, b Instance) int { return a.Ordinal - b.Ordinal })
	return all
}

// PrimaryOf returns the instance that takes writes, that of the highest term if two say so for a
// moment; nil if there is none.
func PrimaryOf(instances []Instance) *Instance {
	var found *Instance
	for i := range instances {
		if instances[i].Report.Role == contract.Primary && instances[i].Pod.DeletionTimestamp == nil &&
			(found == nil || instances[i].Report.Term > found.Report.Term) {
			found = &instances[i]
		}
	}
	return found
}

// StatefulSet returns the database's StatefulSet; nil if there is none.
func (o State) StatefulSet(d *Database) *appsv1.StatefulSet {
	object, _ := o.Children.Get(d.Ref("StatefulSet", d.Name))
	set, _ := object.(*appsv1.StatefulSet)
	return set
}

// Claim returns a volume claim by its name; nil if there is none.
func (o State) Claim(d *Database, name string) *corev1.PersistentVolumeClaim {
	object, _ := o.Children.Get(d.Ref("PersistentVolumeClaim", name))
	claim, _ := object.(*corev1.PersistentVolumeClaim)
	return claim
}

// HasVolumes reports whether there is a claim with the name of any instance, whoever created it.
// The functions return the names of claims.
func (o State) HasVolumes(d *Database, volumes ...func(database string, ordinal int) string) bool {
	for ordinal := range MaxReplicas {
		for _, volume := range volumes {
			found, known := o.Children[d.Ref("PersistentVolumeClaim", volume(d.Name, ordinal))]
			if known && found.Object != nil && found.Ownership != plan.Absent {
				return true
			}
		}
	}
	return false
}

// Record returns what the Lease says; false if there is none, or it can't be read.
func (o State) Record(d *Database) (election.Record, bool) {
	if !o.hasLease(d) {
		return election.Record{}, false
	}
	lease := o.Children[d.Ref("Lease", d.Name)].Object
	record, err := election.Decode(lease.GetAnnotations()[api.AnnotationRecord])
	return record, err == nil
}

// Begins reports whether every claim with the name of an instance's volume counts. While there is
// no Lease, the one that is made then allows new data only if there are none. While there are no
// pods, and no record says whose data count, there will be as many instances as claims.
func (o State) Begins(d *Database) bool {
	if !o.hasLease(d) {
		return true
	}
	record, known := o.Record(d)
	return o.hasNoPods(d) && (!known || record.System == "")
}

// hasLease reports whether there is a Lease of that name, whoever created it.
func (o State) hasLease(d *Database) bool {
	found := o.Children[d.Ref("Lease", d.Name)]
	return found.Object != nil && found.Ownership != plan.Absent
}

// hasNoPods reports whether there is no StatefulSet, or one that wants no pods.
func (o State) hasNoPods(d *Database) bool {
	set := o.StatefulSet(d)
	return set == nil || set.Spec.Replicas == nil || *set.Spec.Replicas == 0
}
