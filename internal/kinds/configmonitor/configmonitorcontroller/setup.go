package configmonitorcontroller

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/configmonitor"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// sourceIndex finds ConfigMonitors by their source, such as "ConfigMap/flags".
const sourceIndex = "configmonitor.source"

// gather is for how long changes of sources and workloads are batched: a rollout of hundreds of
// pods changes its workload's status as often.
const gather = time.Second

// Registration returns what ConfigMonitors add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:          configmonitor.Controller,
		Component:     &component.Traits{Type: "configMonitor"},
		AddToScheme:   []func(*runtime.Scheme) error{configv1.AddToScheme},
		Setup:         setup,
		Needs:         []watch.Need{watch.All(&configv1.ConfigMonitor{})},
		UsesWorkloads: true,
		Demands:       demands(),
	}, admitted)
}

// setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=configmonitors/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func setup(ctx context.Context, in registration.Input) error {
	manager := in.Manager
	index := watch.Index{Object: &configv1.ConfigMonitor{}, Name: sourceIndex, Values: watchedBy}
	if err := watch.AddIndexes(ctx, manager.GetFieldIndexer(), index); err != nil {
		return err
	}
	cached, live := manager.GetClient(), manager.GetAPIReader()
	r := registration.Complete(in, &reconciler.Reconciler[*configv1.ConfigMonitor, configmonitor.Observed, configmonitor.Decision]{
		Name: configmonitor.Controller,
		New:  func() *configv1.ConfigMonitor { return &configv1.ConfigMonitor{} },
		Kind: kind{client: cached, live: live, reader: in.Workloads, clock: in.Clock},
		ProblemConditions: []string{
			configv1.ConditionDegraded, configv1.ConditionStalled,
			configv1.ConditionFlapping, configv1.ConditionSecretAccessNotGranted,
		},
	})
	changed := predicate.ResourceVersionChangedPredicate{}
	under := ctrl.NewControllerManagedBy(manager).
		Named(configmonitor.Controller).
		For(&configv1.ConfigMonitor{}, builder.WithPredicates(watch.SpecChanged()))
	for _, kind := range in.Workloads.Sources.Kinds() {
		under = under.WatchesRawSource(in.Workloads.Sources.Watch(kind, watch.Later(watchers(cached, kind), gather), changed))
	}
	for _, object := range observe.Workloads() {
		under = under.Watches(object, watch.Later(selectors(cached), gather), builder.WithPredicates(changed))
	}
	return under.WithOptions(in.Options()).Complete(r)
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

// selectors returns requests for the monitors that select the pods of a workload, and for those
// that select nothing: their status names the workloads of the namespace.
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
			monitor := &monitors.Items[i]
			ready := meta.FindStatusCondition(monitor.Status.Conditions, configv1.ConditionReady)
			selectsNothing := ready != nil && ready.Reason == configv1.ReasonNothingMatched
			if selectsNothing || labels.SelectorFromSet(monitor.Spec.PodSelector).Matches(pods) {
				requests = append(requests, request)
			}
		}
		return requests
	}
}
