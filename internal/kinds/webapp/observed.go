package webapp

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// Observed is everything that decisions about one WebApp depend on, read once.
type Observed struct {
	// Children are the objects found under the WebApp's name, of every kind that it can have.
	Children plan.Children
	// Pods are the pods of the WebApp, in any state.
	Pods []corev1.Pod
	// Events are the warnings about the pod that workload.Evidence.Unexplained returns; nil if there
	// is no such pod or nothing is known.
	Events []corev1.Event
	// EventsUnread reports that they could not be read.
	EventsUnread bool
	// Imposed is the result of the function Imposed; nil while no container has exited, or if it could
	// not be found out.
	Imposed map[string]string
	// HasRouteAPI reports whether the cluster has the Gateway API's HTTPRoute.
	HasRouteAPI bool
	// HasMonitorAPI reports whether the cluster has the Prometheus Operator's ServiceMonitor.
	HasMonitorAPI bool
	// MonitorLabels are the labels by which Prometheus selects ServiceMonitors, from the installation.
	MonitorLabels map[string]string
	// IngressClassMissing reports that the class of an Ingress that WaitsForAddress does not exist.
	IngressClassMissing bool
	// Now is when this was observed.
	Now time.Time
	// ServiceAccountMissing reports that the ServiceAccount of spec.serviceAccountName does not exist.
	ServiceAccountMissing bool
	// Bindings are those of the spec whose kinds are on, in its order.
	Bindings []Bound
}

// Evidence returns what is known of the pods of a defaulted app.
func Evidence(app *msappsv1.WebApp, observed Observed) workload.Evidence {
	if len(observed.Pods) == 0 {
		return workload.Evidence{}
	}
	spec := podTemplate(app, observed).Spec
	return workload.Evidence{Pods: observed.Pods, Containers: slices.Concat(spec.InitContainers, spec.Containers), Events: observed.Events,
		Notes: observed.Imposed, Now: observed.Now, Changed: lastChanged(observed.deployment(app))}
}

// lastChanged returns when we changed a Deployment last, as the API server has recorded it; zero if
// that is not known.
func lastChanged(deployment *appsv1.Deployment) time.Time {
	if deployment == nil {
		return time.Time{}
	}
	for _, entry := range deployment.ManagedFields {
		if entry.Manager == naming.Manager(Controller) && entry.Subresource == "" && entry.Time != nil {
			return entry.Time.Time
		}
	}
	return time.Time{}
}

// deployment returns the WebApp's Deployment, or one that it may adopt; nil if there is none.
func (o Observed) deployment(app *msappsv1.WebApp) *appsv1.Deployment {
	object, _ := o.Children.Get(Ref(app, "Deployment"))
	deployment, _ := object.(*appsv1.Deployment)
	return deployment
}

// route returns the WebApp's HTTPRoute; nil if there is none.
func (o Observed) route(app *msappsv1.WebApp) *gatewayv1.HTTPRoute {
	object, _ := o.Children.Get(Ref(app, "HTTPRoute"))
	route, _ := object.(*gatewayv1.HTTPRoute)
	return route
}

// ingress returns the WebApp's Ingress; nil if there is none.
func (o Observed) ingress(app *msappsv1.WebApp) *networkingv1.Ingress {
	object, _ := o.Children.Get(Ref(app, "Ingress"))
	ingress, _ := object.(*networkingv1.Ingress)
	return ingress
}

// groups are the API groups of the kinds of children; the core group where a kind is missing.
var groups = map[string]string{
	"Deployment": appsv1.GroupName, "HorizontalPodAutoscaler": autoscalingv2.GroupName, "HTTPRoute": gatewayv1.GroupName,
	"Ingress": networkingv1.GroupName, "ServiceMonitor": monitoring.GroupVersion.Group,
}

// Ref names the child of a kind.
func Ref(app *msappsv1.WebApp, kind string) plan.Ref {
	return plan.Ref{Group: groups[kind], Kind: kind, Namespace: app.Namespace, Name: app.Name}
}
