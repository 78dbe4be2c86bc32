package integration

import (
	"context"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// These tests have no webhooks: everything bypasses admission.

// stagingPolicy creates a policy for namespaces of staging only, so that it does not affect other
// tests.
func stagingPolicy(t *testing.T, rule mspolicyv1.Rule) *mspolicyv1.PlatformPolicy {
	t.Helper()
	rule.Environment = "staging"
	policy := &mspolicyv1.PlatformPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		Spec:       mspolicyv1.PlatformPolicySpec{Rules: []mspolicyv1.Rule{rule}},
	}
	create(t, policy)
	t.Cleanup(func() {
		if err := cluster.Client.Delete(context.WithoutCancel(t.Context()), policy); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return policy
}

// inForce waits until a manager has read a policy. An object that it reads before the policy is not
// governed, and what runs then is tolerated for ever.
func inForce(t *testing.T, policy *mspolicyv1.PlatformPolicy) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(g gomega.Gomega) {
		g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(policy), policy)).To(gomega.Succeed())
		g.Expect(policy.Status.ObservedGeneration).To(gomega.Equal(policy.Generation))
	}).Should(gomega.Succeed())
}

// staging creates a namespace of that environment. It has the label from the beginning: a manager
// may read an earlier version late.
func staging(t *testing.T) string {
	t.Helper()
	labels := map[string]string{api.LabelEnvironment: "staging"}
	created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-", Labels: labels}}
	create(t, created)
	return created.Name
}

func label(t *testing.T, namespace, environment string) {
	t.Helper()
	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, func(n *corev1.Namespace) {
		n.Labels[api.LabelEnvironment] = environment
	})
}

// violation returns reason and message of the app's condition PolicyViolation, empty without one.
func violation(app *msappsv1.WebApp) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var seen msappsv1.WebApp
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(app), &seen); err != nil {
			return "", err
		}
		if seen.Status.ObservedGeneration != seen.Generation {
			return "stale", nil
		}
		for _, condition := range seen.Status.Conditions {
			if condition.Type == api.ConditionPolicyViolation {
				return condition.Reason + ": " + condition.Message, nil
			}
		}
		return "", nil
	}
}

// deployed returns the number of replicas and the image of the app's Deployment.
func deployed(t *testing.T, app *msappsv1.WebApp) (int32, string) {
	t.Helper()
	deployment, err := get(app, &appsv1.Deployment{})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Image
}

func TestPolicyStopsACreation(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3), AllowedRegistries: []string{"docker.io/mainstay"}})
	inForce(t, policy)
	app := newApp(staging(t), func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](5) })
	create(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False PolicyViolation"))
	g.Expect(violation(app)(t.Context())).To(gomega.Equal(
		`PolicyViolation: spec.replicas: Invalid value: 5: must be at most 3 (policy "` + policy.Name + `", rule "staging.maxReplicas")`))
	for _, object := range []client.Object{&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}} {
		err := cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(app), object)
		g.Expect(apierrors.IsNotFound(err)).To(gomega.BeTrue(), "no child is created: %T", object)
	}

	change(t, app, func(a *msappsv1.WebApp) { a.Spec.Replicas = ptr.To[int32](3) })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	g.Expect(violation(app)(t.Context())).To(gomega.BeEmpty())

	// The policy does not govern another namespace.
	other := newApp(namespace(t), func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](5) })
	create(t, other)
	g.Eventually(ready(other)).WithContext(t.Context()).Should(gomega.Equal("False Deploying"))
	label(t, other.Namespace, "staging")
	g.Eventually(violation(other)).WithContext(t.Context()).Should(gomega.HavePrefix("Tolerated"),
		"a running app continues when the environment of its namespace changes")
}

func TestPolicyMadeStricterUnderARunningApp(t *testing.T) {
	g := gomega.NewWithT(t)
	manager := startManager(t, everywhere)
	app := newApp(staging(t), func(s *msappsv1.WebAppSpec) {
		s.Replicas = ptr.To[int32](5)
		s.SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)} // the message has no room for one violation more
	})
	create(t, app)
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))

	before := manager.Requests.Count()
	policy := stagingPolicy(t, mspolicyv1.Rule{
		MaxReplicas: ptr.To[int32](3), RequireResourceLimits: true, AllowedRegistries: []string{"registry.example.com"},
		Enforced: mspolicyv1.Enforced{SecurityProfile: "Restricted",
			SecurityContext: &mspolicyv1.SecurityContext{RunAsUser: ptr.To[int64](1000)}},
		Defaults: mspolicyv1.Defaults{Labels: map[string]string{"team": "shop"}},
	})
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.And(
		gomega.HavePrefix("Tolerated: "),
		gomega.ContainSubstring("spec.replicas: Invalid value: 5: must be at most 3"),
		gomega.ContainSubstring(`spec.image: Invalid value: "mainstay/demo-web:1.0": must be an image of registry.example.com`),
		gomega.ContainSubstring("spec.resources.limits[cpu]: Required value: "),
		gomega.ContainSubstring("enforced.securityProfile"),
		gomega.ContainSubstring(`spec.securityContext.runAsUser: Invalid value: "the image's user": must be 1000`),
	))
	g.Expect(ready(app)(t.Context())).To(gomega.Equal("True Available"), "a running app continues")
	g.Expect(manager.Requests.Since(before, "PATCH /apis/apps/v1/namespaces/"+app.Namespace+"/deployments")).To(gomega.BeEmpty())

	// A change that is worse in one respect is not applied at all.
	change(t, app, func(a *msappsv1.WebApp) { a.Spec.Replicas, a.Spec.Port = ptr.To[int32](6), 9090 })
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("False PolicyViolation"))
	count, _ := deployed(t, app)
	g.Expect(count).To(gomega.BeNumerically("==", 5))
	change(t, app, func(a *msappsv1.WebApp) { a.Spec.Replicas, a.Spec.Image = ptr.To[int32](5), "mainstay/demo-web:2.0" })
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.ContainSubstring(`demo-web:2.0": must be an image of `))
	_, image := deployed(t, app)
	g.Expect(image).To(gomega.Equal("mainstay/demo-web:1.0"), "another image of the same refused registry is a new violation")

	// A change that is better but still violates the policy is applied.
	change(t, app, func(a *msappsv1.WebApp) { a.Spec.Replicas, a.Spec.Image = ptr.To[int32](4), "mainstay/demo-web:1.0" })
	g.Eventually(func() int32 { count, _ := deployed(t, app); return count }).Should(gomega.BeNumerically("==", 4))
	makeAvailable(t, app)
	g.Eventually(ready(app)).WithContext(t.Context()).Should(gomega.Equal("True Available"))
	g.Expect(violation(app)(t.Context())).To(gomega.HavePrefix("Tolerated"))

	g.Expect(cluster.Client.Delete(t.Context(), policy)).To(gomega.Succeed())
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.BeEmpty())
}

func TestPolicyWithAnAutoscaler(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3)})
	app := newApp(staging(t), func(s *msappsv1.WebAppSpec) {
		s.Replicas, s.Autoscaling = nil, &msappsv1.Autoscaling{Max: 4}
		s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	})
	create(t, app)
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.ContainSubstring("spec.autoscaling.max: Invalid value: 4: must be at most 3"))
	change(t, app, func(a *msappsv1.WebApp) { a.Spec.Autoscaling.Max = 3 })
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.BeEmpty())
}

func TestPolicyStatus(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	good, bad := newApp(staging(t)), newApp(staging(t), func(s *msappsv1.WebAppSpec) { s.Replicas = ptr.To[int32](5) })
	create(t, good, bad)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3)})
	seen := func(ctx context.Context) (mspolicyv1.PlatformPolicyStatus, error) {
		var stored mspolicyv1.PlatformPolicy
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(policy), &stored)
		return stored.Status, err
	}
	g.Eventually(func(g gomega.Gomega, ctx context.Context) {
		status, err := seen(ctx)
		g.Expect(err).NotTo(gomega.HaveOccurred())
		g.Expect(status.Environments).To(gomega.Equal("staging"))
		// Namespaces of other tests remain, because there is no garbage collector.
		g.Expect(status.Violating).To(gomega.ContainElement(mspolicyv1.Violator{
			Kind: "WebApp", Namespace: bad.Namespace, Name: "shop",
			Message: `spec.replicas: Invalid value: 5: must be at most 3 (policy "` + policy.Name + `", rule "staging.maxReplicas")`,
		}))
		g.Expect(status.Violating).NotTo(gomega.ContainElement(gomega.HaveField("Namespace", good.Namespace)))
		g.Expect(status.Namespaces).To(gomega.BeNumerically(">=", 2))
		g.Expect(status.Objects).To(gomega.BeNumerically(">=", 2))
		g.Expect(int(status.Violations)).To(gomega.BeNumerically(">=", len(status.Violating)))
		g.Expect(status.Conditions).To(gomega.ConsistOf(gomega.HaveField("Reason", mspolicyv1.ReasonInForce)))
		g.Expect(status.Phase).To(gomega.Equal(api.PhaseActive))
	}).WithContext(t.Context()).Should(gomega.Succeed())
	change(t, bad, func(a *msappsv1.WebApp) { a.Spec.Replicas = ptr.To[int32](1) })
	g.Eventually(func(ctx context.Context) ([]mspolicyv1.Violator, error) {
		status, err := seen(ctx)
		return status.Violating, err
	}).WithContext(t.Context()).ShouldNot(gomega.ContainElement(gomega.HaveField("Namespace", bad.Namespace)))

	change(t, policy, func(p *mspolicyv1.PlatformPolicy) { p.Spec.Rules[0].AllowedRegistries = []string{"nginx"} })
	g.Eventually(func(ctx context.Context) ([]metav1.Condition, error) {
		status, err := seen(ctx)
		return status.Conditions, err
	}).WithContext(t.Context()).Should(gomega.ContainElement(gomega.And(
		gomega.HaveField("Type", "Stalled"), gomega.HaveField("Message", gomega.ContainSubstring("spec.rules[0].allowedRegistries[0]")))))
}

// TestExemptionEnds: an exempt application is carried out. When the exemption ends, the policy's
// status says so, and the application keeps running, as one that was there before the rule.
func TestExemptionEnds(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	ns := staging(t)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](1)})
	until := func(end time.Time) {
		change(t, policy, func(p *mspolicyv1.PlatformPolicy) {
			p.Spec.Exemptions = []mspolicyv1.Exemption{{Kind: "WebApp", Namespace: ns, Name: "shop", Reason: "a test",
				Until: metav1.NewTime(end.Truncate(time.Second)), Rules: []mspolicyv1.RuleName{mspolicyv1.RuleMaxReplicas}}}
		})
	}
	until(time.Now().Add(time.Hour))
	inForce(t, policy)
	app := &msappsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"},
		Spec: msappsv1.WebAppSpec{Image: "shop:1", Replicas: ptr.To[int32](2)}}
	create(t, app)
	g.Eventually(get(app, &appsv1.Deployment{})).WithContext(t.Context()).ShouldNot(gomega.BeNil())
	until(time.Now().Add(4 * time.Second)) // nobody touches the policy when it ends
	g.Eventually(func(ctx context.Context) (mspolicyv1.ExemptionState, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		if err != nil || len(policy.Status.Exemptions) == 0 {
			return "", err
		}
		return policy.Status.Exemptions[0].State, nil
	}).WithContext(t.Context()).Should(gomega.Equal(mspolicyv1.ExemptionExpired))
	g.Eventually(violation(app)).WithContext(t.Context()).Should(gomega.HavePrefix("Tolerated: spec.replicas: Invalid value: 2: "))
}
