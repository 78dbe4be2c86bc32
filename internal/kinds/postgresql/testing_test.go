package postgresql

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/instance/election"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// revision is that of the StatefulSet's present template.
const revision = "db-2"

// noon is when everything is observed.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// newDatabase returns the smallest PostgreSQL after admission, with changes.
func newDatabase(changes ...func(*databasev1.PostgreSQLSpec)) *databasev1.PostgreSQL {
	db := &databasev1.PostgreSQL{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "uid-1", Generation: 3},
		Spec:       databasev1.PostgreSQLSpec{Version: "17", Storage: resource.MustParse("1Gi")},
	}
	for _, change := range changes {
		change(&db.Spec)
	}
	Default(db)
	return db
}

// replicas returns a change of the number of instances.
func replicas(count int32) func(*databasev1.PostgreSQLSpec) {
	return func(spec *databasev1.PostgreSQLSpec) { spec.Replicas = count }
}

// empty is what is observed before anything was made.
func empty() Observed {
	return Observed{State: database.State{
		Children: plan.Children{}, Catalogue: map[string]string{"14": "registry.example.com/postgresql:14.23", "17": "registry.example.com/postgresql:17.11"},
		InstanceImage: "mainstay:1.0", Certificates: map[string][]byte{database.AuthorityKey: []byte("authority")}, Password: "secret",
		MetricsPassword: "random",
		Now:             noon,
	}}
}

// running is a database whose instances are ready; the first one leads.
func running(db *databasev1.PostgreSQL, count int32) Observed {
	observed := empty()
	observed.Children[Ref(db, "StatefulSet", db.Name)] = plan.Found{Ownership: plan.Ours, Object: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: db.Namespace, Name: db.Name, Generation: 2},
		Spec:       appsv1.StatefulSetSpec{Replicas: &count},
		Status:     appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: revision},
	}}
	for ordinal := range int(count) {
		report := contract.Report{Role: contract.Replica, State: "Following", Term: 4, Timeline: 2}
		if ordinal == 0 {
			report.Role, report.State = contract.Primary, "Leading"
		}
		observed.Pods = append(observed.Pods, newPod(database.PodName(db.Name, ordinal), report))
	}
	return observed
}

// newPod is a ready pod of the present template.
func newPod(name string, report contract.Report) corev1.Pod {
	text, _ := json.Marshal(report) // It consists of strings and numbers.
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon),
			Labels:      map[string]string{appsv1.ControllerRevisionHashLabelKey: revision},
			Annotations: map[string]string{api.AnnotationInstance: string(text)},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
}

// with returns the observation with a record in the Lease.
func (o Observed) with(db *databasev1.PostgreSQL, record election.Record) Observed {
	text, _ := record.Encode() // It is small.
	o.Children[Ref(db, "Lease", db.Name)] = plan.Found{Ownership: plan.Ours, Object: &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: db.Name, Annotations: map[string]string{api.AnnotationRecord: text}},
	}}
	return o
}
