package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// degraded returns the phase and the reason of the app's condition Degraded.
func degraded(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		seen, err := get(app, &msappsv1.WebApp{})(ctx)
		if err != nil {
			return "", err
		}
		condition := meta.FindStatusCondition(seen.Status.Conditions, msappsv1.ConditionDegraded)
		if condition == nil {
			return "unset", nil
		}
		return string(seen.Status.Phase) + " " + condition.Reason, nil
	}
}

// TestEdges checks what a WebApp says of an Ingress that nobody serves and of an autoscaler without
// metrics: it is Degraded, and stays Ready.
func TestEdges(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	// It is an hour slow, so that a slow machine does not use up the time that a load balancer has.
	late := testenv.NewClockAt(time.Now().Add(-time.Hour))
	ns := namespace(t)
	startManagerWith(t, ns, nil, testenv.WithClock(late))
	class := "class-" + ns
	app := newApp(ns)
	app.Spec.Ingress = &msappsv1.Ingress{Host: "shop.example.com", ClassName: &class}
	app.Spec.Replicas, app.Spec.Autoscaling = nil, &msappsv1.Autoscaling{Max: 3, CPU: ptr.To[int32](50)}
	app.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Eventually(func(ctx context.Context) (string, error) {
		makeAvailable(t, app) // again, if the Deployment has been written once more
		return ready(app)(ctx)
	}).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Expect(degraded(app)(t.Context())).To(gomega.Equal("Running Healthy"), "a load balancer takes some time")

	late.Leap(time.Hour + 2*time.Minute)
	touch := func(by string) {
		change(t, app, func(app *msappsv1.WebApp) { app.Labels = map[string]string{"touched": by} })
	}
	touch("a")
	g.Eventually(degraded(app)).WithContext(t.Context()).Should(gomega.Equal("Degraded IngressClassNotFound"))
	g.Expect(ready(app)(t.Context())).To(gomega.Equal("True Available"))
	create(t, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Spec: networkingv1.IngressClassSpec{Controller: "a.b/c"}})
	touch("b")
	g.Eventually(degraded(app)).WithContext(t.Context()).Should(gomega.Equal("Degraded IngressWithoutAddress"))

	ingress := read(t, app, &networkingv1.Ingress{})
	ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.1"}}
	g.Expect(cluster.Client.Status().Update(t.Context(), ingress)).To(gomega.Succeed())
	g.Eventually(degraded(app)).WithContext(t.Context()).Should(gomega.Equal("Running Healthy"))

	autoscaler := read(t, app, &autoscalingv2.HorizontalPodAutoscaler{})
	autoscaler.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive,
		Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric", LastTransitionTime: metav1.Now()}}
	g.Expect(cluster.Client.Status().Update(t.Context(), autoscaler)).To(gomega.Succeed())
	g.Eventually(degraded(app)).WithContext(t.Context()).Should(gomega.Equal("Degraded AutoscalerInactive"))

	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Ingress.ClassName, app.Spec.Ingress.Path = nil, "/shop" })
	g.Eventually(func(ctx context.Context) (string, error) {
		seen, err := get(app, &networkingv1.Ingress{})(ctx)
		if err != nil {
			return "", err
		}
		return seen.Spec.Rules[0].HTTP.Paths[0].Path, nil
	}).WithContext(t.Context()).Should(gomega.Equal("/shop"))
	ingress = read(t, app, &networkingv1.Ingress{})
	g.Expect(ingress.Spec.IngressClassName).To(gomega.Equal(&class), "the API server gives an Ingress the default class at its creation only")
}
