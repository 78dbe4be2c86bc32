package workload

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	podName = "shop-6c5d8f7b9-x2x7k"
	podUID  = "5f0c7a3e-8d4b-4b61-9a55-2f0e5b6b1c11"
	longID  = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
)

// pod returns a pod on a node, with these containers.
func pod(containers ...corev1.ContainerStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName, UID: podUID},
		Spec:       corev1.PodSpec{NodeName: "n1"},
		Status:     corev1.PodStatus{Phase: "Running", ContainerStatuses: containers},
	}
}

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "webapp", Image: "shop:9",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}
}

func exited(code int32) *corev1.ContainerStateTerminated {
	reason := "Error"
	if code == 0 {
		reason = "Completed"
	}
	return &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code, Message: "password=hunter2"}
}

// The stages of a crash loop, as the kubelet reports them one after the other.
func backingOff(restarts, code int32) corev1.ContainerStatus {
	status := waiting("CrashLoopBackOff", "back-off 20s restarting failed container=webapp pod="+podName+"_web("+podUID+")")
	status.RestartCount, status.LastTerminationState.Terminated = restarts, exited(code)
	return status
}

func upAgain(restarts, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "webapp", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		LastTerminationState: corev1.ContainerState{Terminated: exited(code)},
	}
}

func down(restarts, code int32) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name: "webapp", RestartCount: restarts, State: corev1.ContainerState{Terminated: exited(code)},
		LastTerminationState: corev1.ContainerState{Terminated: exited(code)},
	}
}

func unscheduled() corev1.Pod {
	one := pod()
	one.Spec.NodeName, one.Status.Phase = "", "Pending"
	one.Status.Conditions = []corev1.PodCondition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable",
		Message: "0/3 nodes are available: 3 Insufficient cpu."}}
	return one
}

// lost returns a pod whose Ready condition became false that long after its start.
func lost(after time.Duration) corev1.Pod {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one := pod(corev1.ContainerStatus{Name: "webapp", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
	one.Status.StartTime = &metav1.Time{Time: start}
	one.Status.Conditions = []corev1.PodCondition{{Type: "Ready", Status: "False", LastTransitionTime: metav1.NewTime(start.Add(after))}}
	return one
}

// mounting returns the event about a failed mount; none for an empty message.
func mounting(message string) []corev1.Event {
	if message == "" {
		return nil
	}
	return []corev1.Event{{Reason: "FailedMount", Message: message}}
}

const (
	keepsExiting = " (see kubectl logs --previous)"
	pullFailed   = "1 of 1 pods: image shop:9 of container webapp can't be pulled: "
)

func initFailing() corev1.Pod {
	one := pod()
	one.Status.InitContainerStatuses = []corev1.ContainerStatus{backingOff(3, 2)}
	return one
}

func healthy() corev1.Pod {
	return pod(corev1.ContainerStatus{Name: "webapp", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
}

func recovered() corev1.Pod {
	one := pod(upAgain(7, 1))
	one.Status.ContainerStatuses[0].Ready = true
	return one
}

var troubleCases = map[string]struct {
	pods    []corev1.Pod
	mount   string
	reason  string
	message string
}{
	"no pods have no problem":       {},
	"a ready pod has no problem":    {pods: []corev1.Pod{healthy()}},
	"a starting pod has no problem": {pods: []corev1.Pod{pod(waiting("ContainerCreating", ""))}},
	"an image that is not found": {
		pods: []corev1.Pod{pod(waiting("ErrImagePull", "not found"))}, reason: "ImagePullFailed", message: pullFailed + "not found",
	},
	"an image while the kubelet waits has the same cause": {
		pods:   []corev1.Pod{pod(waiting("ImagePullBackOff", `Back-off pulling image "shop:9": ErrImagePull: not found`))},
		reason: "ImagePullFailed", message: pullFailed + "not found",
	},
	"an image without a reported cause": {
		pods:   []corev1.Pod{pod(waiting("ImagePullBackOff", `Back-off pulling image "shop:9"`))},
		reason: "ImagePullFailed", message: pullFailed + "the registry does not provide it",
	},
	"a name that is no image's": {pods: []corev1.Pod{pod(waiting("InvalidImageName", "bad"))}, reason: "ImagePullFailed",
		message: pullFailed + "bad"},
	"an image that is never pulled": {pods: []corev1.Pod{pod(waiting("ErrImageNeverPull", "absent"))}, reason: "ImagePullFailed",
		message: pullFailed + "absent"},
	"a registry that is unavailable": {pods: []corev1.Pod{pod(waiting("RegistryUnavailable", "away"))}, reason: "ImagePullFailed",
		message: pullFailed + "away"},
	"a signature that is invalid": {pods: []corev1.Pod{pod(waiting("SignatureValidationFailed", "no"))}, reason: "ImagePullFailed",
		message: pullFailed + "no"},
	"an image that can't be inspected": {pods: []corev1.Pod{pod(waiting("ImageInspectError", "broken"))}, reason: "ImagePullFailed",
		message: pullFailed + "broken"},
	"a missing Secret": {
		pods: []corev1.Pod{pod(waiting("CreateContainerConfigError", `secret "db" not found`))}, reason: "ContainerConfigError",
		message: `1 of 1 pods: container webapp: secret "db" not found`,
	},
	"a kubelet that names the pod is cut short": {
		pods:   []corev1.Pod{pod(waiting("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "`+podName+`_web(`+podUID+`)", container: webapp)`))},
		reason: "ContainerConfigError", message: "1 of 1 pods: container webapp: container has runAsNonRoot and image will run as root",
	},
	"a runtime that names pod and container is made anonymous": {
		pods:   []corev1.Pod{pod(waiting("CreateContainerError", `name "webapp_`+podName+`_web_`+podUID+`_0" is reserved for "`+longID+`"`))},
		reason: "ContainerConfigError", message: `1 of 1 pods: container webapp: name "webapp_(pod)_web_(pod)_0" is reserved for "(id)"`,
	},
	"a digest is no container's id": {
		pods: []corev1.Pod{pod(waiting("ErrImagePull", "a@sha256:"+longID+" not found"))}, reason: "ImagePullFailed", message: pullFailed +
			"a@sha256:" + longID + " not found",
	},
	"a command that is not there": {
		pods: []corev1.Pod{pod(waiting("RunContainerError",
			"exec: not found"))}, reason: "ContainerConfigError", message: "1 of 1 pods: container webapp can't be started: exec: not found",
	},
	"what a hook prints is not repeated": {
		pods:   []corev1.Pod{pod(waiting("PostStartHookError", `Exec lifecycle hook ([migrate]) failed - error: exited with 1, message: "password=hunter2"`))},
		reason: "ContainerConfigError", message: "1 of 1 pods: container webapp: its postStart hook fails",
	},
	"one exit is no loop":        {pods: []corev1.Pod{pod(upAgain(1, 1))}},
	"one exit just now is none":  {pods: []corev1.Pod{pod(down(0, 1))}},
	"many exits of old are none": {pods: []corev1.Pod{recovered()}},
	"a crash loop": {
		pods: []corev1.Pod{pod(backingOff(1, 3))}, reason: "CrashLoop",
		message: "1 of 1 pods: container webapp keeps exiting: Error, exit code 3" + keepsExiting,
	},
	"a crash loop of an init container": {
		pods: []corev1.Pod{initFailing()}, reason: "CrashLoop",
		message: "1 of 1 pods: container webapp keeps exiting: Error, exit code 2" + keepsExiting,
	},
	"a volume that can't be mounted": {
		pods: []corev1.Pod{pod()}, mount: `secret "tls" not found`, reason: "VolumeError", message: `1 of 1 pods: secret "tls" not found`,
	},
	"a mount that names the pod is made anonymous": {
		pods: []corev1.Pod{pod()}, mount: "mount failed: /var/lib/kubelet/pods/" + podUID +
			"/x", reason: "VolumeError", message: "1 of 1 pods: mount failed: /var/lib/kubelet/pods/(pod)/x",
	},
	"a mount problem of old, with containers there, is none": {pods: []corev1.Pod{healthy()}, mount: "x"},
	"a pod that no node takes": {
		pods: []corev1.Pod{unscheduled()}, reason: "Unschedulable", message: "1 of 1 pods: 0/3 nodes are available: 3 Insufficient cpu.",
	},
	"a pod that was ready": {
		pods: []corev1.Pod{lost(time.Minute)}, reason: "PodsNotReady",
		message: "1 of 1 pods: the pod was ready and no longer is: its readiness probe fails, or its node is lost",
	},
	"a pod that never was ready is starting": {pods: []corev1.Pod{lost(2 * time.Second)}},
	"all pods with one problem are counted": {
		pods: []corev1.Pod{pod(backingOff(3, 1)), healthy(), pod(upAgain(4, 1))}, reason: "CrashLoop",
		message: "2 of 3 pods: container webapp keeps exiting: Error, exit code 1" + keepsExiting,
	},
}

func TestFindProblem(t *testing.T) {
	for name, test := range troubleCases {
		t.Run(name, func(t *testing.T) {
			var want *Problem
			if test.reason != "" {
				want = &Problem{test.reason, test.message}
			}
			if diff := cmp.Diff(want, FindProblem(Evidence{Pods: test.pods, Events: mounting(test.mount)})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestPrecedence has one pod with each problem, and removes the reported one, one by one.
func TestPrecedence(t *testing.T) {
	const mount = "not mounted"
	troubles := map[string]corev1.Pod{
		"ImagePullFailed": pod(waiting("ErrImagePull", "x")), "ContainerConfigError": pod(waiting("CreateContainerConfigError", "x")),
		"CrashLoop": pod(backingOff(2, 1)), "VolumeError": pod(), "Unschedulable": unscheduled(), "PodsNotReady": lost(time.Minute),
	}
	for _, reason := range []string{"ImagePullFailed", "ContainerConfigError", "CrashLoop", "VolumeError", "Unschedulable", "PodsNotReady"} {
		var pods []corev1.Pod
		for _, one := range troubles {
			pods = append(pods, one)
		}
		for range 5 {
			if got := FindProblem(Evidence{Pods: pods, Events: mounting(mount)}); got == nil || got.Reason != reason {
				t.Fatalf("got %v, want %s", got, reason)
			}
			slices.Reverse(pods)
		}
		delete(troubles, reason)
	}
}

// TestTheSameProblemSaysTheSame: of two messages under one reason always the same one is reported,
// or the status would be written for ever.
func TestTheSameProblemSaysTheSame(t *testing.T) {
	pods := []corev1.Pod{pod(waiting("ErrImagePull", "b")), pod(waiting("ErrImagePull", "a"))}
	for range 50 {
		if got := FindProblem(Evidence{Pods: pods}); !strings.HasSuffix(got.Message, "pulled: a") {
			t.Fatalf("got %s", got.Message)
		}
	}
}

func TestACrashLoopSaysTheSameInAllStages(t *testing.T) {
	for name, code := range map[string]int32{"that fails": 1, "that ends well": 0} {
		t.Run(name, func(t *testing.T) {
			turns := []corev1.ContainerStatus{backingOff(1, code), upAgain(2, code), down(2, code), backingOff(2, code), upAgain(3, code),
				down(3, code), backingOff(3, code)}
			first := FindProblem(Evidence{Pods: []corev1.Pod{pod(turns[0])}})
			if first == nil || first.Reason != "CrashLoop" {
				t.Fatalf("got %v", first)
			}
			for i, turn := range turns {
				if diff := cmp.Diff(first, FindProblem(Evidence{Pods: []corev1.Pod{pod(turn)}})); diff != "" {
					t.Errorf("turn %d:\n%s", i, diff)
				}
			}
			for _, secret := range []string{"hunter2", podName, podUID} {
				if strings.Contains(first.Message, secret) {
					t.Errorf("%q tells %q", first.Message, secret)
				}
			}
		})
	}
}

func TestPodsThatEndDoNotCount(t *testing.T) {
	for name, end := range map[string]func(*corev1.Pod){
		"deleted":   func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
		"evicted":   func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = "Failed", "Evicted" },
		"completed": func(p *corev1.Pod) { p.Status.Phase = "Succeeded" },
	} {
		t.Run(name, func(t *testing.T) {
			one := pod(backingOff(3, 1))
			if got := FindProblem(Evidence{Pods: []corev1.Pod{one}}); got == nil {
				t.Fatal("the pod has no problem to begin with")
			}
			end(&one)
			if got := FindProblem(Evidence{Pods: []corev1.Pod{one}}); got != nil {
				t.Errorf("got %v", got)
			}
			got := FindProblem(Evidence{Pods: []corev1.Pod{one, pod(backingOff(3, 1))}})
			if got == nil || !strings.HasPrefix(got.Message, "1 of 1 pods") {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestWithoutPodNames: the names of pods differ each time. Those of others are what a user needs.
func TestWithoutPodNames(t *testing.T) {
	for message, want := range map[string]string{
		`pods "shop-6d4cf56db6-x2x7k" is forbidden: exceeded quota: shop-quota, requested: pods=1, used: pods=4, limited: pods=4`: `pods "shop-*" ` +
			`is forbidden: exceeded quota: shop-quota, requested: pods=1, used: pods=4, limited: pods=4`,
		`pods "shop-6d4cf56db6-" is forbidden: error looking up service account web/shop-backend: serviceaccount "shop-backend" not found`: `pods ` +
			`"shop-*-" is forbidden: error looking up service account web/shop-backend: serviceaccount "shop-backend" not found`,
		`admission webhook "images.shop-policy.example" denied the request: pod web/shop-6d4cf56db6-x2x7k`: `admission webhook ` +
			`"images.shop-policy.example" denied the request: pod web/shop-*`,
		"exceeded quota: workshop-bcdfg": "exceeded quota: workshop-bcdfg",
	} {
		if got := WithoutPodNames("shop", message); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestIsCreating(t *testing.T) {
	initDone := pod(waiting("PodInitializing", ""))
	initDone.Status.InitContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: exited(0)}}}
	initWaits := pod(waiting("PodInitializing", ""))
	initWaits.Status.InitContainerStatuses = []corev1.ContainerStatus{waiting("ContainerCreating", "")}
	deleted := pod()
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"with a node and no statuses":      {pod(), true},
		"while its container is made":      {pod(waiting("ContainerCreating", "")), true},
		"while its init container is made": {initWaits, true},
		"not once an init container ran":   {initDone, false},
		"not without a node":               {unscheduled(), false},
		"not while an image fails":         {pod(waiting("ErrImagePull", "")), false},
		"not once it runs":                 {pod(upAgain(0, 0)), false},
		"not when it is deleted":           {deleted, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsCreating(&test.pod); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}
