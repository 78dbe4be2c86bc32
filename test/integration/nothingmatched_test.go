package integration

import (
	"testing"

	"github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/reconciler"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestNothingMatched: what matches nothing is not Ready and names what there is, also what is
// created and deleted later.
func TestNothingMatched(t *testing.T) {
	g, space, _ := managed(t)
	create(t, newFlags(space, map[string]string{"color": "blue"}))
	monitor, agent := newMonitor(space, func(spec *configv1.ConfigMonitorSpec) { spec.PodSelector = map[string]string{"app": "fronnt"} }),
		javaAgent(space, "fronnt")
	create(t, monitor, agent)
	says := func(object reconciler.Object) func() (string, error) {
		return func() (string, error) {
			err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object)
			ready := meta.FindStatusCondition(object.GetConditions(), "Ready")
			if err != nil || ready == nil {
				return "", err
			}
			return string(ready.Status) + " " + ready.Reason + " " + ready.Message, nil
		}
	}
	both := func(matches gomega.OmegaMatcher) {
		t.Helper()
		for _, object := range []reconciler.Object{monitor, agent} {
			g.Eventually(says(object)).Should(gomega.And(gomega.HavePrefix("False NothingMatched "), matches))
		}
	}
	both(gomega.Not(gomega.ContainSubstring("Deployment/")))
	front := testenv.Deployment(space, "front")
	create(t, front)
	both(gomega.ContainSubstring(" Deployment/front"))
	g.Expect(cluster.Client.Delete(t.Context(), front)).To(gomega.Succeed())
	both(gomega.Not(gomega.ContainSubstring("Deployment/front")))
}
