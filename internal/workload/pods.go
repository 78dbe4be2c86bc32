// Package workload has what concerns the workloads of any owner: which configuration their pods were started with and
// when they are restarted for another (Decide), and what is wrong with a set of pods, in the words that a person
// would use. It is pure.
package workload

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// Trouble is what keeps some of a workload's pods from being ready.
type Problem struct {
	// Reason is one of the pod reasons of package api.
	Reason string
	// Message says what is wrong and where, in how many pods. It names no pod, for their
	// names change, and repeats no log or termination text, for secrets stand there.
	Message string
}

// precedence orders reasons from the one that most needs a person to the one that most
// likely passes: where pods have several, the first is told.
var precedence = []string{
	api.ReasonImagePullFailed,
	api.ReasonContainerConfigError,
	api.ReasonCrashLoop,
	api.ReasonVolumeError,
	api.ReasonUnschedulable,
	api.ReasonPodsNotReady,
}

// SeeLogs ends what is said of a container that keeps exiting.
const SeeLogs = " (kubectl logs --previous shows its last words)"

// FindTrouble returns the most telling trouble among pods, nil if there is none. Pods that
// are ending or have ended do not count, nor does one that is merely starting.
// mountProblem is what the cluster's events say of a pod that stays without containers;
// empty where nothing is known.
func FindProblem(pods []corev1.Pod, mountProblem string) *Problem {
	counts := map[Problem]int{}
	living := 0
	for i := range pods {
		pod := &pods[i]
		if !isLiving(pod) {
			continue
		}
		living++
		if trouble := problemOf(pod, mountProblem); trouble != nil {
			trouble.Message = WithoutIdentity(pod, trouble.Message)
			counts[*trouble]++
		}
	}
	var worst *Problem
	for trouble := range counts {
		if worst == nil || compare(trouble, *worst) < 0 {
			worst = &trouble
		}
	}
	if worst == nil {
		return nil
	}
	return &Problem{worst.Reason, fmt.Sprintf("%d of %d pods: %s", counts[*worst], living, worst.Message)}
}

// IsCreating reports whether a pod has a node and none of its containers has been made yet: volumes
// are being mounted or images pulled, and the pod itself does not tell what it waits for.
func IsCreating(pod *corev1.Pod) bool {
	if !isLiving(pod) || pod.Spec.NodeName == "" {
		return false
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return !slices.ContainsFunc(statuses, func(status corev1.ContainerStatus) bool {
		waiting := status.State.Waiting
		return waiting == nil || (waiting.Reason != "ContainerCreating" && waiting.Reason != "PodInitializing")
	})
}

func compare(a, b Problem) int {
	if order := slices.Index(precedence, a.Reason) - slices.Index(precedence, b.Reason); order != 0 {
		return order
	}
	return strings.Compare(a.Message, b.Message)
}

func isLiving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// troubleOf is the first thing wrong with one pod, in the order in which a pod comes to life.
func problemOf(pod *corev1.Pod, mountProblem string) *Problem {
	if scheduled := Condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return &Problem{api.ReasonUnschedulable, scheduled.Message}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if wasReady(pod, &status) {
			continue // it came up this time: earlier exits are not what is wrong now
		}
		if trouble := containerProblem(&status); trouble != nil {
			return trouble
		}
	}
	if mountProblem != "" && IsCreating(pod) {
		return &Problem{api.ReasonVolumeError, mountProblem}
	}
	return lostReadiness(pod)
}

// IsPullFailure tells that a container waits for this reason because its image can't be had. The reasons of waiting
// are the kubelet's (pkg/kubelet/images, kuberuntime, and k8s.io/cri-api/pkg/errors).
func IsPullFailure(reason string) bool {
	return slices.Contains([]string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed", "ImageVolumeMountFailed",
	}, reason)
}

// postStartFailed is the reason of waiting of a container whose hook failed.
const postStartFailed = "PostStartHookError"

// IsStartFailure tells that a container waits for this reason because it can't be made or started.
func IsStartFailure(reason string) bool {
	return slices.Contains([]string{
		"CreateContainerConfigError", "PreCreateHookError", "CreateContainerError", "PreStartHookError", "RunContainerError", postStartFailed,
	}, reason)
}

// containerTrouble tells what is wrong with one container. One exit is no loop yet. From the
// first back-off on, a container that is up again but not ready counts as crashing, so
// that the answer stays the same through the turns of a crash loop.
func containerProblem(status *corev1.ContainerStatus) *Problem {
	if waiting := status.State.Waiting; waiting != nil {
		switch {
		case IsPullFailure(waiting.Reason):
			return &Problem{api.ReasonImagePullFailed, fmt.Sprintf("image %s of container %s can't be pulled: %s", status.Image, status.Name,
				PullDetail(waiting.Message))}
		case IsStartFailure(waiting.Reason):
			return &Problem{api.ReasonContainerConfigError, fmt.Sprintf("container %s: %s", status.Name, StartDetail(waiting))}
		}
	}
	ended := status.LastTerminationState.Terminated
	if now := status.State.Terminated; now != nil {
		ended = now
	}
	backingOff := status.State.Waiting != nil && status.State.Waiting.Reason == "CrashLoopBackOff"
	if status.Ready || ended == nil || (!backingOff && status.RestartCount < 2) {
		return nil
	}
	return &Problem{api.ReasonCrashLoop, fmt.Sprintf("container %s keeps exiting: %s, exit code %d", status.Name, ended.Reason,
		ended.ExitCode) + SeeLogs}
}

// wasReady tells whether the pod was ready since a running container's last start: its Ready
// condition has turned False later than that.
func wasReady(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	ready := Condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && status.State.Running != nil &&
		ready.LastTransitionTime.After(status.State.Running.StartedAt.Time)
}

// readinessDelay is how much later than a pod's start its Ready condition may first be set.
// The kubelet does both within a second or two; times have whole seconds.
const readinessDelay = 5 * time.Second

// lostReadiness tells of a pod that was ready and no longer is: its Ready condition
// turned later than the pod was started.
func lostReadiness(pod *corev1.Pod) *Problem {
	ready := Condition(pod, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionFalse || pod.Status.StartTime == nil {
		return nil
	}
	if ready.LastTransitionTime.Sub(pod.Status.StartTime.Time) <= readinessDelay {
		return nil
	}
	return &Problem{api.ReasonPodsNotReady, "the pod was ready and no longer is: its readiness probe fails, or its node is lost"}
}

// Condition is a pod's condition of this type; nil if it has none.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// PullDetail is the cause in the kubelet's message. While it tries and while it waits, the
// kubelet frames the same cause differently: what follows the frame stays the same.
func PullDetail(message string) string {
	for _, frame := range []string{"ErrImagePull: ", "Back-off pulling image"} {
		if _, after, found := strings.Cut(message, frame); found && frame == "ErrImagePull: " {
			return after
		} else if found {
			return "the registry does not give it"
		}
	}
	return message
}

// containerID is how a runtime names a container or a sandbox; behind a colon the same digits are
// an image's digest.
var containerID = regexp.MustCompile(`(^|[^:0-9a-f])[0-9a-f]{64}\b`)

// localEndpoint is this side of a connection that failed ("read udp 10.0.0.7:50812->10.0.0.10:53"):
// its port is another at each try.
var localEndpoint = regexp.MustCompile(`\S+:[0-9]+->`)

// WithoutIdentity takes out of a message what is different for each pod and each try: the pod's
// name and uid, the ids of containers, and local ports. A name that is a mere word stays: nothing generated it, and
// the word may stand in the message for what it means ("failed to pull" of a pod named pull).
func WithoutIdentity(pod *corev1.Pod, message string) string {
	for _, identity := range []string{string(pod.UID), pod.Name} {
		if strings.Contains(identity, "-") {
			message = strings.ReplaceAll(message, identity, "(pod)")
		}
	}
	message = localEndpoint.ReplaceAllString(message, "")
	return containerID.ReplaceAllString(message, "$1(id)")
}

// WithoutPodNames takes the generated names of a workload's pods out of a message.
func WithoutPodNames(workload, message string) string {
	generated := regexp.MustCompile(regexp.QuoteMeta(workload) + `-[a-z0-9]{5,10}(-[a-z0-9]{5})?\b`)
	return generated.ReplaceAllString(message, workload+"-*")
}

// MountProblem is the latest failed mount among a pod's events, in words that are the same for
// each of a workload's pods; empty if there is none.
func MountProblem(pod *corev1.Pod, events []corev1.Event) string {
	latest := ""
	var at metav1.Time
	for _, event := range events {
		if latest == "" || at.Before(&event.LastTimestamp) {
			latest, at = event.Message, event.LastTimestamp
		}
	}
	// What follows lists volumes by generated names.
	latest, _, _ = strings.Cut(latest, ", unattached volumes=")
	return WithoutIdentity(pod, latest)
}

// StartDetail is why a container can't be made or started, without what the kubelet adds to name the pod. What a
// postStart hook has printed stands in the kubelet's message and is not repeated: secrets may be in it.
func StartDetail(waiting *corev1.ContainerStateWaiting) string {
	if waiting.Reason == postStartFailed {
		return "its postStart hook fails"
	}
	before, _, _ := strings.Cut(waiting.Message, " (pod: ")
	return before
}
