package postgresql

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// Observed is everything that decisions about one PostgreSQL depend on, read once.
type Observed struct {
	// Children are the objects found under the names of children, of every kind; the Secrets and
	// the Lease were read from the API server.
	Children plan.Children
	// Pods are those of the database, in any state.
	Pods []corev1.Pod
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
func (o Observed) Instances(db *databasev1.PostgreSQL) []Instance {
	var all []Instance
	for i := range o.Pods {
		pod := &o.Pods[i]
		ordinal := ordinalOf(db.Name, pod.Name)
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

// primaryOf returns the instance that takes writes, that of the highest term if two say so for a
// moment; nil if there is none.
func primaryOf(instances []Instance) *Instance {
	var found *Instance
	for i := range instances {
		if instances[i].Report.Role == contract.Primary && instances[i].Pod.DeletionTimestamp == nil &&
			(found == nil || instances[i].Report.Term > found.Report.Term) {
			found = &instances[i]
		}
	}
	return found
}

// statefulSet returns the database's StatefulSet; nil if there is none.
func (o Observed) statefulSet(db *databasev1.PostgreSQL) *appsv1.StatefulSet {
	object, _ := o.Children.Get(Ref(db, "StatefulSet", db.Name))
	set, _ := object.(*appsv1.StatefulSet)
	return set
}

// claim returns a volume claim by its name; nil if there is none.
func (o Observed) claim(db *databasev1.PostgreSQL, name string) *corev1.PersistentVolumeClaim {
	object, _ := o.Children.Get(Ref(db, "PersistentVolumeClaim", name))
	claim, _ := object.(*corev1.PersistentVolumeClaim)
	return claim
}

// hasVolumes reports whether there is a claim with the name of any instance, whoever created it.
func (o Observed) hasVolumes(db *databasev1.PostgreSQL) bool {
	for ordinal := range MaxReplicas {
		for _, name := range []string{VolumeName(db.Name, ordinal), WALVolumeName(db.Name, ordinal)} {
			found, known := o.Children[Ref(db, "PersistentVolumeClaim", name)]
			if known && found.Object != nil && found.Ownership != plan.Absent {
				return true
			}
		}
	}
	return false
}

// record returns what the Lease says; false if there is none, or it can't be read.
func (o Observed) record(db *databasev1.PostgreSQL) (election.Record, bool) {
	found := o.Children[Ref(db, "Lease", db.Name)]
	if found.Object == nil || found.Ownership == plan.Absent {
		return election.Record{}, false
	}
	record, err := election.Decode(found.Object.GetAnnotations()[api.AnnotationRecord])
	return record, err == nil
}

// image returns the server's image; "" if the installation has none for the version.
func image(db *databasev1.PostgreSQL, observed Observed) string {
	if db.Spec.Image != "" {
		return db.Spec.Image
	}
	return observed.Catalogue[db.Spec.Version]
}
