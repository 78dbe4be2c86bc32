package integration

import (
	"testing"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
)

// testUnmade checks a workload that another's mandatory webhook does not let us write. It waits and
// reports that. All others are injected and reported as such.
func testUnmade(t *testing.T, s *governed, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2")
	broken := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: space},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "away.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:      admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: space}},
			MatchConditions:   []admissionregistrationv1.MatchCondition{{Name: "one", Expression: "object.metadata.name == 'web-1'"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
			}},
		}},
	}
	s.create(t, broken)
	g.Eventually(func() error {
		return s.client.Patch(t.Context(), bareDeployment(space, "web-1"), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)), client.DryRunAll)
	}).Should(gomega.MatchError(gomega.ContainSubstring("away.example.com")))
	agent := javaAgent(space, "web-*")
	s.create(t, agent)
	g.Eventually(s.with(t, space)).Should(gomega.Equal("web-2: Instrumentation/java"))
	s.finish(t, space, "web-2")
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.HaveSuffix("1/2"))
	g.Expect(agent.Status.Workloads).To(gomega.ConsistOf(gomega.And(gomega.HaveField("Name", "Deployment/web-1"),
		gomega.HaveField("State", instrv1.StatePending),
		gomega.HaveField("Reason", instrv1.WorkloadAsked))))
	g.Expect(s.client.Delete(t.Context(), broken)).To(gomega.Succeed())
	g.Eventually(s.with(t, space)).Should(gomega.Equal(both))
}
