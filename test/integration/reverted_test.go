package integration

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestRevertsAreReported: a change of a child that is undone, and a child that is created again,
// are events of the owner. A first creation and a new spec are not.
func TestRevertsAreReported(t *testing.T) {
	g, space, manager := managed(t)
	app := newApp(space)
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	scale := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":3}}`))
	g.Expect(cluster.Client.Patch(t.Context(), app, scale)).To(gomega.Succeed())
	g.Eventually(get(app, &appsv1.Deployment{})).WithContext(t.Context()).Should(
		gomega.HaveField("Spec.Replicas", gomega.HaveValue(gomega.BeEquivalentTo(3))))
	manager.Settle(t)

	const remedy = ". To change it for good: kubectl -n "
	deployment := read(t, app, &appsv1.Deployment{})
	deployment.Spec.Replicas = ptr.To[int32](7)
	g.Expect(cluster.Client.Update(t.Context(), deployment, client.FieldOwner("kubectl-edit"))).To(gomega.Succeed())
	g.Eventually(eventsOn(app)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.HaveSuffix(": a change of Deployment " +
		space + "/shop is undone: spec.replicas was changed from 3 to 7 by kubectl-edit" + remedy + space + " edit webapp shop")))

	service := read(t, app, &corev1.Service{})
	g.Expect(cluster.Client.Delete(t.Context(), service)).To(gomega.Succeed())
	g.Eventually(eventsOn(app)).WithContext(t.Context()).Should(gomega.ContainElement(gomega.ContainSubstring(": Service " + space +
		"/shop was deleted, and is created again")))

	manager.Settle(t)
	notes, err := eventsOn(app)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(notes).To(gomega.HaveEach(gomega.Not(gomega.MatchRegexp("undone: .*from 2|(ServiceAccount|Deployment) .* created again"))), "nothing else was undone")
	manager.Settle(t)
}
