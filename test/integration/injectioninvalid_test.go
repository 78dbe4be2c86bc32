package integration

import (
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	"github.com/mainstay-platform/mainstay/internal/install/webhooks"
)

// TestInjectionOfWhatIsInvalid checks that an invalid Instrumentation that bypassed admission
// injects nothing and overrules no other. One that becomes invalid keeps what it has injected until
// it is deleted.
func TestInjectionOfWhatIsInvalid(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	space := s.space(t, "invalid")
	unasked := agentFor(space, "aa-unasked", "*")
	unasked.Spec.Agent.Env = []corev1.EnvVar{{Name: "a=b", Value: "c"}}
	everywhere := clusterAgent("everywhere", "traced")
	everywhere.Spec.NamespaceSelector, everywhere.Spec.Matchers = nil, []instrv1.Matcher{{}}
	for _, object := range []client.Object{unasked, everywhere} {
		s.create(t, object)
	}
	s.bare(t, space, "web-1")
	s.start(t)
	s.bare(t, space, "web-2")
	g.Eventually(s.agentStatus(t, unasked)).Should(gomega.Equal("False InvalidSpec 0/0"))
	g.Eventually(s.agentStatus(t, everywhere)).Should(gomega.Equal("False InvalidSpec 0/0"))
	s.calls.Settle(t)
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty())
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal(both))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 2/2"))
	s.calls.Settle(t)

	s.stop()
	s.unasked(t)
	s.merge(t, agent, `{"spec":{"agent":{"env":[{"name":"a=b","value":"c"}]}}}`)
	s.start(t)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False InvalidSpec 0/0"))
	s.merge(t, bareDeployment(space, "web-1"), `{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
	younger := agentFor(space, "younger", "web-*")
	s.create(t, younger)
	g.Eventually(s.agentStatus(t, younger)).Should(gomega.Equal("False Overruled 0/2"))
	s.calls.Settle(t)
	g.Expect(s.with(t, space)()).To(gomega.Equal(both))
	g.Expect(s.patched(0, space)).To(gomega.BeZero())
	s.removed(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/younger, web-2: Instrumentation/younger"))
}

// unasked removes our webhooks, and waits until the API server calls none, so that anything can be
// stored. The manager recreates them.
func (s *governed) unasked(t *testing.T) {
	t.Helper()
	named := metav1.ObjectMeta{Name: webhooks.Name}
	for _, hooks := range []client.Object{
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named},
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named},
	} {
		if err := s.client.Delete(t.Context(), hooks); err != nil {
			t.Fatal(err)
		}
	}
	g := gomega.NewWithT(t)
	g.Eventually(s.validated).WithContext(t.Context()).Should(gomega.Succeed())
	g.Eventually(s.defaulted).WithContext(t.Context()).ShouldNot(gomega.HaveKey("managed-by"))
}

// TestInjectionOnceAnInvalidOneIsCorrected checks that an Instrumentation that an invalid
// ClusterInstrumentation had kept from taking precedence does so once that is corrected.
func TestInjectionOnceAnInvalidOneIsCorrected(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	s := newGoverned(t)
	s.start(t)
	space := s.space(t, "mended")
	s.annotateSpace(t, space, `{"labels":{"traced":"yes"}}`)
	s.bare(t, space, "web-1")
	everywhere := clusterAgent("everywhere", "traced")
	s.create(t, everywhere)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: ClusterInstrumentation/everywhere"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, everywhere)).Should(gomega.Equal("True Injected 1/1"))

	s.stop()
	s.unasked(t)
	s.merge(t, everywhere, `{"spec":{"agent":{"env":[{"name":"a=b","value":"c"}]}}}`)
	s.start(t)
	g.Eventually(s.agentStatus(t, everywhere)).Should(gomega.Equal("False InvalidSpec 0/0"))
	agent := javaAgent(space, "web-*")
	agent.Spec.Rollout.MaxParallel = new(int32(1))
	s.create(t, agent)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False Overruled 0/1"))
	s.calls.Settle(t)
	s.merge(t, everywhere, `{"spec":{"agent":{"env":null}}}`)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-1: Instrumentation/java"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 1/1"))
	g.Eventually(s.agentStatus(t, everywhere)).Should(gomega.Equal("False Overruled 0/1"))
}
