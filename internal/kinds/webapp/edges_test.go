package webapp

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
	"github.com/mainstay-platform/mainstay/internal/kit/plan"
)

var made = time.Date(2026, time.November, 22, 12, 0, 0, 0, time.UTC)

// edged returns a running application with an Ingress and an autoscaler that were created at made.
func edged(class *string, address bool, conditions ...autoscalingv2.HorizontalPodAutoscalerCondition) Observed {
	observed := running()
	identity := metav1.ObjectMeta{Namespace: "web", Name: "shop", CreationTimestamp: metav1.NewTime(made)}
	ingress := &networkingv1.Ingress{ObjectMeta: identity, Spec: networkingv1.IngressSpec{IngressClassName: class}}
	if address {
		ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.1"}}
	}
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.NewTime(made)
	}
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: identity}
	autoscaler.Status.Conditions = conditions
	for kind, object := range map[string]plan.Object{"Ingress": ingress, "HorizontalPodAutoscaler": autoscaler} {
		ref := Ref(&msappsv1.WebApp{ObjectMeta: identity}, kind)
		observed.Children[ref] = plan.Found{Object: object, Ownership: plan.Ours}
	}
	return observed
}

// TestEdges: a problem around the application makes it Degraded and leaves it Ready, after a
// minute.
func TestEdges(t *testing.T) {
	blind := autoscalingv2.HorizontalPodAutoscalerCondition{Type: "ScalingActive", Status: corev1.ConditionFalse,
		Reason: "FailedGetResourceMetric", Message: "no metrics returned"}
	scaledToZero := blind
	scaledToZero.Reason = "ScalingDisabled"
	lacking := func(observed Observed) Observed { observed.IngressClassMissing = true; return observed }
	both := spec(func(s *msappsv1.WebAppSpec) {
		s.Ingress, s.Autoscaling = &msappsv1.Ingress{Host: "a.b"}, &msappsv1.Autoscaling{Max: 3}
	})
	for name, test := range map[string]struct {
		observed Observed
		after    time.Duration
		without  bool
		// classless is a spec without a class.
		classless bool
		// want is the reason of Degraded, and a part of its message; requeue is when it may change.
		want, message string
		requeue       time.Duration
	}{
		"all is well":   {observed: edged(new("nginx"), true), after: time.Hour, want: "Healthy"},
		"a new Ingress": {observed: edged(new("nginx"), false), after: 20 * time.Second, want: "Healthy", requeue: 40 * time.Second},
		"no address":    {observed: edged(new("nginx"), false), after: time.Minute, want: "IngressWithoutAddress", message: "class nginx"},
		"no class": {observed: edged(nil, false), after: time.Hour, want: "IngressWithoutAddress",
			message: "set spec.ingress.className, or make a class the default and delete the Ingress"},
		"a missing class": {observed: lacking(edged(new("nginy"), false)), after: time.Hour,
			want: "IngressClassNotFound", message: "nginy", requeue: time.Minute},
		"a class that the spec does not name": {observed: lacking(edged(new("former"), false)), after: time.Hour, classless: true,
			want: "IngressClassNotFound", message: "Ingress shop has the class former", requeue: time.Minute},
		"served nevertheless": {observed: lacking(edged(new("x"), true)), after: time.Hour, want: "Healthy"},
		"no metrics":          {observed: edged(nil, true, blind), after: time.Hour, want: "AutoscalerInactive", message: "no metrics returned"},
		"no metrics yet":      {observed: edged(nil, true, blind), after: time.Second, want: "Healthy", requeue: 59 * time.Second},
		"scaled to zero":      {observed: edged(nil, true, scaledToZero), after: time.Hour, want: "Healthy"},
		"not asked for":       {observed: edged(nil, false, blind), after: time.Hour, without: true, want: "Healthy"},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp()
			if !test.without {
				both(app)
			}
			if app.Spec.Ingress != nil && !test.classless {
				app.Spec.Ingress.ClassName = new("nginy")
			}
			test.observed.Now = made.Add(test.after)
			status, requeue := Status(app, test.observed, plan.Result{})
			degraded := meta.FindStatusCondition(status.Conditions, msappsv1.ConditionDegraded)
			if degraded.Reason != test.want || !strings.Contains(degraded.Message, test.message) || requeue != test.requeue {
				t.Errorf("got %s: %s, again after %s", degraded.Reason, degraded.Message, requeue)
			}
			wantPhase := msappsv1.PhaseRunning
			if test.want != "Healthy" {
				wantPhase = msappsv1.PhaseDegraded
			}
			if !meta.IsStatusConditionTrue(status.Conditions, msappsv1.ConditionReady) || status.Phase != wantPhase {
				t.Errorf("got the phase %s, and %v", status.Phase, status.Conditions)
			}
			waits := WaitsForAddress(app, test.observed) != nil
			if waits != strings.HasPrefix(test.want, "Ingress") {
				t.Errorf("it waits for an address: %t", waits)
			}
		})
	}
}

// restarted adds a ready pod whose container kept exiting, and has run for a time since.
func restarted(observed Observed, age time.Duration) Observed {
	observed.Now = made.Add(age)
	status := corev1.ContainerStatus{Name: "webapp", Ready: true, RestartCount: 3}
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(made)}
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 1}
	return with(observed, corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status}}})
}

// TestCrashLoopBetweenExits: an application whose pod is ready between two exits is Ready and stays
// Degraded, until the container has run for a minute.
func TestCrashLoopBetweenExits(t *testing.T) {
	observed := restarted(running(), 0)
	for after, want := range map[time.Duration]string{20 * time.Second: "True CrashLoop, Degraded, 40s", time.Minute: "False Healthy, Running, 0s"} {
		observed.Now = made.Add(after)
		status, requeueAfter := Status(admitted(), observed, plan.Result{})
		ready, degraded := meta.FindStatusCondition(status.Conditions, "Ready"), meta.FindStatusCondition(status.Conditions, "Degraded")
		got := fmt.Sprintf("%s %s, %s, %s", degraded.Status, degraded.Reason, status.Phase, requeueAfter)
		if got != want || ready.Status != metav1.ConditionTrue {
			t.Errorf("after %s: %s, Ready=%s; want %s", after, got, ready.Status, want)
		}
	}
	// The Deployment learns a moment later that the pod is ready again, or not any more.
	stays := func(moment string) {
		t.Helper()
		behind, _ := Status(admitted(), observed, plan.Result{})
		if degraded := meta.FindStatusCondition(behind.Conditions, "Degraded"); degraded.Reason != api.ReasonCrashLoop {
			t.Errorf("%s: %s", moment, degraded.Reason)
		}
	}
	observed.Now = made.Add(time.Second)
	exited := &observed.Pods[0].Status.ContainerStatuses[0]
	before := *exited
	exited.State, exited.Ready = corev1.ContainerState{Terminated: before.LastTerminationState.Terminated}, false
	stays("it has just exited")
	*exited = before
	observed.deployment(admitted()).Status.AvailableReplicas--
	stays("it is just ready again")
}

// TestTheEndOfATrialIsReported: a pod that is ready counts as available after minReadySeconds only.
// Once its container has run for a minute, it is waited for, and no longer keeps exiting.
func TestTheEndOfATrialIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		age    time.Duration
		want   string
		again  time.Duration
	}{
		"it runs for 20 s":                 {oneAway, 20 * time.Second, "CrashLoop", 40 * time.Second},
		"it runs for a minute":             {oneAway, time.Minute, "Scaling", 0},
		"it runs for 20 s, in a rollout":   {rolling, 20 * time.Second, "CrashLoop", 40 * time.Second},
		"it runs for a minute, in one":     {rolling, time.Minute, "Deploying", 0},
		"the rollout is past its deadline": {stuck, 20 * time.Second, "CrashLoop", 40 * time.Second},
		"it was, and it runs":              {stuck, time.Minute, "RolloutFailed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			status, again := Status(admitted(), restarted(running(test.change), test.age), plan.Result{})
			if ready := meta.FindStatusCondition(status.Conditions, "Ready"); ready.Reason != test.want || again != test.again {
				t.Errorf("%s, again after %s; want %s, %s", ready.Reason, again, test.want, test.again)
			}
		})
	}
}
