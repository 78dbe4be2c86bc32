package webappcontroller

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	msappsv1beta1 "github.com/mainstay-platform/mainstay/api/apps/v1beta1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/component"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/optionalapi"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/policy/policyreader"
	"github.com/mainstay-platform/mainstay/internal/registration"
)

// Field indexes of the cache.
const (
	// serviceAccountIndex finds WebApps by the ServiceAccount that they use.
	serviceAccountIndex = "spec.serviceAccountName"
	// podOwnerIndex finds the pods of a WebApp by its name.
	podOwnerIndex = "webapp"
	// bindingsIndex finds WebApps by what they are bound to.
	bindingsIndex = "spec.bindings"
)

// httpRouteKind is the optional Gateway API kind that WebApps can use.
var httpRouteKind = schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: "v1", Kind: "HTTPRoute"}

// httpRouteCRD is the name of that kind's definition.
const httpRouteCRD = "httproutes.gateway.networking.k8s.io"

// serviceMonitorKind is the optional kind of the Prometheus Operator.
var serviceMonitorKind = monitoring.GroupVersion.WithKind("ServiceMonitor")

// Registration returns what WebApps add to the manager.
func Registration() registration.Kind {
	return registration.New(registration.Kind{
		Component: &component.Traits{Type: "webApp", MaxName: 63, HasMetadata: true, TakesVariables: true, TakesBindings: true,
			Exposes: []string{"ingress", "route"}, Children: func(object component.Object) []component.Object {
				return possibleChildren(object.GetName(), webapp.Observed{HasRouteAPI: true, HasMonitorAPI: true})
			}},
		Name:        webapp.Controller,
		AddToScheme: []func(*runtime.Scheme) error{msappsv1.AddToScheme, msappsv1beta1.AddToScheme, gatewayv1.Install, monitoring.AddToScheme},
		Setup:       setup,
		Hooks:       scaleHooks,
		Needs:       needs(),
		Awaited:     []string{httpRouteCRD, monitoring.ServiceMonitorCRD},
		Governed:    registration.Governed(&msappsv1.WebAppList{}, admitted),
		Binds:       true,
		Converter: conversion.NewHubSpokeConverter(&msappsv1.WebApp{},
			conversion.NewSpokeConverter(&msappsv1beta1.WebApp{}, webapp.FromV1, webapp.ToV1)),
		KeepUnknown: webapp.KeepUnknown,
	}, admitted)
}

// needs returns what this controller reads from the cache where that is not the default
// (watch.Default: complete objects with our label).
func needs() []watch.Need {
	return []watch.Need{
		watch.All(&msappsv1.WebApp{}),
		{Object: &corev1.Service{}, Unused: []watch.Part{serviceStatus}},
		// All ServiceAccounts: users name their own ones.
		{Object: &corev1.ServiceAccount{}, Select: labels.Everything(), Unused: []watch.Part{watch.NewPart("details", stripServiceAccount)}},
		{Object: &networkingv1.Ingress{}},
		{Object: &policyv1.PodDisruptionBudget{}, Unused: []watch.Part{budgetStatus}},
		{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Unused: []watch.Part{watch.NewPart("status but failures", stripAutoscaler)}},
		{Object: &corev1.Pod{}, Select: watch.OwnedPods, Unused: []watch.Part{watch.ManagedFields, watch.Annotations, podSpec, podAddresses}},
	}
}

// What this controller does not read. Of pods, which are the most numerous objects, what shows
// their health and their owner stays.
var (
	serviceStatus = watch.NewPart("status", func(s *corev1.Service) { s.Status = corev1.ServiceStatus{} })
	budgetStatus  = watch.NewPart("status", func(b *policyv1.PodDisruptionBudget) {
		b.Status = policyv1.PodDisruptionBudgetStatus{}
	})
	podSpec = watch.NewPart("pod spec but the node", func(pod *corev1.Pod) {
		pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	})
	podAddresses = watch.NewPart("pod addresses", func(pod *corev1.Pod) { pod.Status.PodIPs, pod.Status.HostIPs = nil, nil })
)

// stripAutoscaler keeps, of the status, the conditions that are False: the rest changes with each
// measurement.
func stripAutoscaler(autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	isTrue := func(condition autoscalingv2.HorizontalPodAutoscalerCondition) bool {
		return condition.Status != corev1.ConditionFalse
	}
	failures := slices.DeleteFunc(slices.Clone(autoscaler.Status.Conditions), isTrue)
	autoscaler.Status = autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: slices.Clip(failures)}
}

func stripServiceAccount(account *corev1.ServiceAccount) {
	account.Secrets, account.ImagePullSecrets = nil, nil
	if account.Labels[api.LabelManagedBy] != api.ManagedBy {
		consent, given := account.Annotations[api.AnnotationAdopt]
		account.Labels, account.Annotations = nil, nil
		if given {
			account.Annotations = map[string]string{api.AnnotationAdopt: consent}
		}
	}
}

// setup adds the controller to the manager. HTTPRoutes and ServiceMonitors are used if the cluster
// has the kind, and from the moment it is installed.
//
// Deployment and Service are always desired or kept, and only the garbage collector deletes them:
// OwnerReferencesPermissionEnforcement requires the right to delete for adopting one.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;patch;delete
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=servicemonitors,verbs=create;patch;delete
// +kubebuilder:rbac:groups=apps.mainstay.dev,resources=webapps/status,verbs=patch
// +kubebuilder:rbac:groups=apps.mainstay.dev,resources=webapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch
func setup(ctx context.Context, in registration.Input) error {
	manager := in.Manager
	if err := addIndexes(ctx, manager.GetFieldIndexer()); err != nil {
		return err
	}
	prefetched := append(owned(), optionalapi.Definition())
	if in.Rules != nil {
		prefetched = append(prefetched, watch.Namespace())
	}
	if err := watch.Prefetch(ctx, manager.GetCache(), prefetched...); err != nil {
		return err
	}
	routes, err := optionalapi.FindServed(ctx, httpRouteKind, httpRouteCRD, manager)
	if err != nil {
		return err
	}
	monitors, err := optionalapi.FindServed(ctx, serviceMonitorKind, monitoring.ServiceMonitorCRD, manager)
	if err != nil {
		return err
	}
	uses := []optionalapi.Child[*msappsv1.WebApp]{
		{API: routes, Object: &gatewayv1.HTTPRoute{}, Owner: &msappsv1.WebApp{},
			IsWanted: func(app *msappsv1.WebApp) bool { return app.Spec.Route != nil }},
		{API: monitors, Object: &monitoring.ServiceMonitor{}, Owner: &msappsv1.WebApp{},
			IsWanted: func(app *msappsv1.WebApp) bool { return app.Spec.Metrics != nil }},
	}
	built, err := build(in, newReconciler(in, routes, monitors), uses)
	if err != nil {
		return err
	}
	for _, use := range uses {
		use.API.OnAppear = func(context.Context) error { return use.Watch(manager, built) }
		if err := manager.Add(use.API); err != nil {
			return fmt.Errorf("awaiting an optional API: %w", err)
		}
	}
	return nil
}

func newReconciler(in registration.Input, routes, monitors *optionalapi.API) reconcile.Reconciler {
	r := registration.Complete(in, &reconciler.Reconciler[*msappsv1.WebApp, webapp.Observed, struct{}]{
		Name:              webapp.Controller,
		New:               func() *msappsv1.WebApp { return &msappsv1.WebApp{} },
		Children:          func(observed webapp.Observed) plan.Children { return observed.Children },
		ProblemConditions: []string{msappsv1.ConditionDegraded, msappsv1.ConditionStalled},
		Kind: kind{cached: in.Manager.GetClient(), live: in.Manager.GetAPIReader(), children: in.Children(), routes: routes,
			monitors: monitors, monitorLabels: in.MonitorLabels, rules: in.Rules, bindables: in.Bindables(), clock: in.Clock},
	})
	if in.Rules != nil {
		r.Policy = &reconciler.Policy[*msappsv1.WebApp, webapp.Observed]{
			Kind: "WebApp", Rules: in.Rules, Wanted: webapp.Wanted, Running: webapp.Running,
		}
	}
	return r
}

// owned returns empty objects of the child kinds that every cluster has.
func owned() []client.Object {
	return []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &networkingv1.Ingress{}, &networkingv1.NetworkPolicy{},
		&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &corev1.ConfigMap{},
	}
}

func build(in registration.Input, r reconcile.Reconciler, uses []optionalapi.Child[*msappsv1.WebApp]) (controller.Controller, error) {
	cached := in.Manager.GetClient()
	changed := builder.WithPredicates(watch.ContentChanged(), watch.NotInitial())
	written := builder.WithPredicates(predicate.Or(watch.SpecChanged(), watch.AnnotationChanged(api.AnnotationV1Spec)))
	under := ctrl.NewControllerManagedBy(in.Manager).
		Named(webapp.Controller).
		For(&msappsv1.WebApp{}, written).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOfPod), changed).
		Watches(&corev1.ServiceAccount{}, handler.EnqueueRequestsFromMapFunc(usersOfServiceAccount(cached)), changed)
	for _, child := range owned() {
		under = under.Owns(child, changed)
	}
	for _, kind := range in.Bindables() {
		if object, isObject := kind.New().(client.Object); isObject {
			under = under.Watches(object, handler.EnqueueRequestsFromMapFunc(boundTo(cached, kind.Kind.Kind)), changed)
		}
	}
	if in.Rules != nil {
		under = policyreader.Watch(under, cached, &msappsv1.WebAppList{})
	}
	for _, use := range uses {
		if use.API.Available() {
			under = under.Owns(use.Object, changed)
		}
	}
	return under.WithOptions(in.Options()).Build(r)
}

func addIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return watch.AddIndexes(ctx, indexer,
		watch.Index{Object: &msappsv1.WebApp{}, Name: serviceAccountIndex, Values: func(object client.Object) []string {
			if name := object.(*msappsv1.WebApp).Spec.ServiceAccountName; name != "" {
				return []string{name}
			}
			return nil
		}},
		watch.Index{Object: &msappsv1.WebApp{}, Name: bindingsIndex, Values: func(object client.Object) []string {
			var keys []string
			for _, one := range object.(*msappsv1.WebApp).Spec.Bindings {
				keys = append(keys, component.BoundKey(one.Kind, one.Name, ""))
			}
			return keys
		}},
		watch.Index{Object: &corev1.Pod{}, Name: podOwnerIndex, Values: func(object client.Object) []string {
			if object.GetLabels()[api.LabelOwnerKind] != webapp.Component {
				return nil
			}
			return []string{object.GetLabels()[api.LabelOwner]}
		}},
	)
}

// ownerOfPod returns a request for the WebApp that a pod's labels name. A pod with forged labels
// costs one reconcile and no more: pods only influence which problem is reported.
func ownerOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	if pod.GetLabels()[api.LabelOwnerKind] != webapp.Component {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetLabels()[api.LabelOwner]}}}
}

// usersOfServiceAccount returns requests for the WebApps that use a ServiceAccount.
func usersOfServiceAccount(reader client.Reader) handler.MapFunc {
	return func(ctx context.Context, account client.Object) []reconcile.Request {
		return watch.Requests(ctx, reader, &msappsv1.WebAppList{}, client.InNamespace(account.GetNamespace()),
			client.MatchingFields{serviceAccountIndex: account.GetName()})
	}
}

// boundTo returns requests for the WebApps that are bound to an object of a kind.
func boundTo(reader client.Reader, kind string) handler.MapFunc {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		return watch.Requests(ctx, reader, &msappsv1.WebAppList{}, client.InNamespace(object.GetNamespace()),
			client.MatchingFields{bindingsIndex: component.BoundKey(kind, object.GetName(), "")})
	}
}
