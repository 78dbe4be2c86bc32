package webappcontroller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/webapp"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/kit/watch"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observe reads everything that decisions about app depend on, from the cache. It reads from the
// API server only a Deployment or Service that the cache does not have in full, and the events of
// one pod that is not ready for long.
//
// +kubebuilder:rbac:groups=apps.mainstay.dev,resources=webapps,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=services;serviceaccounts;configmaps,verbs=get;list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=servicemonitors,verbs=get;list;watch
func (k kind) Observe(ctx context.Context, app *msappsv1.WebApp) (webapp.Observed, error) {
	observed := webapp.Observed{HasRouteAPI: k.routes.Available(), HasMonitorAPI: k.monitors.Available(), MonitorLabels: k.monitorLabels,
		Now: k.clock.Now()}
	found, err := k.children.Find(ctx, app, possibleChildren(app.Name, observed)...)
	if err != nil {
		return observed, err
	}
	observed.Children = found
	if err := k.observeLive(ctx, app, found); err != nil {
		return observed, err
	}
	if observed.ServiceAccountMissing, err = k.isServiceAccountMissing(ctx, app); err != nil {
		return observed, err
	}
	if observed.Bindings, err = k.observeBindings(ctx, app); err != nil {
		return observed, err
	}
	observed.IngressClassMissing = k.isIngressClassMissing(ctx, webapp.WaitsForAddress(app, observed))
	if observed.Pods, err = k.observePods(ctx, app); err != nil {
		return observed, err
	}
	observed.Imposed = k.imposed(ctx, app, observed.Pods)
	observed.Events, observed.EventsUnread = k.observeEvents(ctx, webapp.Evidence(app, observed).Unexplained())
	return observed, nil
}

// observeLive reads Deployment and Service from the API server where the cache does not have
// them in full. They may exist and be adopted: then the Deployment's selector determines everything
// else, and the Service may have to wait. A new WebApp rarely has them, and apply notices them (see
// plan.Child.Decisive), so they are not read if nothing in the cache has the name. Nothing is
// applied for one that is paused.
func (k kind) observeLive(ctx context.Context, app *msappsv1.WebApp, found plan.Children) error {
	isNew := len(app.Status.Conditions) == 0 && !app.Spec.Paused
	for kind, object := range map[string]plan.Object{
		"Deployment": &appsv1.Deployment{ObjectMeta: named(app.Name)},
		"Service":    &corev1.Service{ObjectMeta: named(app.Name)},
	} {
		known, there := found[webapp.Ref(app, kind)]
		if there && watch.IsWhole(known.Object) || !there && isNew {
			continue
		}
		if err := k.children.FindLive(ctx, app, object, found); err != nil {
			return err
		}
	}
	return nil
}

// possibleChildren returns all objects that a WebApp of this name can own. Those that exist, are
// its own and are not desired will be deleted.
func possibleChildren(name string, observed webapp.Observed) []plan.Object {
	possible := []plan.Object{
		&corev1.ServiceAccount{ObjectMeta: named(name)},
		&networkingv1.NetworkPolicy{ObjectMeta: named(name)},
		&appsv1.Deployment{ObjectMeta: named(name)},
		&corev1.Service{ObjectMeta: named(name)},
		&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named(name)},
		&policyv1.PodDisruptionBudget{ObjectMeta: named(name)},
		&networkingv1.Ingress{ObjectMeta: named(name)},
		&corev1.ConfigMap{ObjectMeta: named(webapp.DashboardName(name))},
	}
	if observed.HasRouteAPI {
		possible = append(possible, &gatewayv1.HTTPRoute{ObjectMeta: named(name)})
	}
	if observed.HasMonitorAPI {
		possible = append(possible, &monitoring.ServiceMonitor{ObjectMeta: named(name)})
	}
	return possible
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func (k kind) isServiceAccountMissing(ctx context.Context, app *msappsv1.WebApp) (bool, error) {
	if app.Spec.ServiceAccountName == "" {
		return false, nil
	}
	key := client.ObjectKey{Namespace: app.Namespace, Name: app.Spec.ServiceAccountName}
	err := k.cached.Get(ctx, key, &corev1.ServiceAccount{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading ServiceAccount %s: %w", key, err)
	}
	return false, nil
}

// observeBindings reads the objects of the bindings from the cache. The rights for that are those
// of their kinds, which are on.
func (k kind) observeBindings(ctx context.Context, app *msappsv1.WebApp) ([]webapp.Bound, error) {
	bindings := webapp.Bind(app, k.bindables)
	for i := range bindings {
		object, isObject := bindings[i].To.New().(client.Object)
		if !isObject {
			return nil, fmt.Errorf("%T can't be read", bindings[i].To.New())
		}
		key := client.ObjectKey{Namespace: app.Namespace, Name: bindings[i].Name}
		err := k.cached.Get(ctx, key, object)
		switch {
		case err == nil:
			bindings[i].Object = object
		case !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("reading %s %s: %w", bindings[i].Kind, key, err)
		}
	}
	return bindings, nil
}

// isIngressClassMissing reports whether the class of an Ingress does not exist. It reads it from
// the API server, because only an Ingress that waits for an address needs it.
//
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=get
func (k kind) isIngressClassMissing(ctx context.Context, ingress *networkingv1.Ingress) bool {
	if ingress == nil || ingress.Spec.IngressClassName == nil {
		return false
	}
	class := &metav1.PartialObjectMetadata{}
	class.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IngressClass"))
	err := k.live.Get(ctx, client.ObjectKey{Name: *ingress.Spec.IngressClassName}, class)
	if apierrors.IsNotFound(err) {
		return true
	}
	if err != nil { // it would only explain a problem: everything else must go on
		ctrl.LoggerFrom(ctx).Error(err, "Reading the class of an Ingress", "class", *ingress.Spec.IngressClassName)
	}
	return false
}

// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
func (k kind) observePods(ctx context.Context, app *msappsv1.WebApp) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := k.cached.List(ctx, &pods, client.InNamespace(app.Namespace), client.MatchingFields{podOwnerIndex: app.Name},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the pods of %s/%s: %w", app.Namespace, app.Name, err)
	}
	return pods.Items, nil
}

// imposed returns what policies make of the way in which the containers of an app run, for the
// message about one that keeps exiting; nil while none has exited. It would only explain that
// problem: without it everything else must go on.
func (k kind) imposed(ctx context.Context, app *msappsv1.WebApp, pods []corev1.Pod) map[string]string {
	if k.rules == nil || !workload.HaveExits(pods) {
		return nil
	}
	rules, err := k.rules(ctx, app.Namespace)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading the policies of a namespace", "namespace", app.Namespace)
		return nil
	}
	return webapp.Imposed(app, rules)
}

// maxEvents is how many events about one pod are read. The kubelet counts repeated ones in one
// object, so that a pod has few.
const maxEvents = 50

// observeEvents reads the warnings about a pod whose status does not say why it is not ready:
// failed mounts, sandboxes and probes are in nothing that is watched. It reads those of one pod,
// and of none while all pods are ready, have just started or explain themselves. They would only
// explain a problem: after an error everything else must go on, and unread is true.
//
// +kubebuilder:rbac:groups="",resources=events,verbs=list
func (k kind) observeEvents(ctx context.Context, unexplained *corev1.Pod) (found []corev1.Event, unread bool) {
	if unexplained == nil {
		return nil, false
	}
	var events corev1.EventList
	err := k.live.List(ctx, &events, client.InNamespace(unexplained.Namespace), client.Limit(maxEvents),
		client.MatchingFields{"involvedObject.uid": string(unexplained.UID), "type": corev1.EventTypeWarning})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing the events of a pod", "pod", unexplained.Name)
		return nil, true
	}
	return events.Items, false
}
