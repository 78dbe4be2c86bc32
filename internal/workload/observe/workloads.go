package observe

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Kinds of the workloads that there are.
const (
	KindDeployment  = "Deployment"
	KindStatefulSet = "StatefulSet"
	KindDaemonSet   = "DaemonSet"
)

// Workloads are empty objects, one of each kind.
func Workloads() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}}
}

// EmptyWorkload is an object of a kind with nothing but its name, to read one into. What is no kind of a workload is taken for Deployment.
func EmptyWorkload(kind, namespace, name string) client.Object {
	var object client.Object
	switch kind {
	case KindStatefulSet:
		object = &appsv1.StatefulSet{}
	case KindDaemonSet:
		object = &appsv1.DaemonSet{}
	default:
		object = &appsv1.Deployment{}
	}
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// KindOfWorkload is the kind of a workload, which objects of the cache do not say themselves; empty of anything else.
func KindOfWorkload(object client.Object) string {
	switch object.(type) {
	case *appsv1.Deployment:
		return KindDeployment
	case *appsv1.StatefulSet:
		return KindStatefulSet
	case *appsv1.DaemonSet:
		return KindDaemonSet
	default:
		return ""
	}
}

// PodTemplate is the pod template of a workload, and part of it; nil of anything else.
func PodTemplate(object client.Object) *corev1.PodTemplateSpec {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return &object.Spec.Template
	case *appsv1.StatefulSet:
		return &object.Spec.Template
	case *appsv1.DaemonSet:
		return &object.Spec.Template
	default:
		return nil
	}
}

// Rolled is how far a workload is with its present template; the zero value of anything else.
func Rolled(object client.Object) workload.Rolled {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return workload.RolledOfDeployment(object)
	case *appsv1.StatefulSet:
		return workload.RolledOfStatefulSet(object)
	case *appsv1.DaemonSet:
		return workload.RolledOfDaemonSet(object)
	default:
		return workload.Rolled{}
	}
}

// ConcernsWorkload lets an update of a workload pass if somebody changed it or if it came to the end of a rollout. Each pod that comes
// up on the way changes its status, and nothing here.
func ConcernsWorkload() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld, update.ObjectNew
		if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			return true
		}
		return milestone(before) != milestone(after)
	}}
}

// milestone is what of a workload's status counts.
func milestone(object client.Object) workload.Rolled {
	rolled := Rolled(object)
	return workload.Rolled{Complete: rolled.Complete, Failed: rolled.Failed, Blocked: rolled.Blocked}
}
