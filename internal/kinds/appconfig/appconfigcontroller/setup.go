package appconfigcontroller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/appconfig"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/registration"
	"github.com/mainstay-platform/mainstay/internal/workload"
	"github.com/mainstay-platform/mainstay/internal/workload/observe"
)

// Field indexes of the cache.
const (
	// configMapIndex finds AppConfigs by the name of their ConfigMap.
	configMapIndex = "appconfig.configMap"
	// labelIndex finds ConfigMaps by the AppConfig that their label names.
	labelIndex = "appconfig.label"
	// secretIndex finds AppConfigs by the Secrets that spec.secretRefs names.
	secretIndex = "appconfig.secret"
)

// gather is for how long changes of workloads are batched: each pod that becomes ready in a rollout
// changes its workload's status.
const gather = time.Second

// Registration returns what AppConfigs add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Name:          appconfig.Controller,
		AddToScheme:   []func(*runtime.Scheme) error{configv1.AddToScheme},
		Setup:         setup,
		Needs:         []watch.Need{watch.All(&configv1.AppConfig{})},
		UsesWorkloads: true,
		Demands:       demands(),
		Component: &component.Traits{Type: "appConfig", MaxName: 63, Children: func(object component.Object) []component.Object {
			return []component.Object{named(object.(*configv1.AppConfig).ConfigMapName())}
		}},
	}, admitted)
}

// setup adds the controller to the manager.
//
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create;patch;delete
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=appconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=config.mainstay.dev,resources=appconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
func setup(ctx context.Context, in registration.Input) error {
	manager := in.Manager
	if err := addIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	cached, live := manager.GetClient(), manager.GetAPIReader()
	if in.HasNamespaces() {
		if err := watch.Prefetch(ctx, manager.GetCache(), watch.Namespace()); err != nil {
			return err
		}
	}
	r := registration.Complete(in, &reconciler.Reconciler[*configv1.AppConfig, appconfig.Observed, appconfig.Choice]{
		Name:              appconfig.Controller,
		New:               func() *configv1.AppConfig { return &configv1.AppConfig{} },
		Children:          func(observed appconfig.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{configv1.ConditionDegraded, configv1.ConditionStalled, configv1.ConditionSecretAccessNotGranted},
		Kind: kind{
			cached: cached, live: live, namespaces: namespacesOf(in, live), children: in.Children(), workloads: in.Workloads,
			clock: in.Clock, renderings: newRenderings(in.Environments), environments: in.Environments,
		},
	})
	changed := builder.WithPredicates(watch.ContentChanged())
	under := ctrl.NewControllerManagedBy(manager).
		Named(appconfig.Controller).
		For(&configv1.AppConfig{}, builder.WithPredicates(watch.SpecChanged())).
		Owns(&corev1.ConfigMap{}, changed).
		// Another AppConfig of the same application may come into effect.
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(siblings(cached)), builder.WithPredicates(watch.SpecChanged()))
	for _, object := range observe.Workloads() {
		under = under.Watches(object, watch.Later(usedBy(cached), gather), changed)
	}
	if sources := in.Workloads.Sources; slices.Contains(sources.Kinds(), workload.Secret) {
		named := handler.EnqueueRequestsFromMapFunc(namedBy(cached))
		under = under.WatchesRawSource(sources.Watch(workload.Secret, named, watch.ContentChanged()))
	}
	if in.HasNamespaces() {
		under = under.Watches(watch.Namespace(), handler.EnqueueRequestsFromMapFunc(residents(cached)),
			builder.WithPredicates(watch.LabelsChanged()))
	}
	return under.WithOptions(in.Options()).Complete(r)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return watch.AddIndexes(ctx, indexer,
		watch.Index{Object: &configv1.AppConfig{}, Name: configMapIndex, Values: func(object client.Object) []string {
			return []string{object.(*configv1.AppConfig).ConfigMapName()}
		}},
		watch.Index{Object: &configv1.AppConfig{}, Name: secretIndex, Values: func(object client.Object) []string {
			var secrets []string
			for _, demand := range appconfig.DemandsOf(object.(*configv1.AppConfig), nil) {
				if demand.Source.Kind == workload.Secret {
					secrets = append(secrets, demand.Source.Name)
				}
			}
			return secrets
		}},
		watch.Index{Object: &corev1.ConfigMap{}, Name: labelIndex, Values: func(object client.Object) []string {
			if name, labelled := object.GetLabels()[configv1.LabelAppConfig]; labelled {
				return []string{name}
			}
			return nil
		}},
	)
}

// siblings returns requests for the AppConfigs of the same application.
func siblings(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		config := object.(*configv1.AppConfig)
		return configsOf(ctx, cached, config.Namespace, client.MatchingFields{configMapIndex: config.ConfigMapName()})
	}
}

// usedBy returns requests for the AppConfigs whose ConfigMap a workload uses.
func usedBy(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		template := observe.PodTemplate(object)
		if template == nil {
			return nil
		}
		var requests []reconcile.Request
		for used := range workload.Uses(&template.Spec) {
			if used.Kind == workload.ConfigMap {
				requests = append(requests, configsOf(ctx, cached, object.GetNamespace(), client.MatchingFields{configMapIndex: used.Name})...)
			}
		}
		return requests
	}
}

// namedBy returns requests for the AppConfigs that name a Secret.
func namedBy(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, secret client.Object) []reconcile.Request {
		return configsOf(ctx, cached, secret.GetNamespace(), client.MatchingFields{secretIndex: secret.GetName()})
	}
}

// residents returns requests for the AppConfigs of a namespace.
func residents(cached client.Reader) handler.MapFunc {
	return func(ctx context.Context, namespace client.Object) []reconcile.Request {
		return configsOf(ctx, cached, namespace.GetName())
	}
}

// configsOf returns requests for AppConfigs of a namespace.
func configsOf(ctx context.Context, cached client.Reader, namespace string, options ...client.ListOption) []reconcile.Request {
	return watch.Requests(ctx, cached, &configv1.AppConfigList{}, append(options, client.InNamespace(namespace))...)
}
