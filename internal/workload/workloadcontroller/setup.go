package workloadcontroller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Setup adds the controller to the manager.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=patch
// +kubebuilder:rbac:part=workload,groups=events.k8s.io,resources=events,verbs=create;patch
func Setup(ctx context.Context, in registration.Input) error {
	manager, reader := in.Manager, in.Workloads
	if err := watch.Prefetch(ctx, manager.GetCache(), observe.Workloads()...); err != nil {
		return err
	}
	recorder := in.Recorder(controllerName)
	reader.Problem = func(_ context.Context, about client.Object, err error) {
		recorder.Eventf(about, nil, corev1.EventTypeWarning, reasonAnnotation, "Read", "%s", errclass.Sentence(err))
	}
	made := &reconciler{
		applier: apply.New(manager.GetClient(), in.Children()), reader: reader, clock: in.Clock, rolling: newRolling(),
		missing: newMissing(), notGranted: newMissing(), recorder: recorder,
	}
	namespace := handler.EnqueueRequestsFromMapFunc(namespaceOf)
	restartable := builder.WithPredicates(observe.ConcernsWorkload())
	written := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		watch.Recreated()))
	under := ctrl.NewControllerManagedBy(manager).Named(controllerName)
	for _, kind := range reader.Sources.Kinds() {
		under = under.WatchesRawSource(reader.Sources.Watch(kind, namespace, watch.ContentChanged()))
	}
	for _, object := range observe.Workloads() {
		under = under.Watches(object, namespace, restartable)
	}
	for _, demands := range reader.DemandReaders {
		for _, object := range demands.Objects {
			under = under.Watches(object, namespace, written)
		}
	}
	return under.WithOptions(in.Options()).Complete(made)
}

// namespaceOf returns a request for the namespace of an object.
func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
}
