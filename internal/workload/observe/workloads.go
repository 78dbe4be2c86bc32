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

// Kinds of workloads.
const (
	KindDeployment  = "Deployment"
	KindStatefulSet = "StatefulSet"
	KindDaemonSet   = "DaemonSet"
)

// Workloads returns empty objects, one of each kind.
func Workloads() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}}
}

// EmptyWorkload returns an object of a kind with nothing but its name, to read into. An unknown
// kind gives a Deployment.
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

// KindOfWorkload returns the kind of a workload, which cached objects do not contain; empty for any
// other object.
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

// PodTemplate returns the pod template of a workload, which shares its memory; nil for any other
// object.
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

// Rolled returns the rollout state of a workload; the zero value for any other object.
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

// ConcernsWorkload returns a predicate that passes an update of a workload if its spec or
// annotations changed, or if its rollout ended. It drops the status updates for each pod on the
// way.
func ConcernsWorkload() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld, update.ObjectNew
		if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			return true
		}
		return milestone(before) != milestone(after)
	}}
}

// milestone returns the part of a rollout state that is relevant to ConcernsWorkload.
func milestone(object client.Object) workload.Rolled {
	rolled := Rolled(object)
	return workload.Rolled{Complete: rolled.Complete, Failed: rolled.Failed, Blocked: rolled.Blocked}
}
