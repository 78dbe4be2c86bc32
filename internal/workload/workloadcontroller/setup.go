package workloadcontroller

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Options of the controller.
type Options struct {
	// Concurrency is how many namespaces are reconciled concurrently.
	Concurrency int
	Clock       clock.PassiveClock
	Reader      observe.Reader
}

// Setup adds the controller to the manager.
//
// +kubebuilder:rbac:part=workload,groups=apps,resources=deployments;statefulsets;daemonsets,verbs=patch
// +kubebuilder:rbac:part=workload,groups=events.k8s.io,resources=events,verbs=create;patch
func Setup(ctx context.Context, manager ctrl.Manager, options Options) error {
	if err := watch.Prefetch(ctx, manager.GetCache(), observe.Workloads()...); err != nil {
		return err
	}
	recorder := manager.GetEventRecorder("mainstay-" + controllerName)
	options.Reader.Problem = func(_ context.Context, about client.Object, err error) {
		recorder.Eventf(about, nil, corev1.EventTypeWarning, reasonAnnotation, "Read", "%s", errclass.Sentence(err))
	}
	cached := manager.GetClient()
	made := &reconciler{
		applier: apply.New(cached, children.Reader{Cached: cached, Live: manager.GetAPIReader(), Scheme: manager.GetScheme()}),
		reader:  options.Reader, clock: options.Clock, rolling: newRolling(), recorder: recorder,
	}
	namespace := handler.EnqueueRequestsFromMapFunc(namespaceOf)
	restartable := builder.WithPredicates(observe.ConcernsWorkload())
	written := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	under := ctrl.NewControllerManagedBy(manager).Named(controllerName)
	for _, kind := range options.Reader.Sources.Kinds() {
		under = under.WatchesRawSource(options.Reader.Sources.Watch(kind, namespace, watch.ContentChanged()))
	}
	for _, object := range observe.Workloads() {
		under = under.Watches(object, namespace, restartable)
	}
	for _, reader := range options.Reader.DemandReaders {
		for _, object := range reader.Objects {
			under = under.Watches(object, namespace, written)
		}
	}
	err := under.WithOptions(controller.Options{
		MaxConcurrentReconciles: options.Concurrency,
		RateLimiter:             errclass.RateLimiter[reconcile.Request](),
	}).Complete(made)
	if err != nil {
		return fmt.Errorf("building the controller: %w", err)
	}
	return nil
}

// namespaceOf returns a request for the namespace of an object.
func namespaceOf(_ context.Context, object client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: object.GetNamespace()}}}
}
