package integration

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mspolicyv1 "github.com/mainstay-platform/mainstay/api/policy/v1"
)

// plainPod returns the spec of a pod with limits.
func plainPod(image string) corev1.PodSpec {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image, Resources: corev1.ResourceRequirements{Limits: limits}}}}
}

func plainDeployment(namespace, name, image string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: plainPod(image)},
	}}
}

// warnings collects warnings of the API server.
type warnings struct {
	mutex sync.Mutex
	texts []string
}

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.texts = append(w.texts, text)
}

// otherUser returns a client of a user who is not the manager, with its warnings.
func otherUser(t *testing.T) (client.Client, *warnings) {
	t.Helper()
	return otherUserOf(t, cluster.Config)
}

// otherUserOf is otherUser for the API server of a config.
func otherUserOf(t *testing.T, config *rest.Config) (client.Client, *warnings) {
	t.Helper()
	seen := &warnings{}
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"system:masters"}}
	config.WarningHandler = seen
	return clientOf(t, config), seen
}

func setWorkloads(t *testing.T, policy *mspolicyv1.PlatformPolicy, mode mspolicyv1.WorkloadsMode) {
	t.Helper()
	change(t, policy, func(p *mspolicyv1.PlatformPolicy) { p.Spec.Workloads = mode })
}

// refusal returns the message of a refused write; empty if the write succeeds.
func refusal(write func(context.Context) error) func(context.Context) string {
	return func(ctx context.Context) string {
		if err := write(ctx); err != nil {
			_, text, _ := strings.Cut(err.Error(), "denied request: ")
			return text
		}
		return ""
	}
}

// awaitViolator waits until the status of a policy names a workload that runs already.
func awaitViolator(t *testing.T, policy *mspolicyv1.PlatformPolicy, violator mspolicyv1.Violator) {
	t.Helper()
	gomega.NewWithT(t).Eventually(func(ctx context.Context) ([]mspolicyv1.Violator, error) {
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		return policy.Status.Violating, err
	}).WithContext(t.Context()).Should(gomega.ContainElement(violator))
}

// TestPolicyOfPlainWorkloads: the API server itself applies a policy to workloads that are not
// Mainstay's, as the policy's mode says.
func TestPolicyOfPlainWorkloads(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	shop, free := staging(t), namespace(t)
	alice, seen := otherUser(t)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3), AllowedRegistries: []string{"reg.example.com"},
		RequireResourceLimits: true})
	name := client.ObjectKey{Name: "mainstay-" + policy.Name}
	rule := func(field string) string { return `(policy "` + policy.Name + `", rule "staging.` + field + `")` }
	old := plainDeployment(shop, "old", "docker.io/library/nginx", 5)
	g.Expect(alice.Create(t.Context(), old)).To(gomega.Succeed(), "Off refuses nothing")
	g.Expect(apierrors.IsNotFound(alice.Get(t.Context(), name, &admissionregistrationv1.ValidatingAdmissionPolicy{}))).To(gomega.BeTrue())

	setWorkloads(t, policy, mspolicyv1.WorkloadsWarn)
	g.Eventually(func(ctx context.Context) ([]string, error) {
		err := alice.Create(ctx, plainDeployment(shop, "new", "nginx", 1), client.DryRunAll)
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		return seen.texts, err
	}).WithContext(t.Context()).Should(gomega.ContainElement(gomega.HaveSuffix(
		`spec.template.spec.containers[app].image: Invalid value: "nginx": must be an image of reg.example.com ` + rule("allowedRegistries"))))

	awaitViolator(t, policy, mspolicyv1.Violator{Kind: "Deployment", Namespace: shop, Name: "old",
		Message: "spec.replicas: Invalid value: 5: must be at most 3 " + rule("maxReplicas") +
			`; spec.template.spec.containers[app].image: Invalid value: "docker.io/library/nginx": must be an image of reg.example.com ` +
			`(rule "staging.allowedRegistries")`})
	setWorkloads(t, policy, mspolicyv1.WorkloadsEnforce)
	g.Eventually(refusal(func(ctx context.Context) error {
		return alice.Create(ctx, plainDeployment(shop, "new", "nginx", 1), client.DryRunAll)
	})).WithContext(t.Context()).Should(gomega.Equal(
		`spec.template.spec.containers[app].image: Invalid value: "nginx": must be an image of reg.example.com ` + rule("allowedRegistries")))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "bare"}, Spec: plainPod("reg.example.com/a")}
	g.Expect(alice.Create(t.Context(), pod.DeepCopy(), client.DryRunAll)).To(gomega.Succeed())
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
	g.Expect(refusal(func(ctx context.Context) error { return alice.Create(ctx, pod) })(t.Context())).To(gomega.Equal(
		`spec.containers[app].resources.limits[cpu]: Required value: must be more than 0 ` + rule("requireResourceLimits") +
			`: add limits: {cpu: 500m}; spec.containers[app].resources.limits[memory]: Required value: must be more than 0 (rule "staging.requireResourceLimits"): add limits: {memory: 256Mi}`))
	// Users can write the label, so it exempts nothing.
	pod.Labels = map[string]string{"app.kubernetes.io/managed-by": "mainstay"}
	g.Expect(alice.Create(t.Context(), pod)).NotTo(gomega.Succeed())

	scale := func(to int32) string {
		return refusal(func(ctx context.Context) error {
			return alice.SubResource("scale").Update(ctx, old.DeepCopy(), client.WithSubResourceBody(&autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "old"}, Spec: autoscalingv1.ScaleSpec{Replicas: to}}))
		})(t.Context())
	}
	g.Expect(scale(6)).To(gomega.Equal("spec.replicas: Invalid value: 6: must be at most 3 " + rule("maxReplicas")))
	g.Expect(scale(4)).To(gomega.BeEmpty(), "scaling down passes, even if the number is still too large")
	labelled := old.DeepCopy()
	labelled.Labels = map[string]string{"a": "b"}
	g.Expect(alice.Patch(t.Context(), labelled, client.MergeFrom(old))).To(gomega.Succeed(), "metadata alone is not worse")
	other := plainDeployment(free, "free", "nginx", 9)
	g.Expect(alice.Create(t.Context(), other)).To(gomega.Succeed(), "a namespace without an environment is not governed")

	setWorkloads(t, policy, mspolicyv1.WorkloadsOff)
	g.Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(alice.Get(ctx, name, &admissionregistrationv1.ValidatingAdmissionPolicy{})) &&
			apierrors.IsNotFound(alice.Get(ctx, name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
	}).WithContext(t.Context()).Should(gomega.BeTrue())
}

// TestEnforcementOfPlainWorkloads: each rule has its own enforcement in its own namespaces, within
// what the mode allows.
func TestEnforcementOfPlainWorkloads(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	warned, selected := staging(t), staging(t)
	change(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: selected}}, func(n *corev1.Namespace) { n.Labels["team"] = selected })
	alice, seen := otherUser(t)
	lenient := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](1), Enforcement: mspolicyv1.EnforcementWarn})
	strict := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3),
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": selected}}})
	setWorkloads(t, lenient, mspolicyv1.WorkloadsEnforce)
	setWorkloads(t, strict, mspolicyv1.WorkloadsEnforce)
	create := func(namespace string) func(context.Context) string {
		return refusal(func(ctx context.Context) error {
			return alice.Create(ctx, plainDeployment(namespace, "web", "nginx", 4), client.DryRunAll)
		})
	}
	g.Eventually(create(selected)).WithContext(t.Context()).Should(gomega.Equal(
		`spec.replicas: Invalid value: 4: must be at most 3 (policy "` + strict.Name + `", rule "staging.maxReplicas")`))
	g.Eventually(func(ctx context.Context) []string {
		g.Expect(create(warned)(ctx)).To(gomega.BeEmpty())
		seen.mutex.Lock()
		defer seen.mutex.Unlock()
		return seen.texts
	}).WithContext(t.Context()).Should(gomega.ContainElement(gomega.HaveSuffix(
		`spec.replicas: Invalid value: 4: must be at most 1 (policy "` + lenient.Name + `", rule "staging.maxReplicas")`)))
	change(t, strict, func(p *mspolicyv1.PlatformPolicy) {
		p.Spec.Exemptions = []mspolicyv1.Exemption{{Kind: "Deployment", Namespace: selected, Name: "web", Reason: "a test",
			Until: metav1.NewTime(time.Now().Add(time.Hour))}}
	})
	g.Eventually(create(selected)).WithContext(t.Context()).Should(gomega.BeEmpty(), "it is exempt, by its name at creation")
	// The children for the enforcement are pruned when no rule has it any more.
	name := client.ObjectKey{Name: "mainstay.warn." + lenient.Name}
	g.Expect(alice.Get(t.Context(), name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{})).To(gomega.Succeed())
	setWorkloads(t, lenient, mspolicyv1.WorkloadsWarn)
	g.Eventually(func(ctx context.Context) bool {
		return apierrors.IsNotFound(alice.Get(ctx, name, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}))
	}).WithContext(t.Context()).Should(gomega.BeTrue())
}
