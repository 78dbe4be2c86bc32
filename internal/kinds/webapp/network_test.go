package webapp

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

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
