package integration

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
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

// refusal returns the message of a refused write, or of another error; empty if the write succeeds.
func refusal(write func(context.Context) error) func(context.Context) string {
	return func(ctx context.Context) string {
		err := write(ctx)
		if err == nil {
			return ""
		}
		if _, text, isDenied := strings.Cut(err.Error(), "denied request: "); isDenied {
			return text
		}
		return err.Error()
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

// plainWorkloads returns a workload of each resource that makes pods, with the image.
func plainWorkloads(namespace, name, image string) map[string]client.Object {
	meta, replicas := metav1.ObjectMeta{Namespace: namespace, Name: name}, int32(1)
	selector := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	template := func() corev1.PodTemplateSpec { return plainDeployment(namespace, name, image, 1).Spec.Template }
	once := func() batchv1.JobSpec {
		spec := batchv1.JobSpec{Template: template()}
		spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return spec
	}
	ofController := template()
	return map[string]client.Object{
		"pods": &corev1.Pod{ObjectMeta: meta, Spec: plainPod(image)},
		"replicationcontrollers": &corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{
			Replicas: &replicas, Selector: selector().MatchLabels, Template: &ofController}},
		"deployments": plainDeployment(namespace, name, image, 1),
		"statefulsets": &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: &replicas, Selector: selector(),
			Template: template()}},
		"replicasets": &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: selector(),
			Template: template()}},
		"daemonsets": &appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: selector(), Template: template()}},
		"jobs":       &batchv1.Job{ObjectMeta: meta, Spec: once()},
		"cronjobs": &batchv1.CronJob{ObjectMeta: meta, Spec: batchv1.CronJobSpec{Schedule: "0 0 * * *",
			JobTemplate: batchv1.JobTemplateSpec{Spec: once()}}},
	}
}

// resizable returns a pod whose limits can be changed to 0: its requests are lower, so that its
// class of service stays the same.
func resizable(namespace, name string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: plainPod("reg.example.com/a")}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("10Mi")}
	return pod
}

// violating is a write that a policy must refuse, and the message.
type violating struct {
	write func(context.Context) error
	want  string
}

// copyOf returns a copy for a write: its answer is read into it.
func copyOf(object client.Object) client.Object { return object.DeepCopyObject().(client.Object) }

// violatingWrites returns a write for each resource that policies govern. It creates what they
// change, which violates nothing. rule returns how a message names a rule of the policy.
func violatingWrites(t *testing.T, by client.Client, namespace string, rule func(string) string) map[string]violating {
	t.Helper()
	image := func(container string) string {
		return container + `.image: Invalid value: "nginx": must be an image of reg.example.com ` + rule("allowedRegistries")
	}
	template := map[string]string{"pods": "spec", "cronjobs": "spec.jobTemplate.spec.template.spec"}
	writes := map[string]violating{}
	for of, object := range plainWorkloads(namespace, "new", "nginx") {
		writes[of] = violating{want: image(cmp.Or(template[of], "spec.template.spec") + ".containers[app]"),
			write: func(ctx context.Context) error { return by.Create(ctx, copyOf(object), client.DryRunAll) }}
	}
	running := plainWorkloads(namespace, "running", "reg.example.com/a")
	for _, of := range []string{"replicationcontrollers", "deployments", "statefulsets", "replicasets"} {
		object := running[of]
		create(t, object)
		writes[of+"/scale"] = violating{want: "spec.replicas: Invalid value: 4: must be at most 3 " + rule("maxReplicas"),
			write: func(ctx context.Context) error {
				scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
				scale.Namespace, scale.Name = object.GetNamespace(), object.GetName()
				return by.SubResource("scale").Update(ctx, copyOf(object), client.WithSubResourceBody(scale), client.DryRunAll)
			}}
	}
	debugged, resized := running["pods"].(*corev1.Pod), resizable(namespace, "resized")
	create(t, debugged, resized)
	debugged.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Image: "nginx"}}}
	writes["pods/ephemeralcontainers"] = violating{want: image("spec.ephemeralContainers[debug]"), write: func(ctx context.Context) error {
		return by.SubResource("ephemeralcontainers").Update(ctx, copyOf(debugged), client.DryRunAll)
	}}
	resources := resized.Spec.Containers[0].Resources
	resources.Requests[corev1.ResourceCPU], resources.Limits[corev1.ResourceCPU] = resource.MustParse("0"), resource.MustParse("0")
	writes["pods/resize"] = violating{want: "spec.containers[app].resources.limits[cpu]: Required value: must be more than 0 " +
		rule("requireResourceLimits") + ": add limits: {cpu: 500m}", write: func(ctx context.Context) error {
		return by.SubResource("resize").Update(ctx, copyOf(resized), client.DryRunAll)
	}}
	return writes
}

// TestGovernedResources: a policy in the mode Enforce is asked about each resource that makes pods,
// or changes those that exist, and says of each what it says of a Deployment.
func TestGovernedResources(t *testing.T) {
	g := gomega.NewWithT(t)
	startManager(t, everywhere)
	alice, _ := otherUser(t)
	policy := stagingPolicy(t, mspolicyv1.Rule{MaxReplicas: ptr.To[int32](3), AllowedRegistries: []string{"reg.example.com"},
		RequireResourceLimits: true})
	writes := violatingWrites(t, alice, staging(t), func(field string) string {
		return `(policy "` + policy.Name + `", rule "staging.` + field + `")`
	})
	setWorkloads(t, policy, mspolicyv1.WorkloadsEnforce)
	g.Eventually(refusal(writes["deployments"].write)).WithContext(t.Context()).Should(gomega.Equal(writes["deployments"].want))
	for of, one := range writes {
		g.Expect(refusal(one.write)(t.Context())).To(gomega.Equal(one.want), of)
	}

	var enforced admissionregistrationv1.ValidatingAdmissionPolicy
	g.Expect(alice.Get(t.Context(), client.ObjectKey{Name: "mainstay-" + policy.Name}, &enforced)).To(gomega.Succeed())
	var governed []string
	for _, rule := range enforced.Spec.MatchConstraints.ResourceRules {
		governed = append(governed, rule.Resources...)
	}
	g.Expect(governed).To(gomega.ConsistOf(slices.Collect(maps.Keys(writes))), "each governed resource has a write here")
}
