package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// instrumentationOfExempt checks that agents follow the exemptions of their workload and the
// enforcement of a rule, by the controllers and within a write.
func instrumentationOfExempt(t *testing.T, s *governed) {
	t.Helper()
	g := gomega.NewWithT(t)
	const namespace = "exempt"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{api.LabelEnvironment: "dev"}}})
	rules := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "exempting"}, Spec: mspolicyv1.PlatformPolicySpec{
		Rules: []mspolicyv1.Rule{{Environment: "dev", AllowedRegistries: []string{"reg.io"}, RequireResourceLimits: true}},
		Exemptions: []mspolicyv1.Exemption{{Kind: "Deployment", Namespace: namespace, Name: "web-1", Reason: "a test",
			Until: metav1.NewTime(time.Now().Add(time.Hour)),
			Rules: []mspolicyv1.RuleName{mspolicyv1.RuleAllowedRegistries, mspolicyv1.RuleRequireResourceLimits}}}}}
	s.create(t, rules)
	s.awaitRegistries(t, rules, namespace)
	for _, name := range []string{"web-1", "web-2"} {
		s.create(t, bareDeployment(namespace, name))
	}
	agent := javaAgent(namespace, "web-*")
	agent.Spec.Agent.Resources = &corev1.ResourceRequirements{}
	s.create(t, agent)
	isInjected := func(ctx context.Context) (map[string]bool, error) {
		var found appsv1.DeploymentList
		err := s.client.List(ctx, &found, client.InNamespace(namespace))
		injected := map[string]bool{}
		for _, one := range found.Items {
			injected[one.Name] = one.Spec.Template.Annotations[instrv1.AnnotationInjected] != ""
		}
		return injected, err
	}
	g.Eventually(isInjected).WithContext(t.Context()).Should(gomega.Equal(map[string]bool{"web-1": true, "web-2": false}))
	g.Eventually(func(ctx context.Context) (string, error) {
		err := s.client.Get(ctx, client.ObjectKeyFromObject(agent), agent)
		for _, condition := range agent.Status.Conditions {
			if condition.Type == api.ConditionPolicyViolation {
				return condition.Message, err
			}
		}
		return "", err
	}).WithContext(t.Context()).Should(gomega.And(gomega.HavePrefix(`Deployment/web-2: spec.agent.image: Invalid value: "registry.example/agent:1"`),
		gomega.ContainSubstring(`spec.agent.resources.limits[memory]: Required value`)), "only the one that is not exempt")

	change := func(edit func(*mspolicyv1.PlatformPolicy)) {
		before := rules.DeepCopy()
		edit(rules)
		g.Expect(s.client.Patch(t.Context(), rules, client.MergeFrom(before))).To(gomega.Succeed())
	}
	change(func(p *mspolicyv1.PlatformPolicy) { p.Spec.Exemptions[0].Name = "web-2" })
	g.Eventually(isInjected).WithContext(t.Context()).Should(gomega.Equal(map[string]bool{"web-1": true, "web-2": true}),
		"what is injected stays when its exemption is gone")
	refused := bareDeployment(namespace, "web-3")
	s.create(t, refused)
	g.Expect(refused.Spec.Template.Annotations).NotTo(gomega.HaveKey(instrv1.AnnotationInjected))

	change(func(p *mspolicyv1.PlatformPolicy) { p.Spec.Rules[0].Enforcement = mspolicyv1.EnforcementWarn })
	g.Eventually(isInjected).WithContext(t.Context()).Should(gomega.HaveKeyWithValue("web-3", true), "a rule that warns keeps no agent out")
	g.Expect(s.client.Delete(t.Context(), agent)).To(gomega.Succeed())
	g.Eventually(isInjected).WithContext(t.Context()).Should(gomega.Equal(map[string]bool{"web-1": false, "web-2": false, "web-3": false}))
	g.Expect(s.client.Delete(t.Context(), rules)).To(gomega.Succeed())
}
