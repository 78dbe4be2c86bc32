package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	instrv1 "github.com/mainstay-platform/mainstay/api/instrumentation/v1alpha1"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
	"github.com/mainstay-platform/mainstay/internal/kinds/instrumentation/injection"
	"github.com/mainstay-platform/mainstay/test/testenv"
)

// gated is an operator with a clock that tests can move.
type gated struct {
	*governed
	clock *testenv.Clock
}

// leap moves the clock, and triggers a reconcile of an Instrumentation.
func (s *gated) leap(t *testing.T, agent client.Object, by time.Duration) {
	t.Helper()
	s.clock.Leap(by)
	s.merge(t, agent, `{"metadata":{"annotations":{"looked-at":"`+s.clock.Now().Format(time.RFC3339Nano)+`"}}}`)
}

// names returns the Deployments of a namespace whose agent has these options, in one string.
func (s *gated) names(t *testing.T, space, options string) func() (string, error) {
	return func() (string, error) {
		var list appsv1.DeploymentList
		err := s.client.List(t.Context(), &list, client.InNamespace(space))
		var found []string
		for i := range list.Items {
			for _, variable := range list.Items[i].Spec.Template.Spec.Containers[0].Env {
				if variable.Name == javaOptions && strings.HasSuffix(variable.Value, javaSuffix+options) {
					found = append(found, list.Items[i].Name)
				}
			}
		}
		slices.Sort(found)
		return strings.Join(found, " "), err
	}
}

// crash creates a pod of a Deployment that does not start.
func (s *gated) crash(t *testing.T, space, name string) *corev1.Pod {
	t.Helper()
	var of appsv1.Deployment
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: space, Name: name}, &of); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name + "-0", Labels: of.Spec.Template.Labels,
			Annotations: of.Spec.Template.Annotations},
		Spec: corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	s.create(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: "app:1", RestartCount: 4,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}},
	}}
	if err := s.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestInjectionInTurn checks that workloads get an agent when the rollout policy allows it.
func TestInjectionInTurn(t *testing.T) {
	t.Parallel()
	s := &gated{newGoverned(t), testenv.NewClock()}
	s.startWith(t, testenv.WithClock(s.clock))
	for name, test := range map[string]func(*testing.T, *gated, string){
		"canary": testCanary, "forgiven": testForgiven, "parallel": testParallel, "window": testWindow,
	} {
		t.Run(name, func(t *testing.T) { test(t, s, s.space(t, name)) })
	}
}

func testCanary(t *testing.T, s *gated, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2", "web-3")
	agent := javaAgent(space, "web-*")
	agent.Spec.Rollout.Strategy = instrv1.RolloutCanary
	agent.Spec.Rollout.Canary = &rolloutv1.Canary{Count: 1, Soak: &metav1.Duration{Duration: time.Hour}}
	s.create(t, agent)
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False Waiting 1/3"))
	g.Expect(s.names(t, space, "")()).To(gomega.Equal("web-1"))
	s.leap(t, agent, time.Hour+time.Minute)
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1 web-2 web-3"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 3/3"))

	s.bare(t, space, "web-4")
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1 web-2 web-3 web-4"), "a new one needs no canary: others have the revision")
	s.finish(t, space)
	s.calls.Settle(t)
	n := s.calls.Count()
	s.merge(t, agent, `{"spec":{"agent":{"options":"broken"}}}`)
	g.Eventually(s.names(t, space, "=broken")).Should(gomega.Equal("web-1"))
	pod := s.crash(t, space, "web-1")
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False CanaryFailed 0/4"))
	g.Eventually(s.names(t, space, "=broken")).Should(gomega.BeEmpty())
	g.Expect(s.names(t, space, "")()).To(gomega.Equal("web-1 web-2 web-3 web-4"), "all have the earlier revision")
	g.Expect(agent.Annotations[instrv1.AnnotationFailed]).To(gomega.ContainSubstring("Deployment/web-1: CrashLoop"))
	g.Expect(meta.IsStatusConditionTrue(agent.Status.Conditions, instrv1.ConditionStalled)).To(gomega.BeTrue())
	checkOrder(t, s.calls.Done(n, "PATCH "), agent.Name, "workload note workload")

	s.leap(t, agent, time.Hour)
	g.Expect(s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	s.finish(t, space)
	s.calls.Settle(t)
	g.Expect(s.names(t, space, "=broken")()).To(gomega.BeEmpty(), "it is not tried again")
	s.merge(t, agent, `{"metadata":{"annotations":{"`+instrv1.AnnotationFailed+`":null}}}`)
	g.Eventually(s.names(t, space, "=broken")).Should(gomega.Equal("web-1"), "it is tried again")
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False Waiting 1/4"))
	s.leap(t, agent, time.Hour+time.Minute)
	g.Eventually(s.names(t, space, "=broken")).Should(gomega.Equal("web-1 web-2 web-3 web-4"))
}

// testForgiven checks that without canaries a failed revision is injected everywhere, and that it
// remains when canaries are configured again.
func testForgiven(t *testing.T, s *gated, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2")
	agent := javaAgent(space, "web-*")
	agent.Name = "forgiven"
	agent.Spec.Rollout.Strategy = instrv1.RolloutCanary
	agent.Spec.Rollout.Canary = &rolloutv1.Canary{Count: 1}
	s.create(t, agent)
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1"))
	pod := s.crash(t, space, "web-1")
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False CanaryFailed 0/2"))
	g.Eventually(s.names(t, space, "")).Should(gomega.BeEmpty())
	g.Expect(s.client.Delete(t.Context(), pod, client.GracePeriodSeconds(0))).To(gomega.Succeed())
	s.finish(t, space)
	n := s.calls.Settle(t)

	s.merge(t, agent, `{"spec":{"rollout":{"strategy":"Automatic","canary":null}}}`)
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1 web-2"))
	s.finish(t, space)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 2/2"))
	g.Expect(agent.Annotations).NotTo(gomega.HaveKey(instrv1.AnnotationFailed))
	s.calls.Settle(t)
	checkOrder(t, s.calls.Done(n, "/namespaces/"+space+"/"), agent.Name, "note workload workload")
	s.merge(t, agent, `{"spec":{"rollout":{"strategy":"Canary","canary":{"count":1}}}}`)
	s.leap(t, agent, time.Hour)
	s.calls.Settle(t)
	g.Expect(s.agentStatus(t, agent)()).To(gomega.Equal("True Injected 2/2"))
	g.Expect(s.names(t, space, "")()).To(gomega.Equal("web-1 web-2"))
	checkOrder(t, s.calls.Done(n, "/namespaces/"+space+"/"), agent.Name, "note workload workload")
	s.removed(t, agent)
}

// checkOrder expects exactly these writes of an Instrumentation ("note") and of workloads. A
// failure is recorded between the write that injects the revision and the write that removes it.
// The record is removed before the revision is injected again.
func checkOrder(t *testing.T, calls []string, name, want string) {
	t.Helper()
	var order []string
	for _, call := range calls {
		switch {
		case strings.HasSuffix(call, "/instrumentations/"+name):
			order = append(order, "note")
		case strings.Contains(call, "/deployments/") && !strings.HasSuffix(call, "/status"):
			order = append(order, "workload")
		}
	}
	if got := strings.Join(order, " "); got != want {
		t.Errorf("the order was %s, not %s: %v", got, want, calls)
	}
}

func testParallel(t *testing.T, s *gated, space string) {
	g := gomega.NewWithT(t)
	s.bare(t, space, "web-1", "web-2", "web-3")
	agent := javaAgent(space, "web-*")
	agent.Spec.Rollout.MaxParallel = new(int32(1))
	agent.Spec.Rollout.Order = []string{"web-3", "web-2"}
	s.create(t, agent)
	for _, has := range []string{"web-3", "web-2 web-3", "web-1 web-2 web-3"} {
		g.Eventually(s.names(t, space, "")).Should(gomega.Equal(has))
		s.calls.Settle(t)
		g.Expect(s.names(t, space, "")()).To(gomega.Equal(has), "the next one waits until the first is done")
		s.finish(t, space)
	}
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("True Injected 3/3"))
	s.removed(t, agent)
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty(), "all at once")
}

func testWindow(t *testing.T, s *gated, space string) {
	g := gomega.NewWithT(t)
	made := s.bare(t, space, "web-1")
	agent := javaAgent(space, "web-*")
	opens := s.clock.Now().UTC().Add(2 * time.Hour)
	agent.Spec.Rollout.Window = &rolloutv1.Window{Start: opens.Format("15:04"), End: opens.Add(time.Hour).Format("15:04")}
	s.create(t, agent)
	g.Eventually(s.agentStatus(t, agent)).Should(gomega.Equal("False Waiting 0/1"))
	g.Expect(agent.Status.Workloads).To(gomega.ConsistOf(gomega.HaveField("Reason", "OutsideWindow")))
	s.merge(t, made, `{"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`)
	g.Expect(injection.Injected(made.Spec.Template.Annotations)).To(gomega.BeEmpty(), "a write of its owner does not inject it either")
	s.leap(t, agent, 2*time.Hour+time.Minute)
	g.Eventually(s.names(t, space, "")).Should(gomega.Equal("web-1"))
	s.leap(t, agent, 4*time.Hour)
	s.finish(t, space)
	s.merge(t, made, `{"spec":{"template":{"metadata":{"labels":{"version":"3"}}}}}`)
	g.Expect(injection.Injected(made.Spec.Template.Annotations)).To(gomega.HaveLen(1), "it keeps the agent")
	s.removed(t, agent)
	g.Expect(s.with(t, space)()).To(gomega.BeEmpty(), "it may be removed at any time")
}
