package integration

import (
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// TestACrashBetweenAnyTwoWritesIsHealed lets a manager make one, two, three ... writes of a creation and
// ends it. The next one must bring about the same as an undisturbed one, and write
// nothing again: every child is then in its first generation.
func TestACrashBetweenAnyTwoWritesIsHealed(t *testing.T) {
	children := func() []client.Object {
		return []client.Object{&corev1.ServiceAccount{}, &k8sappsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.Ingress{}}
	}
	// Five children and a status.
	for writes := 1; writes <= 6; writes++ {
		t.Run(fmt.Sprintf("after %d writes", writes), func(t *testing.T) {
			g := gomega.NewWithT(t)
			app := newApp(namespace(t), func(spec *appsv1.WebAppSpec) { spec.Ingress = &appsv1.Ingress{Host: "shop.example.com"} })
			crashing := startManagerFor(t, app.Namespace, writes)
			create(t, app)
			g.Eventually(crashing.calls.isSpent).Should(gomega.BeTrue())
			crashing.stop()
			made := map[string]string{}
			for _, child := range children() {
				if err := cluster.client.Get(t.Context(), client.ObjectKeyFromObject(app), child); err == nil {
					made[fmt.Sprintf("%T", child)] = string(child.GetUID()) + child.GetResourceVersion()
				}
			}
			g.Expect(made).To(gomega.HaveLen(min(writes, 5)))

			startManager(t)
			makeAvailable(t, app)
			g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
			for _, child := range children() {
				g.Expect(cluster.client.Get(t.Context(), client.ObjectKeyFromObject(app), child)).To(gomega.Succeed())
				kind := fmt.Sprintf("%T", child)
				if _, isDeployment := child.(*k8sappsv1.Deployment); isDeployment {
					g.Expect(child.GetGeneration()).To(gomega.BeEquivalentTo(1))
				} else if before, existed := made[kind]; existed {
					g.Expect(string(child.GetUID())+child.GetResourceVersion()).To(gomega.Equal(before), kind)
				}
			}
		})
	}
}
