package cache

import (
	"encoding/json"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mainstay-platform/mainstay/api"
	databasev1 "github.com/mainstay-platform/mainstay/api/database/v1"
	"github.com/mainstay-platform/mainstay/internal/database"
	"github.com/mainstay-platform/mainstay/internal/instance/contract"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// revision is that of the StatefulSet's present template.
const revision = "sessions-2"

// noon is when everything is observed.
var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// newCache returns the smallest Cache after admission, with changes.
func newCache(changes ...func(*databasev1.CacheSpec)) *databasev1.Cache {
	c := &databasev1.Cache{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sessions", UID: "uid-1", Generation: 3},
		Spec:       databasev1.CacheSpec{Version: "9", Memory: resource.MustParse("256Mi")},
	}
	for _, change := range changes {
		change(&c.Spec)
	}
	Default(c)
	return c
}

// replicas returns a change of the number of instances.
func replicas(count int32) func(*databasev1.CacheSpec) {
	return func(spec *databasev1.CacheSpec) { spec.Replicas = count }
}

// stores puts the data on volumes.
func stores(spec *databasev1.CacheSpec) {
	spec.Persistence = &databasev1.CachePersistence{Storage: resource.MustParse("1Gi"), StorageClassName: new("fast")}
}

// empty is what is observed before anything was made.
func empty() Observed {
	return Observed{State: database.State{
		Children: plan.Children{}, Catalogue: map[string]string{"8": "registry.example.com/valkey:8.1.1", "9": "registry.example.com/valkey:9.1.2"},
		InstanceImage: "mainstay:1.0", Certificates: map[string][]byte{database.AuthorityKey: []byte("authority")}, Password: "random-password",
		MetricsPassword: "random", Now: noon,
	}}
}

// running is a cache whose instances are ready; the first one leads.
func running(c *databasev1.Cache, count int32) Observed {
	observed := empty()
	observed.Children[Ref(c, "StatefulSet", c.Name)] = plan.Found{Ownership: plan.Ours, Object: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, Generation: 2},
		Spec:       appsv1.StatefulSetSpec{Replicas: &count},
		Status:     appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: revision},
	}}
	for ordinal := range int(count) {
		report := contract.Report{Role: contract.Replica, State: "Following", Term: 4}
		if ordinal == 0 {
			report = contract.Report{Role: contract.Primary, State: "Leading", Term: 4, Provided: true}
		}
		observed.Pods = append(observed.Pods, newPod(database.PodName(c.Name, ordinal), report))
	}
	return observed
}

// newPod is a ready pod of the present template, older than a start takes.
func newPod(name string, report contract.Report) corev1.Pod {
	text, _ := json.Marshal(report) // It consists of strings and numbers.
	ready := corev1.ConditionTrue
	if report.Role == contract.NoRole {
		ready = corev1.ConditionFalse
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour)),
			Labels:      map[string]string{appsv1.ControllerRevisionHashLabelKey: revision},
			Annotations: map[string]string{api.AnnotationInstance: string(text)},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: ContainerName, Image: "registry.example.com/valkey:9.1.2"}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
		},
	}
}

// says lets the program of an instance say what it is.
func (o Observed) says(ordinal int, report contract.Report) Observed {
	o.Pods[ordinal] = newPod(o.Pods[ordinal].Name, report)
	return o
}

// deletedFor marks the pod of an instance as deleted, and to be gone, this long ago.
func (o Observed) deletedFor(ordinal int, ago time.Duration) Observed {
	o.Pods[ordinal].DeletionTimestamp = new(metav1.NewTime(o.Now.Add(-ago)))
	return o
}

// hasApplication returns the observation with a Secret with which applications connect.
func (o Observed) hasApplication(c *databasev1.Cache, password string) Observed {
	return o.hasPrevious(c, password, "")
}

// hasPrevious is hasApplication with a password that is still accepted.
func (o Observed) hasPrevious(c *databasev1.Cache, password, previous string) Observed {
	o.Children[Ref(c, "Secret", database.ApplicationName(c.Name))] = plan.Found{Ownership: plan.Ours, Object: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: database.ApplicationName(c.Name)},
		Data:       map[string][]byte{PasswordKey: []byte(password), previousKey: []byte(previous)},
	}}
	return o
}

// condition returns a condition of a status; the zero value if it has none.
func condition(status databasev1.CacheStatus, kind string) metav1.Condition {
	if found := meta.FindStatusCondition(status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{}
}
