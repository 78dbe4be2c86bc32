package webapp

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/monitoring"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

// TestPodPort: pods of the earlier and of the new template serve on different numbers while a
// changed port is rolled out, so both are reached by the name. Only pods that an adopted Deployment
// had before may lack it, and the container whose use an autoscaler measures.
func TestPodPort(t *testing.T) {
	adopted := func(d *appsv1.Deployment) {
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"run": "legacy"}}
	}
	named := func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: ContainerName, Ports: []corev1.ContainerPort{{Name: "http"}}}}
	}
	rolling := func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }
	service := func(children plan.Children, port intstr.IntOrString) plan.Children {
		children[Ref(newApp(), "Service")] = plan.Found{Ownership: plan.Ours,
			Object: &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{TargetPort: port}}}}}
		return children
	}
	number, name := intstr.FromInt32(3000), intstr.FromString("http")
	for situation, test := range map[string]struct {
		children plan.Children
		want     intstr.IntOrString
	}{
		"new":                                   {nil, name},
		"rolled out":                            {found(plan.Ours, rolledOut()), name},
		"rolling, and the Service is gone":      {found(plan.Ours, rolledOut(rolling)), name},
		"to be adopted":                         {found(plan.Consenting, rolledOut(adopted, named)), number},
		"another's":                             {found(plan.Foreign, rolledOut(adopted, named)), name},
		"adopted, no template of ours":          {found(plan.Ours, rolledOut(adopted)), number},
		"adopted, rolling":                      {service(found(plan.Ours, rolledOut(adopted, named, rolling)), number), number},
		"adopted, rolled out":                   {service(found(plan.Ours, rolledOut(adopted, named)), number), name},
		"adopted, rolling once more":            {service(found(plan.Ours, rolledOut(adopted, named, rolling)), name), name},
		"to be adopted, with a Service of ours": {service(found(plan.Consenting, rolledOut(adopted, named)), name), number},
	} {
		app := admitted(withFields("port: 3000\nnetworkPolicy: {from: [{podSelector: {}}]}\nmetrics: {from: [{podSelector: {}}]}\n" +
			"autoscaling: {max: 3}\nresources: {requests: {cpu: 1}}"))
		for _, child := range Desired(app, Observed{Children: test.children}).Children {
			var got []intstr.IntOrString
			switch object := child.Object.(type) {
			case *corev1.Service:
				got = append(got, object.Spec.Ports[0].TargetPort)
			case *networkingv1.NetworkPolicy:
				for _, rule := range object.Spec.Ingress {
					got = append(got, *rule.Ports[0].Port)
				}
			case *autoscalingv2.HorizontalPodAutoscaler:
				if isOfContainer := object.Spec.Metrics[0].ContainerResource != nil; isOfContainer != (test.want == name) {
					t.Errorf("%s: the autoscaler measures the container: %t", situation, isOfContainer)
				}
			}
			if slices.ContainsFunc(got, func(port intstr.IntOrString) bool { return port != test.want }) {
				t.Errorf("%s: %T has %v, want %v", situation, child.Object, got, test.want)
			}
		}
	}
}

// TestReferringObjectsStayWithTheService: while the Service is held, nothing that exists refers to
// a port that it does not have.
func TestReferringObjectsStayWithTheService(t *testing.T) {
	const fields = "port: 9090\nmetrics: {}\nroute: {parentRefs: [{name: public}]}\ningress: {host: '*.example.com'}"
	bound, unbound := admitted(withFields(fields), bindings(oneBinding)), admitted(withFields(fields))
	referring := plan.Children{
		Ref(bound, "Ingress"):        {Ownership: plan.Ours, Object: &networkingv1.Ingress{}},
		Ref(bound, "HTTPRoute"):      {Ownership: plan.Ours, Object: &gatewayv1.HTTPRoute{}},
		Ref(bound, "ServiceMonitor"): {Ownership: plan.Ours, Object: &monitoring.ServiceMonitor{}},
	}
	serving := func(children plan.Children, ownership plan.Ownership, port int32) Observed {
		children[Ref(bound, "Service")] = plan.Found{Ownership: ownership, Object: &corev1.Service{Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}, {Port: port, Protocol: corev1.ProtocolTCP}}}}}
		return Observed{Children: children, HasRouteAPI: true, HasMonitorAPI: true}
	}
	runs := func() plan.Children {
		children := found(plan.Ours, rolledOut())
		maps.Copy(children, referring)
		return children
	}
	for name, test := range map[string]struct {
		app      *msappsv1.WebApp
		observed Observed
		keeps    bool
		port     int
	}{
		"held for a binding":            {bound, binding(serving(runs(), plan.Ours, 8080), nil), true, 8080},
		"held for a binding, same port": {bound, binding(serving(runs(), plan.Ours, 9090), nil), false, 9090},
		"held for a binding, new ones":  {bound, binding(serving(found(plan.Ours, rolledOut()), plan.Ours, 8080), nil), false, 8080},
		"the binding can be used":       {bound, binding(serving(runs(), plan.Ours, 8080), store("True", "1")), false, 9090},
		"to be adopted, without pods":   {unbound, serving(maps.Clone(referring), plan.Consenting, 80), true, 80},
		"to be adopted, with pods":      {unbound, serving(runs(), plan.Consenting, 80), false, 9090},
		"a foreign one":                 {unbound, serving(runs(), plan.Foreign, 80), false, 9090},
	} {
		t.Run(name, func(t *testing.T) {
			applied, kept := wantedKinds(Desired(test.app, test.observed))
			for ref := range referring {
				if slices.Contains(kept, ref.Kind) != test.keeps || slices.Contains(applied, ref.Kind) == test.keeps {
					t.Errorf("%s: applied %v, kept %v", ref.Kind, applied, kept)
				}
			}
			if got, want := address(test.app, test.observed), fmt.Sprintf("http://shop.web.svc:%d", test.port); got != want {
				t.Errorf("the address is %s, want %s", got, want)
			}
		})
	}
}
