package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// TestInjectionCosts checks that each matching workload is written once, that nothing is read
// except through the caches, and that there are no calls at rest.
func TestInjectionCosts(t *testing.T) {
	t.Parallel()
	testenv.RequireKubernetes(t, cluster.Config, 34, "informers begin with a watch, so that a GET is one of ours,")
	const matched = 30
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	s.start(t)
	space := s.space(t, "many")
	for i := range matched {
		s.bare(t, space, fmt.Sprintf("web-%d", i), fmt.Sprintf("api-%d", i))
	}
	s.finish(t, space)
	n := s.calls.Settle(t)
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	injected := func(options string) func() (int, error) {
		return func() (int, error) {
			var list appsv1.DeploymentList
			err := s.client.List(t.Context(), &list, client.InNamespace(space))
			count := 0
			for i := range list.Items {
				record := injection.Injected(list.Items[i].Spec.Template.Annotations)
				if len(record) == 1 && strings.HasSuffix(record[0].Parts[0].Load[0].Text, options) {
					count++
				}
			}
			return count, err
		}
	}
	reach := func(about, options string) {
		g.Eventually(injected(options)).Should(gomega.Equal(matched))
		s.finish(t, space)
		s.calls.Settle(t)
		g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal(fmt.Sprintf("True Injected %d/%d", matched, matched)))
		n = checkCosts(t, s, about, n, costs{space, matched, 1})
	}
	reach("a new Instrumentation", "agent.jar")
	s.merge(t, agent, `{"spec":{"agent":{"options":"debug"}}}`)
	reach("a changed agent", "=debug")

	s.bare(t, space, "web-new")
	s.merge(t, bareDeployment(space, "web-new"), `{"spec":{"replicas":0,"template":{"metadata":{"labels":{"version":"2"}}}}}`)
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal(fmt.Sprintf("True Injected %d/%d", matched+1, matched+1)))
	s.calls.Settle(t)
	n = checkCosts(t, s, "writes of owners", n, costs{space, 0, 0})
	s.merge(t, agent, `{"spec":{"agent":{"imagePullPolicy":"IfNotPresent"}}}`)
	s.calls.Settle(t)
	g.Expect(testenv.In(space, s.calls.Since(n))).To(gomega.BeEmpty(), "at rest")

	s.removed(t, agent)
	g.Expect(injected("")()).To(gomega.BeZero())
	s.calls.Settle(t)
	checkCosts(t, s, "a deletion", n, costs{space, matched + 1, 1})
}

// costs are the writes in a namespace: patches of Deployments, and at most so many of the
// Instrumentation's finalizers.
type costs struct {
	space               string
	patches, finalizers int
}

// checkCosts expects these costs since call n, and no reads anywhere except of pods that are being
// replaced, and of definitions: the publisher of the webhooks may still read those, seconds after
// its start. It returns the number of calls.
func checkCosts(t *testing.T, s *governed, about string, n int, want costs) int {
	t.Helper()
	now := s.calls.Count()
	counts := map[string]int{}
	for _, call := range testenv.In(want.space, s.calls.Done(n)) {
		switch verb, path, _ := strings.Cut(call, " "); {
		case strings.Contains(path, "/deployments/"):
			counts[verb+" deployment"]++
		case strings.HasSuffix(path, "/instrumentations/java"):
			counts[verb+" instrumentation"]++
		case strings.HasSuffix(path, "/status"):
			counts["status"]++
		default:
			counts[call]++
		}
	}
	t.Logf("%s: %v", about, counts)
	if counts["PATCH deployment"] != want.patches {
		t.Errorf("%s: %d patches of Deployments, not %d", about, counts["PATCH deployment"], want.patches)
	}
	if counts["PATCH instrumentation"] > want.finalizers {
		t.Errorf("%s: the Instrumentation is written %d times", about, counts["PATCH instrumentation"])
	}
	for _, call := range s.calls.Done(n, "GET ") {
		if !strings.HasSuffix(call, "/pods") && !strings.Contains(call, "/customresourcedefinitions/") {
			t.Errorf("%s: %s", about, call)
		}
	}
	return now
}
