package farmpod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var began = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))

func after(passed time.Duration) metav1.Time { return metav1.NewTime(began.Add(passed)) }

type change func(*corev1.Pod)

// pod returns a Pod with changes. Its container web runs and is ready, on the node n1.
func pod(changes ...change) *corev1.Pod {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-1-x", UID: "5f0c7a3e-8d4b-4b61-9a55-2f0e5b6b1c11"},
		Spec:       corev1.PodSpec{NodeName: "n1", RestartPolicy: "Always", Containers: []corev1.Container{{Name: "web", Image: "shop:9"}}},
		Status: corev1.PodStatus{
			Phase: "Running", StartTime: &began, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true}},
			Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}, {Type: "ContainersReady", Status: "True"}},
		},
	}
	web(func(status *corev1.ContainerStatus) { status.State.Running = &corev1.ContainerStateRunning{} })(made)
	for _, each := range changes {
		each(made)
	}
	return made
}

// web returns a change of the first container's status.
func web(each func(*corev1.ContainerStatus)) change {
	return func(pod *corev1.Pod) { each(&pod.Status.ContainerStatuses[0]) }
}

func waits(reason, message string) func(*corev1.ContainerStatus) {
	return func(status *corev1.ContainerStatus) {
		status.Ready, status.State = false, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
}

func termination(reason string, code int32) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, FinishedAt: after(10 * time.Minute), Message: "password=hunter2"}
}

func exits(reason string, code int32) func(*corev1.ContainerStatus) {
	return func(status *corev1.ContainerStatus) {
		status.Ready, status.State = false, corev1.ContainerState{Terminated: termination(reason, code)}
	}
}

// was returns the change that a container has terminated before, and how often.
func was(reason string, code, restarts int32) change {
	return web(func(status *corev1.ContainerStatus) {
		status.RestartCount, status.LastTerminationState.Terminated = restarts, termination(reason, code)
	})
}

func runsUnready(status *corev1.ContainerStatus) { status.Ready, status.Started = false, new(true) }

func phaseIs(phase corev1.PodPhase, reason, message string) change {
	return func(pod *corev1.Pod) {
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = phase, reason, message
	}
}

func isNamed(name string) change {
	return func(pod *corev1.Pod) { pod.Name = name }
}

func has(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) change {
	return func(pod *corev1.Pod) {
		for i := range pod.Status.Conditions {
			if pod.Status.Conditions[i].Type == kind {
				pod.Status.Conditions[i].Status, pod.Status.Conditions[i].Reason, pod.Status.Conditions[i].Message = status, reason, message
				return
			}
		}
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func neverRestarts(pod *corev1.Pod) { pod.Spec.RestartPolicy = "Never" }

func hasProbes(pod *corev1.Pod) {
	pod.Spec.Containers[0].ReadinessProbe, pod.Spec.Containers[0].StartupProbe = &corev1.Probe{}, &corev1.Probe{}
}

// hasProxy adds a second container, which is ready.
func hasProxy(pod *corev1.Pod) {
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
	pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "proxy", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	})
}

// unscheduledPod has no node and no statuses.
func unscheduledPod(pod *corev1.Pod) {
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: "Pending"}
}

// starts adds three init containers: a completed one, the one to change, and one that waits. side
// makes the second a side-car.
func starts(side bool, each func(*corev1.ContainerStatus)) change {
	return func(pod *corev1.Pod) {
		pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "first:1"}, {Name: "migrate", Image: "migrate:1"},
			{Name: "last", Image: "last:1"}}
		if side {
			pod.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first"}, {Name: "migrate"}, {Name: "last"}}
		exits("Completed", 0)(&pod.Status.InitContainerStatuses[0])
		each(&pod.Status.InitContainerStatuses[1])
		waits("PodInitializing", "")(&pod.Status.InitContainerStatuses[2])
		pod.Status.Phase = "Pending"
		has("Initialized", "False", "", "")(pod)
		web(waits("PodInitializing", ""))(pod)
	}
}

func runs(status *corev1.ContainerStatus) { status.State.Running = &corev1.ContainerStateRunning{} }

func deleted(finalizers ...string) change {
	return func(pod *corev1.Pod) { pod.DeletionTimestamp, pod.Finalizers = &began, finalizers }
}

var reasonCases = map[string]struct {
	pod  *corev1.Pod
	want string
}{
	"a healthy Pod":                    {pod(), ""},
	"a healthy Pod that has restarted": {pod(was("Error", 1, 5)), ""},
	"a Pod that did its work":          {pod(phaseIs("Succeeded", "", ""), web(exits("Completed", 0))), "Completed"},
	"a container that did its work":    {pod(neverRestarts, hasProxy, web(exits("Completed", 0))), ""},
	"deleted":                          {pod(deleted()), "Terminating"},
	"deleted and held": {pod(deleted("batch.kubernetes.io/job-tracking", "example.com/x")),
		"Terminating: held by finalizer batch.kubernetes.io/job-tracking, example.com/x"},
	"deleted for a pod that matters more": {pod(deleted(), has("DisruptionTarget", "True", "PreemptionByScheduler", "")),
		"Terminating: preempted for a pod of higher priority"},
	"deleted on a node that is silent": {pod(deleted("a/b"), has("Ready", "False", "", "")),
		"Terminating: node n1 does not answer; held by finalizer a/b"},
	"evicted": {
		pod(phaseIs("Failed", "Evicted", "The node was low on resource: memory. ")), "Evicted: The node was low on resource: memory.",
	},
	"preempted by the kubelet": {
		pod(phaseIs("Failed", "Preempting", "Preempted in order to admit critical pod")), "Preempting: Preempted in order to admit critical pod",
	},
	"too long": {
		pod(phaseIs("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")),
		"DeadlineExceeded: Pod was active on the node longer than the specified deadline",
	},
	"failed and lost": {pod(phaseIs("Failed", "NodeLost", "")), "NodeLost"},
	"failed":          {pod(neverRestarts, phaseIs("Failed", "", ""), web(exits("Error", 3))), "Error: exit 3"},
	"failed, one of two": {pod(neverRestarts, hasProxy, phaseIs("Failed", "", ""), web(exits("Error", 3))),
		"Error: container web: exit 3"},
	"failed by a signal": {pod(neverRestarts, phaseIs("Failed", "", ""), web(exits("Error", 143))),
		"Error: exit 143, signal 15"},
	"failed for want of memory": {pod(neverRestarts, phaseIs("Failed", "", ""), web(exits("OOMKilled", 137))), "OOMKilled: exit 137"},
	"failed without an exit": {pod(phaseIs("Failed", "", ""), has("DisruptionTarget", "True", "DeletionByPodGC", "")),
		"Failed: its node is gone"},
	"failed without anything":           {pod(phaseIs("Failed", "", "")), "Failed"},
	"of an unknown phase":               {pod(phaseIs("Unknown", "", "")), "NodeLost: node n1 does not answer"},
	"running, with NodeLost":            {pod(phaseIs("Running", "NodeLost", "")), "NodeLost: node n1 does not answer"},
	"made unready by the control plane": {pod(has("Ready", "False", "", "")), "NodeLost: node n1 does not answer"},
	"not seen by a scheduler":           {pod(unscheduledPod), "Pending: waits for the scheduler"},
	"not seen by a scheduler of its own": {pod(unscheduledPod, func(pod *corev1.Pod) { pod.Spec.SchedulerName = "batch" }),
		"Pending: waits for the scheduler batch"},
	"not seen by the node": {pod(func(pod *corev1.Pod) { pod.Status = corev1.PodStatus{Phase: "Pending"} }),
		"Pending: waits for node n1"},
	"held back from the scheduler": {pod(unscheduledPod, func(pod *corev1.Pod) {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}, {Name: "c/d"}}
	}), "SchedulingGated: waits for a/b, c/d"},
	"an image that is not there":       {pod(web(waits("ErrImagePull", "not found"))), "ErrImagePull: image shop:9: not found"},
	"an image that has not been there": {pod(web(waits("ImagePullBackOff", `Back-off pulling image "shop:9": ErrImagePull: not found`))), "ImagePullBackOff: image shop:9: not found"},
	"the image of one of two": {pod(hasProxy, web(waits("ErrImagePull", "not found"))),
		"ErrImagePull: container web: image shop:9: not found"},
	"a Secret that is not there":    {pod(web(waits("CreateContainerConfigError", `secret "db" not found`))), `CreateContainerConfigError: secret "db" not found`},
	"a hook that fails":             {pod(web(waits("PostStartHookError", `Exec lifecycle hook failed, message: "hunter2"`))), "PostStartHookError: its postStart hook fails"},
	"waiting for an unknown reason": {pod(web(waits("Meditating", "hunter2"))), "Meditating: container web"},
	"a crash loop": {pod(was("Error", 1, 5), web(waits("CrashLoopBackOff", "back-off"))),
		"CrashLoopBackOff: exit 1, 5 restarts in 10 min"},
	"a crash loop, one of two": {pod(hasProxy, was("Error", 1, 1), web(waits("CrashLoopBackOff", ""))),
		"CrashLoopBackOff: container web: exit 1, 1 restart in 10 min"},
	"a crash loop for want of memory": {pod(was("OOMKilled", 137, 5), web(waits("CrashLoopBackOff", ""))),
		"CrashLoopBackOff: OOMKilled, exit 137, 5 restarts in 10 min"},
	"a crash loop by a signal": {pod(was("Error", 139, 5), web(waits("CrashLoopBackOff", ""))),
		"CrashLoopBackOff: exit 139, signal 11, 5 restarts in 10 min"},
	"a crash loop without a command": {pod(was("StartError", 128, 5), web(waits("CrashLoopBackOff", ""))),
		"CrashLoopBackOff: StartError, exit 128, 5 restarts in 10 min"},
	"a crash loop of successes": {pod(was("Completed", 0, 5), web(waits("CrashLoopBackOff", ""))),
		"CrashLoopBackOff: exit 0, 5 restarts in 10 min"},
	"just ended":                         {pod(was("Error", 1, 5), web(exits("OOMKilled", 137))), "OOMKilled: exit 137, 5 restarts in 10 min"},
	"just terminated, and not restarted": {pod(web(exits("Error", 1))), "Error: exit 1"},
	"restarted, and not ready": {pod(hasProbes, was("Error", 1, 5), has("Ready", "False", "", ""),
		has("ContainersReady", "False", "", ""), web(runsUnready)),
		"NotReady: container web does not pass its readiness probe, after exit 1, 5 restarts in 10 min"},
	"up, and not ready": {pod(hasProbes, has("Ready", "False", "", ""), has("ContainersReady", "False", "", ""),
		web(runsUnready)), "NotReady: container web does not pass its readiness probe"},
	"up, and not started": {pod(hasProbes, has("Ready", "False", "", ""), has("ContainersReady", "False", "", ""),
		web(runsUnready), web(func(status *corev1.ContainerStatus) { status.Started = new(false) })),
		"NotReady: container web does not pass its startup probe"},
	"up just now": {pod(has("Ready", "False", "", ""), has("ContainersReady", "False", "", ""), web(runsUnready)),
		"NotReady: container web has just started"},
	"not let in by a gate": {pod(has("Ready", "False", "", ""), func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/ready"}}
	}), "NotReady: readiness gate lb/ready is not passed"},
	"let in by a gate": {pod(has("lb/ready", "True", "", ""), func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/ready"}}
	}), ""},
	"let in by a gate just now": {pod(has("lb/ready", "True", "", ""), has("Ready", "False", "ReadinessGatesNotReady", ""),
		func(pod *corev1.Pod) {
			pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/ready"}}
		}), ""},
	"on a silent node, after a gate": {pod(has("lb/ready", "True", "", ""), has("Ready", "False", "", ""), func(pod *corev1.Pod) {
		pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "lb/ready"}}
	}), "NodeLost: node n1 does not answer"},
	"being created, before the sandbox": {pod(web(waits("ContainerCreating", ""))),
		"ContainerCreating: its volumes or its network are being set up"},
	"being created, after the sandbox": {pod(web(waits("ContainerCreating", "")), has("PodReadyToStartContainers", "True", "", "")),
		"ContainerCreating: image shop:9 of container web is being pulled, or the container created"},
	"an init container that runs": {pod(starts(false, runs)), "Init:1/3: container migrate runs"},
	"an init container that will": {pod(starts(false, waits("PodInitializing", ""))), "Init:1/3: container migrate is about to start"},
	"an init container that loops": {pod(starts(false, func(status *corev1.ContainerStatus) {
		waits("CrashLoopBackOff", "")(status)
		status.RestartCount, status.LastTerminationState.Terminated = 3, termination("Error", 2)
	})), "Init:CrashLoopBackOff: container migrate: exit 2, 3 restarts in 10 min"},
	"an init container that has failed": {pod(starts(false, exits("Error", 2))), "Init:Error: container migrate: exit 2"},
	"an init container without an image": {pod(starts(false, waits("ErrImagePull", "not found"))),
		"Init:ErrImagePull: container migrate: image migrate:1: not found"},
	"an init container that is retried": {pod(starts(false, func(status *corev1.ContainerStatus) {
		runs(status)
		status.RestartCount, status.LastTerminationState.Terminated = 3, termination("Error", 2)
	})), "Init:1/3: container migrate runs, after exit 2, 3 restarts in 10 min"},
	"a side-car that has not come up": {pod(starts(true, runs)), "Init:1/3: container migrate has not started yet"},
	"a side-car that has": {pod(starts(true, func(status *corev1.ContainerStatus) { runs(status); status.Started = new(true) })),
		"Init:2/3: container last is about to start"},
	"a message that repeats a container's": {pod(web(waits("RunContainerError", `runc: "password=hunter2": not found`)), func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = termination("StartError", 128)
	}), "RunContainerError: see kubectl describe pod"},
	"a message with a word that is the Pod's name": {pod(isNamed("taken"), web(waits("CreateContainerError", `name "web" is taken`))), `CreateContainerError: name "web" is taken`},
	"a message that names the Pod":                 {pod(web(waits("CreateContainerError", `name "web_shop-1-x_web" is taken`))), `CreateContainerError: name "web_(pod)_web" is taken`},
	"no node has room": {
		pod(unscheduledPod, has("PodScheduled", "False", "Unschedulable",
			"0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 No victims.")),
		"Unschedulable: 0/3 nodes are available: 3 Insufficient cpu.",
	},
}

func TestReason(t *testing.T) {
	for name, test := range reasonCases {
		t.Run(name, func(t *testing.T) {
			if got := reason(test.pod); got != test.want {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	for length, want := range map[time.Duration]string{
		0: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min", 119 * time.Minute: "119 min", 2 * time.Hour: "2 h", 47 * time.Hour: "47 h",
		48 * time.Hour: "2 d",
	} {
		if got := span(length); got != want {
			t.Errorf("%s: got %q, want %q", length, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for given, want := range map[string]string{"": "", "abcdef": "abcdef", "abcdefg": "abc...", "ab\u00fcdefg": "ab..."} {
		if got := cut(given, 6); got != want {
			t.Errorf("%q: got %q, want %q", given, got, want)
		}
	}
	if long := reason(pod(phaseIs("Failed", "Evicted", strings.Repeat("x", 1000)))); len(long) != len("Evicted: ")+300 {
		t.Errorf("a reason has %d bytes", len(long))
	}
}
