package configmonitorcontroller

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/apply"
	"github.com/mainstay-platform/mainstay/internal/kit/children"
	"github.com/mainstay-platform/mainstay/internal/kit/errclass"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// sourceIndex finds ConfigMonitors by their source, such as "ConfigMap/flags".
const sourceIndex = "configmonitor.source"

// gather is for how long changes of sources and workloads are batched: a rollout of hundreds of
// pods changes its workload's status as often.
const gather = time.Second

// Options of the controller.
type Options struct {
	// Concurrency is how many ConfigMonitors are reconciled at once.
	Concurrency int
	Clock       clock.PassiveClock
	Reader      observe.Reader
}

// Needs returns what this controller reads from the cache, in addition to what package observe
// needs.
func Needs() []watch.Need { return []watch.Need{watch.All(&configv1.ConfigMonitor{})} }

// Setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func Setup(ctx context.Context, manager ctrl.Manager, options Options) error {
	if err := manager.GetFieldIndexer().IndexField(ctx, &configv1.ConfigMonitor{}, sourceIndex, watchedBy); err != nil {
		return fmt.Errorf("adding the index %s: %w", sourceIndex, err)
	}
	cached, live := manager.GetClient(), manager.GetAPIReader()
	r := &reconciler.Reconciler[*configv1.ConfigMonitor, configmonitor.Observed, configmonitor.Decision]{
		Name: configmonitor.Controller,
		New:  func() *configv1.ConfigMonitor { return &configv1.ConfigMonitor{} },
		Kind: kind{client: cached, live: live, reader: options.Reader, clock: options.Clock},
		ProblemConditions: []string{
			configv1.ConditionDegraded, configv1.ConditionStalled,
			configv1.ConditionFlapping, configv1.ConditionSecretAccessNotGranted,
		},
		Client:   cached,
		Applier:  apply.New(cached, children.Reader{Cached: cached, Live: live, Scheme: manager.GetScheme()}),
		Recorder: manager.GetEventRecorder("mainstay-" + configmonitor.Controller),
		Clock:    options.Clock,
	}
	changed := predicate.ResourceVersionChangedPredicate{}
	under := ctrl.NewControllerManagedBy(manager).
		Named(configmonitor.Controller).
		For(&configv1.ConfigMonitor{}, builder.WithPredicates(watch.SpecChanged()))
	for _, kind := range options.Reader.Sources.Kinds() {
		under = under.WatchesRawSource(options.Reader.Sources.Watch(kind, watch.Later(watchers(cached, kind), gather), changed))
	}
	for _, object := range observe.Workloads() {
		under = under.Watches(object, watch.Later(selectors(cached), gather), builder.WithPredicates(changed))
	}
	return under.WithOptions(controller.Options{
		MaxConcurrentReconciles: options.Concurrency,
		RateLimiter:             errclass.RateLimiter[reconcile.Request](),
	}).Complete(r)
}

// watchedBy returns the value of sourceIndex.
func watchedBy(object client.Object) []string {
	return []string{configmonitor.SourceOf(&object.(*configv1.ConfigMonitor).Spec).String()}
}

// watchers returns requests for the monitors that watch a source.
func watchers(cached client.Reader, kind workload.SourceKind) handler.MapFunc {
	return func(ctx context.Context, source client.Object) []reconcile.Request {
		return watch.Requests(ctx, cached, &configv1.ConfigMonitorList{}, client.InNamespace(source.GetNamespace()),
			client.MatchingFields{sourceIndex: workload.SourceRef{Kind: kind, Name: source.GetName()}.String()})
	}
}

// selectors returns requests for the monitors that select the pods of a workload.
func selectors(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		template := observe.PodTemplate(object)
		if template == nil {
			return nil
		}
		pods := labels.Set(template.Labels)
		var monitors configv1.ConfigMonitorList
		var requests []reconcile.Request
		for i, request := range watch.Requests(ctx, cached, &monitors, client.InNamespace(object.GetNamespace())) {
			if labels.SelectorFromSet(monitors.Items[i].Spec.PodSelector).Matches(pods) {
				requests = append(requests, request)
			}
		}
		return requests
	}
}
