package integration

import (
	"context"
	"testing"

	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/mainstay-platform/mainstay/api/config/v1"
	"github.com/mainstay-platform/mainstay/internal/setup"
	"github.com/mainstay-platform/mainstay/internal/workload"
)

// newPod returns a pod with app=web. owner is the kind of its controller, or empty.
func newPod(namespace, name, owner string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "mainstay/demo-web:1.0"}}},
	}
	if owner != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: owner, Name: "web", UID: "1", Controller: new(true)}}
	}
	return pod
}

// runPod creates a pod and does the work of the kubelet.
func runPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	create(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if err := cluster.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// podsIn returns the names of the pods in a namespace.
func podsIn(namespace string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		var pods corev1.PodList
		err := cluster.Client.List(ctx, &pods, client.InNamespace(namespace))
		var names []string
		for i := range pods.Items {
			names = append(names, pods.Items[i].Name)
		}
		return names, err
	}
}

func evicting(s *configv1.ConfigMonitorSpec) { s.Strategy = configv1.StrategyEvict }

// TestConfigMonitorEvicts checks that pods are evicted one at a time, only if they are older than
// the change and their controller recreates them, and not twice, even by another manager.
func TestConfigMonitorEvicts(t *testing.T) {
	g, in, manager := managed(t)
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	first, second := newPod(in, "web-0", "CloneSet"), newPod(in, "web-1", "CloneSet")
	runPod(t, first)
	runPod(t, second)
	monitor := newMonitor(in, evicting, func(s *configv1.ConfigMonitorSpec) { s.MaxParallel = ptr.To[int32](1) })
	nextSecond(t, second)
	setFlag(t, in, "OTHER", "1")
	create(t, monitor)
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.ConsistOf("web-1"), "they are older than the change")
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("False Restarting"))
	runPod(t, newPod(in, "web-0", "CloneSet"))
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.ConsistOf("web-0"), "the next is evicted after the first was replaced")
	replacement := newPod(in, "web-1", "CloneSet")
	runPod(t, replacement)
	g.Eventually(monitorReady(monitor)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
	status, err := monitored(monitor)(t.Context())
	g.Expect(err).NotTo(gomega.HaveOccurred())
	g.Expect(status.Restarts).To(gomega.BeNumerically("==", 2))
	g.Expect(status.Matched).To(gomega.BeNumerically("==", 2))
	g.Expect(status.UpToDate).To(gomega.BeNumerically("==", 2))
	g.Expect(status.LastRestart).NotTo(gomega.BeNil())

	before := manager.Settle(t)
	g.Expect(manager.Requests.Since(before, in)).To(gomega.BeEmpty())
	manager.Stop()
	restarted := startManager(t, in)
	restarted.Settle(t)
	g.Expect(restarted.Requests.Since(0, "/"+in+"/")).To(gomega.BeEmpty(), "a restarted manager writes, lists and evicts nothing")

	// A change while no manager runs takes effect at the next start.
	restarted.Stop()
	nextSecond(t, replacement)
	setFlag(t, in, "COLOUR", "blue")
	startManager(t, in)
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.HaveLen(1))
}

// TestConfigMonitorSparesPods checks budgets, pods without an owner, and static pods.
func TestConfigMonitorSparesPods(t *testing.T) {
	g, in, _ := managed(t)
	guarded := newPod(in, "guarded", "CloneSet")
	guarded.Labels["guarded"] = "true"
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "guarded"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"guarded": "true"}}},
	}
	create(t, budget)
	unowned, static := newPod(in, "unowned", ""), newPod(in, "static", "Node")
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "1"}
	static.Spec.NodeName = "node-1"
	job := newPod(in, "job", "Job")
	for _, pod := range []*corev1.Pod{guarded, unowned, static, job} {
		runPod(t, pod)
	}
	nextSecond(t, job)
	create(t, newFlags(in, map[string]string{"COLOUR": "red"}))
	monitor := newMonitor(in, evicting)
	create(t, monitor)
	skipped := func(ctx context.Context) ([]string, error) {
		status, err := monitored(monitor)(ctx)
		var found []string
		for _, one := range status.Skipped {
			found = append(found, one.Name+" "+one.Reason)
		}
		return found, err
	}
	skips := gomega.Equal([]string{"Pod/guarded DisruptionBudget", "Pod/job Unowned", "Pod/static StaticPod", "Pod/unowned Unowned"})
	g.Eventually(skipped).WithContext(t.Context()).Should(skips, "the budget's status is not yet computed: the API server asks to retry")
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1, CurrentHealthy: 1,
		DesiredHealthy: 1}
	g.Expect(cluster.Client.Status().Update(t.Context(), budget)).To(gomega.Succeed())
	g.Expect(monitorReady(monitor)(t.Context())).To(gomega.Equal("False Waiting"))

	change(t, monitor, func(m *configv1.ConfigMonitor) { m.Spec.Cooldown = nil })
	g.Eventually(skipped).WithContext(t.Context()).Should(skips)
	change(t, monitor, func(m *configv1.ConfigMonitor) { m.Spec.AllowUnowned = true })
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.ConsistOf("guarded", "static"))
	g.Expect(cluster.Client.Delete(t.Context(), budget)).To(gomega.Succeed())
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.ConsistOf("static"), "the eviction is retried")
}

// TestConfigMonitorsOfASecret checks that changes of a readable Secret count for both strategies,
// and that its content appears nowhere.
func TestConfigMonitorsOfASecret(t *testing.T) {
	t.Parallel()
	g := gomega.NewWithT(t)
	own, in := namespace(t), namespace(t)
	startManagerWith(t, in, nil, func(settings *setup.Settings) { settings.Namespace, settings.SecretNamespaces = own, []string{in} })
	create(t, database(in, "hunter2"))
	web, pod := newDeployment(in, "web"), newPod(in, "lone", "CloneSet")
	pod.Labels = map[string]string{"app": "lone"}
	create(t, web)
	rollOut(t, web)
	runPod(t, pod)
	ofSecret := func(s *configv1.ConfigMonitorSpec) {
		s.ConfigMap, s.Secret, s.Keys = "", "database", []string{"password"}
	}
	rolling, evicts := newMonitor(in, ofSecret),
		newMonitor(in, ofSecret, evicting, func(s *configv1.ConfigMonitorSpec) { s.PodSelector = pod.Labels })
	evicts.Name = "lone"
	watched{web}.by(t, rolling)
	watched{}.by(t, evicts)
	nextSecond(t, pod)
	g.Expect(cluster.Client.Update(t.Context(), database(in, "hunter3"))).To(gomega.Succeed())
	g.Eventually(restartedFor(web)).WithContext(t.Context()).Should(gomega.HavePrefix("secret/database="))
	g.Eventually(podsIn(in)).WithContext(t.Context()).Should(gomega.BeEmpty())
	back := newPod(in, "lone", "CloneSet")
	back.Labels = pod.Labels
	runPod(t, back)
	g.Eventually(monitorReady(evicts)).WithContext(t.Context()).Should(gomega.Equal("True UpToDate"))
	g.Expect(cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(evicts), evicts)).To(gomega.Succeed())
	plain := workload.HashAll(map[string]string{"password": workload.HashKey([]byte("hunter3"))})
	g.Expect(evicts.Annotations[configv1.AnnotationEvicted]).NotTo(gomega.Or(gomega.ContainSubstring("hunter"),
		gomega.ContainSubstring(plain)))
}
