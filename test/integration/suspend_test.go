package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestSuspend suspends and resumes an app with each source of the number of replicas.
func TestSuspend(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*msappsv1.WebAppSpec)
		// resumed is the number of replicas after it is resumed.
		resumed int32
	}{
		"its spec has the number": {func(*msappsv1.WebAppSpec) {}, 2},
		"an autoscaler has it": {func(spec *msappsv1.WebAppSpec) {
			spec.Replicas, spec.Autoscaling = nil, &msappsv1.Autoscaling{Min: 3, Max: 6}
			spec.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		}, 3},
		"only its Deployment has it": {func(spec *msappsv1.WebAppSpec) { spec.Replicas = nil }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			g, space, manager := managed(t)
			app := newApp(space, test.change, func(spec *msappsv1.WebAppSpec) {
				spec.Ingress = &msappsv1.Ingress{Host: "shop.example.com"}
				spec.Disruption = &msappsv1.Disruption{}
			})
			create(t, app)
			g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
			await(t, app, "True Available")
			if app.Spec.Replicas == nil { // what another client, or the autoscaler, chooses
				scaleDeployment(t, app, 4)
			}
			suspend(t, app)
			at := manager.Settle(t)
			touch(t, app)
			manager.Settle(t)
			if written := testenv.In(space, manager.Requests.Since(at, "PATCH ")); len(written) > 0 {
				t.Errorf("a suspended app is written again: %q", written)
			}
			resume(t, app, test.resumed)
		})
	}
}

func suspend(t *testing.T, app *msappsv1.WebApp) {
	t.Helper()
	g := gomega.NewWithT(t)
	before := replicasOf(t, app)
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Suspend = true })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Suspending"))
	g.Expect(before).NotTo(gomega.BeZero())
	g.Expect(replicasOf(t, app)).To(gomega.BeZero())
	await(t, app, "False Suspended")
	seen := read(t, app, &msappsv1.WebApp{})
	g.Expect(seen.Status.Phase).To(gomega.Equal(msappsv1.PhaseSuspended))
	g.Expect(meta.IsStatusConditionTrue(seen.Status.Conditions, msappsv1.ConditionSuspended)).To(gomega.BeTrue())
	for _, kind := range []string{msappsv1.ConditionProgressing, msappsv1.ConditionDegraded, msappsv1.ConditionStalled} {
		g.Expect(meta.IsStatusConditionTrue(seen.Status.Conditions, kind)).To(gomega.BeFalse(), kind)
	}
	for _, child := range []client.Object{&corev1.Service{}, &corev1.ServiceAccount{}, &networkingv1.Ingress{}} {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), child)).To(gomega.Succeed())
	}
	for _, child := range []client.Object{&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}} {
		g.Eventually(gone(app, child)).WithContext(t.Context()).Should(gomega.Succeed())
	}
}

func resume(t *testing.T, app *msappsv1.WebApp, want int32) {
	t.Helper()
	g := gomega.NewWithT(t)
	change(t, app, func(app *msappsv1.WebApp) { app.Spec.Suspend = false })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Expect(replicasOf(t, app)).To(gomega.Equal(want))
	await(t, app, "True Available")
	if app.Spec.Autoscaling != nil {
		g.Eventually(get(app, &autoscalingv2.HorizontalPodAutoscaler{})).WithContext(t.Context()).ShouldNot(gomega.BeNil())
	}
	if app.Spec.Replicas == nil { // the number is others' again
		scaleDeployment(t, app, want+1)
		touch(t, app)
		g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
		g.Expect(replicasOf(t, app)).To(gomega.Equal(want + 1))
	}
}

// await makes the desired number of pods available, again if the Deployment is written once more,
// until the app is as it says.
func await(t *testing.T, app *msappsv1.WebApp, want string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(ctx context.Context) (string, error) {
		makeAvailable(t, app)
		return ready(app)(ctx)
	}).WithContext(t.Context()).Should(gomega.Equal(want))
}

func replicasOf(t *testing.T, app *msappsv1.WebApp) int32 {
	t.Helper()
	deployment, err := get(app, &appsv1.Deployment{})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return *deployment.Spec.Replicas
}

// scaleDeployment does what an autoscaler does, and awaits that the app is available again.
func scaleDeployment(t *testing.T, app *msappsv1.WebApp, replicas int32) {
	t.Helper()
	deployment := &appsv1.Deployment{}
	deployment.Namespace, deployment.Name = app.Namespace, app.Name
	change(t, deployment, func(deployment *appsv1.Deployment) { deployment.Spec.Replicas = &replicas })
	await(t, app, "True Available")
}

// touch has the app reconciled once more.
func touch(t *testing.T, app *msappsv1.WebApp) {
	t.Helper()
	change(t, app, func(app *msappsv1.WebApp) { app.Labels = map[string]string{"touched": app.ResourceVersion} })
}
