package workload

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// started is when the containers of these tests started.
var started = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// unreadyPod returns a pod whose container webapp runs and is not ready.
func unreadyPod(change ...func(*corev1.ContainerStatus)) corev1.Pod {
	status := corev1.ContainerStatus{Name: "webapp", Started: new(true),
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}
	for _, apply := range change {
		apply(&status)
	}
	one := pod(status)
	one.Status.PodIP = "10.0.0.7"
	return one
}

func starting(status *corev1.ContainerStatus) { status.Started = new(false) }

func wasRestarted(status *corev1.ContainerStatus) { status.RestartCount = 1 }

// probed returns the container webapp with probes.
func probed(readiness, startup *corev1.Probe) corev1.Container {
	return corev1.Container{Name: "webapp", ReadinessProbe: readiness, StartupProbe: startup}
}

var (
	byConnection = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{}}}
	byCommand    = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
	delayed      = &corev1.Probe{InitialDelaySeconds: 60, ProbeHandler: byConnection.ProbeHandler}
	slow         = &corev1.Probe{PeriodSeconds: 10, FailureThreshold: 12, ProbeHandler: byConnection.ProbeHandler}
)

func unhealthy(at int, message string) corev1.Event {
	return corev1.Event{Reason: "Unhealthy", Message: message, LastTimestamp: metav1.NewTime(started.Add(time.Duration(at) * time.Second)),
		InvolvedObject: corev1.ObjectReference{FieldPath: "spec.containers{webapp}"}}
}

const (
	refused    = "Readiness probe failed: dial tcp 10.0.0.7:9090: connect: connection refused"
	readiness  = "1 of 1 pods: container webapp does not pass its readiness probe"
	startupOne = "1 of 1 pods: container webapp does not pass its startup probe"
)

func TestAPodThatDoesNotBecomeReady(t *testing.T) {
	for name, test := range map[string]struct {
		pod       corev1.Pod
		container corev1.Container
		events    []corev1.Event
		after     time.Duration
		want      string
		requeue   time.Duration
	}{
		"is starting for 29 s": {pod: unreadyPod(), container: probed(byConnection, nil), after: 29 * time.Second, requeue: time.Second},
		"has a problem after 30 s": {pod: unreadyPod(), container: probed(byConnection, nil), after: 30 * time.Second, want: readiness,
			requeue: 30 * time.Second},
		"has the kubelet's last words, without the pod's address": {
			pod: unreadyPod(), container: probed(byConnection, nil), after: time.Minute,
			events: []corev1.Event{unhealthy(20, refused), unhealthy(5, "Readiness probe failed: older")},
			want:   readiness + ": dial tcp (pod):9090: connect: connection refused", requeue: 30 * time.Second},
		"has the words of similar events": {
			pod: unreadyPod(), container: probed(byConnection, nil), after: time.Minute,
			events: []corev1.Event{unhealthy(20, "(combined from similar events): Readiness probe failed: HTTP probe failed with statuscode: 404")},
			want:   readiness + ": HTTP probe failed with statuscode: 404", requeue: 30 * time.Second},
		"has the words about a port without a name": {
			pod: unreadyPod(), container: probed(byConnection, nil), after: time.Minute,
			events: []corev1.Event{unhealthy(20, `Readiness probe errored: couldn't find port: "web"`)},
			want:   readiness + `: couldn't find port: "web"`, requeue: 30 * time.Second},
		"says nothing of other probes": {
			pod: unreadyPod(), container: probed(byConnection, nil), after: time.Minute,
			events: []corev1.Event{unhealthy(20, "Liveness probe failed: x")}, want: readiness, requeue: 30 * time.Second},
		"does not repeat what a probe's command prints": {
			pod: unreadyPod(), container: probed(byCommand, nil), after: time.Minute,
			events: []corev1.Event{unhealthy(20, "Readiness probe failed: password=hunter2")}, want: readiness + ": its command fails",
			requeue: 30 * time.Second},
		"has the delay of its probe": {pod: unreadyPod(), container: probed(delayed, nil), after: 89 * time.Second, requeue: time.Second},
		"has a problem after that delay": {pod: unreadyPod(), container: probed(delayed, nil), after: 90 * time.Second, want: readiness,
			requeue: 30 * time.Second},
		"has the time of its startup probe": {pod: unreadyPod(starting), container: probed(byConnection, slow), after: 149 * time.Second,
			requeue: time.Second},
		"has a problem after that time": {pod: unreadyPod(starting), container: probed(byConnection, slow), after: 150 * time.Second,
			want: startupOne, requeue: 30 * time.Second},
		"has had that time once it was restarted": {
			pod: unreadyPod(starting, wasRestarted), container: probed(byConnection, slow), after: 30 * time.Second,
			events: []corev1.Event{unhealthy(20, "Startup probe failed: no answer")}, want: startupOne + ": no answer",
			requeue: 30 * time.Second},
		"may be of another template": {pod: unreadyPod(), container: corev1.Container{Name: "other"}, after: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := Evidence{Pods: []corev1.Pod{test.pod}, Containers: []corev1.Container{test.container}, Events: test.events,
				Now: started.Add(test.after)}
			var want *Problem
			if test.want != "" {
				want = &Problem{"PodsNotReady", test.want}
			}
			if diff := cmp.Diff(want, FindProblem(evidence)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got := evidence.RequeueAfter(); got != test.requeue {
				t.Errorf("requeue after %s, want %s", got, test.requeue)
			}
			if explained := evidence.Unexplained() != nil; explained != (test.want != "") {
				t.Errorf("events are read: %t", explained)
			}
		})
	}
}

// TestLooksAtAProblemBackOff: a pod that never becomes ready is looked at 18 times in its first two
// hours, and not 240 times; one without containers as often, and not 720 times.
func TestLooksAtAProblemBackOff(t *testing.T) {
	creating := pod(waiting("ContainerCreating", ""))
	creating.CreationTimestamp = metav1.NewTime(started)
	for name, test := range map[string]struct {
		pod         corev1.Pod
		first, last time.Duration
		looks       int
	}{
		"it runs":              {unreadyPod(), 30 * time.Second, 10 * time.Minute, 18},
		"it has no containers": {creating, 10 * time.Second, 10 * time.Minute, 18},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := Evidence{Pods: []corev1.Pod{test.pod}, Containers: []corev1.Container{probed(byConnection, nil)}, Now: started}
			looks, wait := 0, time.Duration(0)
			for evidence.Now.Before(started.Add(2 * time.Hour)) {
				wait = evidence.RequeueAfter()
				if looks == 0 && wait != test.first {
					t.Errorf("the first time after %s", wait)
				}
				evidence.Now = evidence.Now.Add(wait)
				looks++
			}
			if wait != test.last || looks != test.looks {
				t.Errorf("%d looks, the last after %s", looks, wait)
			}
		})
	}
}

// TestAStartThatMayLastForEver: a pod is starting however much time its probes allow.
func TestAStartThatMayLastForEver(t *testing.T) {
	const most = math.MaxInt32
	for name, test := range map[string]struct{ readiness, startup corev1.Probe }{
		"95 years":      {startup: corev1.Probe{PeriodSeconds: 10, FailureThreshold: 300_000_000}},
		"after a delay": {startup: corev1.Probe{PeriodSeconds: 1, FailureThreshold: most, InitialDelaySeconds: most}},
		"all of it":     {startup: corev1.Probe{PeriodSeconds: most, FailureThreshold: most, InitialDelaySeconds: most}},
		"and then again": {corev1.Probe{InitialDelaySeconds: most},
			corev1.Probe{PeriodSeconds: most, FailureThreshold: most, InitialDelaySeconds: most}},
	} {
		evidence := Evidence{Pods: []corev1.Pod{unreadyPod(starting)}, Now: started.Add(24 * time.Hour),
			Containers: []corev1.Container{probed(&test.readiness, &test.startup)}}
		if got := FindProblem(evidence); got != nil {
			t.Errorf("%s: %v", name, got)
		}
		if got := evidence.RequeueAfter(); got < 24*time.Hour {
			t.Errorf("%s: requeue after %s", name, got)
		}
	}
}

func TestUnexplainedIsTheOldest(t *testing.T) {
	var pods []corev1.Pod
	for name, age := range map[string]time.Duration{"shop-c": time.Minute, "shop-b": time.Hour, "shop-a": time.Hour, "new": time.Second} {
		one := pod(waiting("ContainerCreating", ""))
		one.Name, one.CreationTimestamp = name, metav1.NewTime(started.Add(-age))
		pods = append(pods, one)
	}
	if got := (Evidence{Pods: pods, Now: started}).Unexplained(); got == nil || got.Name != "shop-a" {
		t.Errorf("got %v", got)
	}
	if got := (Evidence{Pods: []corev1.Pod{healthy(), unscheduled()}, Now: started}).Unexplained(); got != nil {
		t.Errorf("of pods that explain themselves: %v", got)
	}
}

// TestEventsOfOnePod: the events are those of the oldest pod alone. Other pods in its state have
// its problem, in the same words, and no others.
func TestEventsOfOnePod(t *testing.T) {
	unready := func(name, ip string, age time.Duration) corev1.Pod {
		one := unreadyPod()
		one.Name, one.Status.PodIP, one.CreationTimestamp = name, ip, metav1.NewTime(started.Add(-age))
		return one
	}
	creating := func(name string, age time.Duration) corev1.Pod {
		one := pod(waiting("ContainerCreating", ""))
		one.Name, one.CreationTimestamp = name, metav1.NewTime(started.Add(time.Minute-age))
		return one
	}
	sandbox := []corev1.Event{{Reason: "FailedCreatePodSandBox", Message: "Failed to create pod sandbox: no IP addresses for web/shop-6d-a"}}
	for name, test := range map[string]struct {
		pods   []corev1.Pod
		events []corev1.Event
		want   *Problem
	}{
		"all have a wrong port": {
			pods: []corev1.Pod{unready("shop-6d-b", "10.0.0.8", 0), unready("shop-6d-a", "10.0.0.7", time.Second),
				unready("shop-6d-c", "10.0.0.9", 0)},
			events: []corev1.Event{unhealthy(20, refused)},
			want: &Problem{"PodsNotReady",
				"3 of 3 pods: container webapp does not pass its readiness probe: dial tcp (pod):9090: connect: connection refused"}},
		"the others were created just now": {
			pods:   []corev1.Pod{creating("shop-6d-b", time.Second), creating("shop-6d-a", time.Minute), creating("shop-6d-c", 9*time.Second)},
			events: sandbox, want: &Problem{"SandboxError", "1 of 3 pods: Failed to create pod sandbox: no IP addresses for web/(pod)"}},
		"the others have no containers either": {
			pods:   []corev1.Pod{creating("shop-6d-b", 10*time.Second), creating("shop-6d-a", time.Minute)},
			events: sandbox, want: &Problem{"SandboxError", "2 of 2 pods: Failed to create pod sandbox: no IP addresses for web/(pod)"}},
		"all were created just now": {pods: []corev1.Pod{creating("shop-6d-b", time.Second)}, events: sandbox},
		"the oldest had a problem before its containers": {
			pods: []corev1.Pod{creating("shop-6d-b", 20*time.Second), unready("shop-6d-a", "10.0.0.7", 0)}, events: mounting("timed out"),
			want: &Problem{"PodsNotReady", "1 of 2 pods: container webapp does not pass its readiness probe"}},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := Evidence{Pods: test.pods, Containers: []corev1.Container{probed(byConnection, nil)}, Events: test.events,
				Now: started.Add(time.Minute)}
			if diff := cmp.Diff(test.want, FindProblem(evidence)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestASideCarThatDoesNotStart(t *testing.T) {
	one := pod(waiting("PodInitializing", ""))
	sidecar := unreadyPod(starting, wasRestarted).Status.ContainerStatuses[0]
	sidecar.Name = "proxy"
	migration := unreadyPod(starting).Status.ContainerStatuses[0]
	migration.Name = "migrate"
	one.Status.InitContainerStatuses = []corev1.ContainerStatus{migration}
	evidence := Evidence{Pods: []corev1.Pod{one}, Now: started.Add(time.Hour), Containers: []corev1.Container{{Name: "migrate"},
		{Name: "proxy", StartupProbe: slow, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, probed(byConnection, nil)}}
	if got := FindProblem(evidence); got != nil {
		t.Errorf("an init container that runs is a problem: %v", got)
	}
	evidence.Pods[0].Status.InitContainerStatuses = []corev1.ContainerStatus{sidecar}
	want := &Problem{"PodsNotReady", "1 of 1 pods: container proxy does not pass its startup probe"}
	if diff := cmp.Diff(want, FindProblem(evidence)); diff != "" {
		t.Error(diff)
	}
}

func TestASandboxThatCanNotBeCreated(t *testing.T) {
	for name, test := range map[string]struct{ message, want string }{
		"containerd's memory limit": {
			"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to start sandbox \"" + longID +
				"\": container init was OOM-killed (memory limit too low?): unknown",
			"1 of 1 pods: the memory limit is too low to start the pod: raise resources.limits.memory (Failed to create pod sandbox: failed to " +
				"start sandbox \"(id)\": container init was OOM-killed (memory limit too low?): unknown)"},
		"CRI-O's memory limit": {
			"Failed to create pod sandbox: rpc error: code = Unknown desc = set memory limit 1048576 too low; should be at least 12582912 bytes",
			"1 of 1 pods: the memory limit is too low to start the pod: raise resources.limits.memory (Failed to create pod sandbox: set " +
				"memory limit 1048576 too low; should be at least 12582912 bytes)"},
		"the network": {"Failed to create pod sandbox: plugin type=\"bridge\" failed: no IP addresses",
			"1 of 1 pods: Failed to create pod sandbox: plugin type=\"bridge\" failed: no IP addresses"},
	} {
		t.Run(name, func(t *testing.T) {
			evidence := Evidence{Pods: []corev1.Pod{pod()}, Events: []corev1.Event{{Reason: "FailedCreatePodSandBox", Message: test.message}}}
			if diff := cmp.Diff(&Problem{"SandboxError", test.want}, FindProblem(evidence)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAMissingClaimIsNoLackOfNodes(t *testing.T) {
	one := unscheduled()
	one.Status.Conditions[0].Message = `0/1 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/1 nodes are available`
	want := &Problem{"VolumeError", "1 of 1 pods: there is no PersistentVolumeClaim data in this namespace"}
	if diff := cmp.Diff(want, FindProblem(Evidence{Pods: []corev1.Pod{one}})); diff != "" {
		t.Error(diff)
	}
	one.Status.Conditions[0].Message = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No victims."
	want = &Problem{"Unschedulable", "1 of 1 pods: 0/1 nodes are available: 1 Insufficient cpu."}
	if diff := cmp.Diff(want, FindProblem(Evidence{Pods: []corev1.Pod{one}})); diff != "" {
		t.Error(diff)
	}
}

// TestACommandThatIsNotThereSaysTheSameInAllStages checks that the problem does not change while
// the kubelet tries, has failed and waits, or each turn would be an event.
func TestACommandThatIsNotThereSaysTheSameInAllStages(t *testing.T) {
	const runtime = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to ` +
		`start container process: error during container init: exec: "/bin/nope": stat /bin/nope: no such file or directory: unknown`
	ended := &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128, Message: runtime}
	tries, failed, waits := waiting("RunContainerError", runtime), down(0, 128), backingOff(2, 128)
	failed.State.Terminated, failed.LastTerminationState.Terminated = ended, nil
	waits.LastTerminationState.Terminated = ended
	again := waiting("RunContainerError", runtime)
	again.RestartCount, again.LastTerminationState.Terminated = 3, ended
	want := &Problem{"ContainerConfigError",
		`1 of 1 pods: container webapp can't be started: exec: "/bin/nope": stat /bin/nope: no such file or directory`}
	for i, stage := range []corev1.ContainerStatus{tries, failed, waits, again} {
		if diff := cmp.Diff(want, FindProblem(Evidence{Pods: []corev1.Pod{pod(stage)}})); diff != "" {
			t.Errorf("stage %d:\n%s", i, diff)
		}
	}
	works := upAgain(4, 128)
	works.LastTerminationState.Terminated, works.Ready = ended, true
	if got := FindProblem(Evidence{Pods: []corev1.Pod{pod(works)}}); got != nil {
		t.Errorf("once it runs: %v", got)
	}
}

func TestDetailsOfOthersAreShort(t *testing.T) {
	long := Evidence{Pods: []corev1.Pod{pod()}, Events: mounting(strings.Repeat("é", maxDetail))}
	if got := FindProblem(long); len(got.Message) > maxDetail+len("1 of 1 pods: ...") || !strings.HasSuffix(got.Message, "é...") {
		t.Errorf("%d bytes: %s", len(got.Message), got.Message)
	}
}
