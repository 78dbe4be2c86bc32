package observe

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Workloads returns empty objects, one of each kind.
func Workloads() []client.Object {
	return []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}}
}

// view is what the kinds of workloads have in common. It shares memory with the object.
type view struct {
	kind     string
	template *corev1.PodTemplateSpec
	selector *metav1.LabelSelector
	rolled   func() workload.Rolled
}

// viewOf returns the view of a workload; one without content for any other object.
func viewOf(object client.Object) view {
	switch one := object.(type) {
	case *appsv1.Deployment:
		return view{"Deployment", &one.Spec.Template, one.Spec.Selector, func() workload.Rolled { return workload.RolledOfDeployment(one) }}
	case *appsv1.StatefulSet:
		return view{"StatefulSet", &one.Spec.Template, one.Spec.Selector, func() workload.Rolled { return workload.RolledOfStatefulSet(one) }}
	case *appsv1.DaemonSet:
		return view{"DaemonSet", &one.Spec.Template, one.Spec.Selector, func() workload.Rolled { return workload.RolledOfDaemonSet(one) }}
	default:
		return view{rolled: func() workload.Rolled { return workload.Rolled{} }}
	}
}

// KindOfWorkload returns the kind of a workload, which cached objects do not contain; empty for any
// other object.
func KindOfWorkload(object client.Object) string { return viewOf(object).kind }

// PodTemplate returns the pod template of a workload, which shares its memory; nil for any other
// object.
func PodTemplate(object client.Object) *corev1.PodTemplateSpec { return viewOf(object).template }

// Selector returns the selector of a workload's pods; nil for any other object.
func Selector(object client.Object) *metav1.LabelSelector { return viewOf(object).selector }

// Rolled returns the rollout state of a workload; the zero value for any other object.
func Rolled(object client.Object) workload.Rolled { return viewOf(object).rolled() }

// EmptyWorkload returns an object of a kind with nothing but its name, to read into. An unknown
// kind gives a Deployment.
func EmptyWorkload(kind, namespace, name string) client.Object {
	all := Workloads()
	object := all[max(0, slices.IndexFunc(all, func(one client.Object) bool { return KindOfWorkload(one) == kind }))]
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// ObjectOf returns a workload with nothing but its name and UID, for events about it.
func ObjectOf(target *workload.Target, namespace string) client.Object {
	object := EmptyWorkload(target.Ref.Kind, namespace, target.Ref.Name)
	object.SetUID(target.UID)
	return object
}

// ListWorkloads returns the workloads of a namespace, or of all if it is empty, except those that
// are being deleted. They share memory with the cache and must not be modified.
func ListWorkloads(ctx context.Context, cached client.Reader, namespace string) ([]client.Object, error) {
	var all []client.Object
	for _, kind := range []client.ObjectList{&appsv1.DeploymentList{}, &appsv1.StatefulSetList{}, &appsv1.DaemonSetList{}} {
		found, err := list(ctx, cached, namespace, kind)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(object client.Object) bool { return object.GetDeletionTimestamp() != nil }), nil
}

// ConcernsWorkload returns a predicate that passes an update of a workload if its spec or
// annotations changed, if its rollout ended, if its controller has observed one that waits for a
// user, or if it is another one of the same name. It drops the status updates for each pod on the
// way.
func ConcernsWorkload() predicate.Predicate {
	return predicate.Or(watch.Recreated(), predicate.Funcs{UpdateFunc: func(update event.UpdateEvent) bool {
		before, after := update.ObjectOld, update.ObjectNew
		if before.GetGeneration() != after.GetGeneration() || !maps.Equal(before.GetAnnotations(), after.GetAnnotations()) {
			return true
		}
		return milestone(before) != milestone(after)
	}})
}

// milestone returns the part of a rollout state that is relevant to ConcernsWorkload. That a
// rollout waits for a user is recorded once the workload's controller has observed it, and nothing
// else may happen until the user acts.
func milestone(object client.Object) workload.Rolled {
	rolled := Rolled(object)
	return workload.Rolled{Complete: rolled.Complete, Failed: rolled.Failed, Blocked: rolled.Blocked,
		Unseen: rolled.Unseen && rolled.Blocked != ""}
}
