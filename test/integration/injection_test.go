package integration

import (
	"testing"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// javaAgent returns an Instrumentation for Deployments with names of this pattern.
func javaAgent(namespace, pattern string) *instrv1.Instrumentation {
	return &instrv1.Instrumentation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "java"},
		Spec: instrv1.InstrumentationSpec{
			Matchers: []instrv1.Matcher{{Deployment: pattern, Env: []corev1.EnvVar{{Name: "TEAM", Value: "shop"}}}},
			Agent:    instrv1.Agent{Image: "registry.example/agent:1", Language: instrv1.LanguageJava},
		},
	}
}

// bareDeployment returns a Deployment without an agent.
func bareDeployment(namespace, name string, env ...corev1.EnvVar) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1", Env: env},
					{Name: "istio-proxy", Image: "proxy:1"}}},
			},
		},
	}
}

// TestInstrumentation checks what users see of an Instrumentation from its creation to its
// deletion.
func TestInstrumentation(t *testing.T) {
	t.Parallel()
	s := newGoverned(t)
	s.start(t)
	for name, test := range map[string]func(*testing.T, *governed, string){
		"life": instrumentationLives, "webapp": instrumentationOfAWebApp, "reports": instrumentationReports,
	} {
		t.Run(name, func(t *testing.T) {
			s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
			test(t, s, name)
		})
	}
	t.Run("governed", func(t *testing.T) { instrumentationIsGoverned(t, s) })
	t.Run("exempt", func(t *testing.T) { instrumentationOfExempt(t, s) })
	t.Run("bad input", func(t *testing.T) { badInstrumentations(t, s) })
	t.Run("follows", func(t *testing.T) { injectionFollows(t, s) })
}

// instrumentationLives checks that existing and new workloads are injected, that changes reach all
// of them, and that the deletion restores them.
func instrumentationLives(t *testing.T, s *governed, namespace string) {
	t.Helper()
	g := gomega.NewWithT(t)
	earlier := bareDeployment(namespace, "web-1", corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx1g"})
	s.create(t, earlier)
	first := earlier.Spec.Template.DeepCopy()
	agent := javaAgent(namespace, "web-*")
	s.create(t, agent)
	read := func() corev1.PodTemplateSpec {
		var found appsv1.Deployment
		g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(earlier), &found)).To(gomega.Succeed())
		return found.Spec.Template
	}
	value := func() string {
		for _, variable := range read().Spec.Containers[0].Env {
			if variable.Name == "JAVA_TOOL_OPTIONS" {
				return variable.Value
			}
		}
		return ""
	}
	g.Eventually(value).Should(gomega.Equal("-Xmx1g -javaagent:/mainstay/agent/agent.jar"))
	later := bareDeployment(namespace, "web-2")
	s.create(t, later)
	g.Expect(later.Spec.Template.Annotations).To(gomega.HaveKey(instrv1.AnnotationInjected), "the webhook injects it within the request")
	g.Expect(later.Spec.Template.Spec.Containers[1].Env).To(gomega.BeEmpty())

	g.Expect(s.client.Get(t.Context(), client.ObjectKeyFromObject(agent), agent)).To(gomega.Succeed())
	before := agent.DeepCopy()
	agent.Spec.Agent.Options = "debug"
	g.Expect(s.client.Patch(t.Context(), agent, client.MergeFrom(before))).To(gomega.Succeed())
	g.Eventually(value).Should(gomega.Equal("-Xmx1g -javaagent:/mainstay/agent/agent.jar=debug"))

	g.Expect(s.client.Delete(t.Context(), agent)).To(gomega.Succeed())
	g.Eventually(func() bool {
		return apierrors.IsNotFound(s.client.Get(t.Context(), client.ObjectKeyFromObject(agent), agent))
	}).Should(gomega.BeTrue())
	last := read()
	g.Expect(equality.Semantic.DeepEqual(first, &last)).To(gomega.BeTrue(), "%v", last)
}

// instrumentationOfAWebApp checks that the Deployment of a WebApp is injected as any other, and
// that the WebApp controller does not revert that.
func instrumentationOfAWebApp(t *testing.T, s *governed, namespace string) {
	t.Helper()
	g := gomega.NewWithT(t)
	app := s.app(namespace)
	s.create(t, app)
	key := client.ObjectKeyFromObject(app)
	read := func(g gomega.Gomega) *appsv1.Deployment {
		var found appsv1.Deployment
		g.Expect(s.client.Get(t.Context(), key, &found)).To(gomega.Succeed())
		return &found
	}
	g.Eventually(func(g gomega.Gomega) { read(g) }).Should(gomega.Succeed())
	first := read(g)
	agent := javaAgent(namespace, app.Name)
	s.create(t, agent)
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(read(g).Spec.Template.Annotations).To(gomega.HaveKey(instrv1.AnnotationInjected))
	}).Should(gomega.Succeed())
	injected := read(g)

	// A change of the WebApp is combined with what is injected, and no controller reverts the other.
	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) {
		a.Spec.Env = []corev1.EnvVar{{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx1g"}}
	})).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		env := read(g).Spec.Template.Spec.Containers[0].Env
		g.Expect(env).To(gomega.ContainElement(corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", Value: "-Xmx1g -javaagent:/mainstay/agent/agent.jar"}))
	}).Should(gomega.Succeed())
	settled := read(g).ResourceVersion
	g.Expect(injected.Generation).To(gomega.BeNumerically(">", first.Generation))
	g.Consistently(func(g gomega.Gomega) { g.Expect(read(g).ResourceVersion).To(gomega.Equal(settled)) }, "3s").Should(gomega.Succeed())

	g.Expect(s.update(t.Context(), app, func(a *msappsv1.WebApp) { a.Spec.Env = nil })).To(gomega.Succeed())
	g.Expect(s.client.Delete(t.Context(), agent)).To(gomega.Succeed())
	g.Eventually(func(g gomega.Gomega) {
		g.Expect(read(g).Spec.Template).To(gomega.Equal(first.Spec.Template))
	}).Should(gomega.Succeed())
}

// awaitRegistries waits until the manager knows a policy that allows none of the images of our
// apps. What runs when it learns of the policy is tolerated.
func (s *governed) awaitRegistries(t *testing.T, policy *mspolicyv1.PlatformPolicy, namespace string) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func() error {
		return s.client.Create(t.Context(), s.app(namespace), client.DryRunAll)
	}).Should(gomega.MatchError(gomega.ContainSubstring("(policy %q, rule ", policy.Name)))
}

// instrumentationIsGoverned checks that an agent from a registry that the namespace's policies
// refuse is not injected, by the controllers or within a write, and is removed from nowhere.
func instrumentationIsGoverned(t *testing.T, s *governed) {
	t.Helper()
	g := gomega.NewWithT(t)
	const namespace = "governed"
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"mainstay.dev/environment": "staging"}}})
	registries := &mspolicyv1.PlatformPolicy{ObjectMeta: metav1.ObjectMeta{Name: "agents"},
		Spec: mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{{Environment: "staging", AllowedRegistries: []string{"reg.io"}}}}}
	s.create(t, registries)
	s.awaitRegistries(t, registries, namespace)
	earlier, agent := bareDeployment(namespace, "web-1"), javaAgent(namespace, "web-*")
	s.create(t, earlier)
	s.create(t, agent)
	violation := func() (string, error) {
		var seen instrv1.Instrumentation
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(agent), &seen)
		for _, condition := range seen.Status.Conditions {
			if condition.Type == api.ConditionPolicyViolation && condition.ObservedGeneration == seen.Generation {
				return condition.Reason + ": " + condition.Message, err
			}
		}
		return "", err
	}
	isInjected := func() (bool, error) {
		var found appsv1.Deployment
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(earlier), &found)
		return found.Spec.Template.Annotations[instrv1.AnnotationInjected] != "", err
	}
	const refused = `Deployment/web-1: spec.agent.image: Invalid value: "registry.example/agent:1": must be an image of reg.io ` +
		`(policy "agents", rule "staging.allowedRegistries")`
	g.Eventually(violation).Should(gomega.Equal("PolicyViolation: " + refused))
	g.Expect(isInjected()).To(gomega.BeFalse())
	later := bareDeployment(namespace, "web-2")
	s.create(t, later)
	g.Expect(later.Spec.Template.Annotations).NotTo(gomega.HaveKey(instrv1.AnnotationInjected))
	g.Expect(s.client.Delete(t.Context(), later)).To(gomega.Succeed())

	allow := func(registries *mspolicyv1.PlatformPolicy, registry string) {
		before := registries.DeepCopy()
		registries.Spec.Rules[0].AllowedRegistries = []string{registry}
		g.Expect(s.client.Patch(t.Context(), registries, client.MergeFrom(before))).To(gomega.Succeed())
	}
	allow(registries, "registry.example")
	g.Eventually(isInjected).Should(gomega.BeTrue(), "the change of a policy is enough")
	g.Eventually(violation).Should(gomega.BeEmpty())
	allow(registries, "reg.io")
	g.Eventually(violation).Should(gomega.Equal("Tolerated: " + refused + ": tolerated, because it already runs"))
	g.Expect(isInjected()).To(gomega.BeTrue())
}

// instrumentationReports checks that events of the workload report what was injected or why not.
func instrumentationReports(t *testing.T, s *governed, namespace string) {
	t.Helper()
	g := gomega.NewWithT(t)
	s.create(t, bareDeployment(namespace, "good"))
	optional := corev1.EnvVar{Name: "JAVA_TOOL_OPTIONS", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "options"}, Key: "java", Optional: new(true),
	}}}
	s.create(t, bareDeployment(namespace, "bad", optional))
	s.create(t, javaAgent(namespace, "*"))
	reasons := func(name string) func() []string {
		return func() (reasons []string) {
			var all eventsv1.EventList
			g.Expect(s.client.List(t.Context(), &all, client.InNamespace(namespace))).To(gomega.Succeed())
			for _, event := range all.Items {
				if event.Regarding.Name == name {
					reasons = append(reasons, event.Reason)
				}
			}
			return reasons
		}
	}
	g.Eventually(reasons("good")).Should(gomega.Equal([]string{"AgentInjected"}))
	g.Eventually(reasons("bad")).Should(gomega.Equal([]string{instrv1.WorkloadVariableUnknown}))
	s.warnings()
	later := bareDeployment(namespace, "later", optional)
	s.create(t, later)
	g.Expect(s.warnings()).To(gomega.ContainElement(gomega.ContainSubstring("Instrumentation/java is not injected: container app takes JAVA_TOOL_OPTIONS from an optional key")))
}
