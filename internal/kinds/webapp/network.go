package webapp

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/naming"
)

// serviceYields are the fields that say at which addresses a Service is reached, and by whom. The
// spec has none of them, so an adopted Service keeps its own. Without them, a load balancer could
// get another address, and one for few sources would be open to all. The API server even refuses to
// remove the class.
var serviceYields = [][]string{
	{"spec", "type"},
	{"spec", "loadBalancerClass"},
	{"spec", "loadBalancerIP"},
	{"spec", "loadBalancerSourceRanges"},
	{"spec", "externalIPs"},
	{"spec", "externalTrafficPolicy"},
	{"spec", "allocateLoadBalancerNodePorts"},
}

func desiredService(app *msappsv1.WebApp, observed Observed) *corev1.Service {
	meta := childMeta(app, app.Spec.ServiceMetadata)
	if app.Spec.Metrics != nil && !observed.HasMonitorAPI {
		meta.Annotations = naming.Merged(meta.Annotations, scrapeAnnotations(app))
	}
	return &corev1.Service{
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Selector: selector(app, observed),
			Ports: []corev1.ServicePort{{
				Name:       servicePortName(app, observed),
				Protocol:   corev1.ProtocolTCP,
				Port:       app.Spec.ServicePort,
				TargetPort: podPort(app, observed),
			}},
		},
	}
}

// servicePortName returns the name of the Service's port. An existing port keeps its name, even an
// empty one: kube-proxy matches endpoints by it, so that a new name refuses all connections for a
// second, until the endpoints have it too. (Observed when a Service of kubectl expose was adopted.)
func servicePortName(app *msappsv1.WebApp, observed Observed) string {
	object, _ := observed.Children.Get(Ref(app, "Service"))
	if service, ok := object.(*corev1.Service); ok {
		for _, port := range service.Spec.Ports {
			if port.Port == app.Spec.ServicePort && port.Protocol == corev1.ProtocolTCP {
				return port.Name
			}
		}
	}
	return portName
}

// heldPort returns the port of a Service that stays as it is for now, and lacks the port of the
// spec; 0 otherwise. If it has several, the first one counts.
func heldPort(app *msappsv1.WebApp, observed Observed) int32 {
	object, _ := observed.Children.Get(Ref(app, "Service"))
	service, ok := object.(*corev1.Service)
	if !ok || !isServiceHeld(app, observed) {
		return 0
	}
	first := int32(0)
	for _, port := range service.Spec.Ports {
		if port.Protocol != corev1.ProtocolTCP {
			continue
		}
		if port.Port == app.Spec.ServicePort {
			return 0
		}
		first = cmp.Or(first, port.Port)
	}
	return first
}

// podPort returns the port on which pods serve, as a Service or a NetworkPolicy names it: by its
// name, which each pod translates to its own number. So all pods are reached while a changed
// spec.port is rolled out, or while its rollout fails and the earlier pods continue to serve.
//
// It is the number while pods of an adopted Deployment may have no port of that name.
func podPort(app *msappsv1.WebApp, observed Observed) intstr.IntOrString {
	if areOfOurTemplate(app, observed) {
		return intstr.FromString(portName)
	}
	return intstr.FromInt32(app.Spec.Port)
}

// areOfOurTemplate reports whether all pods are of a template of ours, with its names. Those that
// an adopted Deployment had before are not: they are gone once a template of ours has been rolled
// out. The Service remembers that for later rollouts.
func areOfOurTemplate(app *msappsv1.WebApp, observed Observed) bool {
	if maps.Equal(selector(app, observed), part(app).Selector()) {
		return true
	}
	deployment := ours(app, observed)
	if deployment == nil {
		return false
	}
	object, _ := observed.Children.Get(Ref(app, "Service"))
	if service, ok := object.(*corev1.Service); ok && slices.ContainsFunc(service.Spec.Ports, func(port corev1.ServicePort) bool {
		return port.TargetPort == intstr.FromString(portName)
	}) {
		return true
	}
	return isRolledOut(deployment) && slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == ContainerName && slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool { return port.Name == portName })
	})
}

func desiredNetworkPolicy(app *msappsv1.WebApp, observed Observed) *networkingv1.NetworkPolicy {
	policy := &networkingv1.NetworkPolicy{
		ObjectMeta: childMeta(app, msappsv1.Metadata{}),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(app, observed)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		},
	}
	admit := func(peers []networkingv1.NetworkPolicyPeer, port intstr.IntOrString) {
		if len(peers) == 0 {
			return // a rule without peers would admit everyone
		}
		policy.Spec.Ingress = append(policy.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{
			From:  peers,
			Ports: []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(corev1.ProtocolTCP), Port: new(port)}},
		})
	}
	admit(app.Spec.NetworkPolicy.From, podPort(app, observed))
	if metrics := app.Spec.Metrics; metrics != nil {
		port := intstr.FromInt32(metrics.Port)
		if metrics.Port == app.Spec.Port {
			port = podPort(app, observed)
		}
		admit(metrics.From, port)
	}
	return policy
}

func desiredIngress(app *msappsv1.WebApp) *networkingv1.Ingress {
	given := app.Spec.Ingress
	ingress := &networkingv1.Ingress{
		ObjectMeta: childMeta(app, msappsv1.Metadata{Annotations: given.Annotations}),
		Spec: networkingv1.IngressSpec{
			IngressClassName: given.ClassName,
			Rules: []networkingv1.IngressRule{{
				Host: given.Host,
				IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
					Paths: []networkingv1.HTTPIngressPath{{
						Path:     given.Path,
						PathType: ptr.To(networkingv1.PathTypePrefix),
						Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
							Name: app.Name,
							Port: networkingv1.ServiceBackendPort{Number: app.Spec.ServicePort},
						}},
					}},
				}},
			}},
		},
	}
	if given.TLSSecretName != "" {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{given.Host}, SecretName: given.TLSSecretName}}
	}
	return ingress
}

func desiredRoute(app *msappsv1.WebApp) *gatewayv1.HTTPRoute {
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: childMeta(app, msappsv1.Metadata{}),
		Spec: gatewayv1.HTTPRouteSpec{
			Rules: []gatewayv1.HTTPRouteRule{{
				BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
					BackendObjectReference: gatewayv1.BackendObjectReference{
						Name: gatewayv1.ObjectName(app.Name),
						Port: new(app.Spec.ServicePort),
					},
				}}},
			}},
		},
	}
	for _, parent := range app.Spec.Route.ParentRefs {
		reference := gatewayv1.ParentReference{Name: gatewayv1.ObjectName(parent.Name)}
		if parent.Namespace != "" {
			reference.Namespace = new(gatewayv1.Namespace(parent.Namespace))
		}
		if parent.SectionName != "" {
			reference.SectionName = new(gatewayv1.SectionName(parent.SectionName))
		}
		route.Spec.ParentRefs = append(route.Spec.ParentRefs, reference)
	}
	for _, host := range app.Spec.Route.Hostnames {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(host))
	}
	return route
}

// address returns the URL of the application: the most public one that is a single address, which a
// wildcard host is not.
func address(app *msappsv1.WebApp, observed Observed) string {
	if route := app.Spec.Route; route != nil && observed.HasRouteAPI {
		for _, host := range route.Hostnames {
			if !strings.HasPrefix(string(host), "*") {
				// Whether the listener has TLS is defined by the Gateway.
				return "http://" + string(host) + "/"
			}
		}
	}
	if ingress := app.Spec.Ingress; ingress != nil && !strings.HasPrefix(ingress.Host, "*") {
		scheme := "http"
		if ingress.TLSSecretName != "" {
			scheme = "https"
		}
		return scheme + "://" + ingress.Host + ingress.Path
	}
	return fmt.Sprintf("http://%s.%s.svc:%d", app.Name, app.Namespace, cmp.Or(heldPort(app, observed), app.Spec.ServicePort))
}
