// Package workload decides about the workloads of any owner: which configuration their pods were
// started with, when they are restarted for another (Decide), and what is wrong with a set of pods,
// in words for humans. It does no I/O.
package workload

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// Problem is what keeps some of a workload's pods from being ready.
type Problem struct {
	// Reason is one of the pod reasons of package api.
	Reason string
	// Message says what is wrong, where, and in how many pods. It contains no pod names, because they
	// change, and no log or termination text, because that may contain secrets.
	Message string
}

// precedence sorts reasons from the one that most needs a user's action to the one that most likely
// passes. The first one of a workload's pods is reported.
var precedence = []string{
	api.ReasonImagePullFailed,
	api.ReasonContainerConfigError,
	api.ReasonCrashLoop,
	api.ReasonSandboxError,
	api.ReasonVolumeError,
	api.ReasonUnschedulable,
	api.ReasonPodsNotReady,
}

// SeeLogs ends the message about a container that keeps exiting.
const SeeLogs = " (see kubectl logs --previous)"

// Evidence is what is known of the pods of a workload.
type Evidence struct {
	Pods []corev1.Pod
	// Containers are those of the pods, init containers included. Their probes say how long a start
	// may take, and what of their failures may be repeated.
	Containers []corev1.Container
	// Events are the warnings about the pod that Unexplained returned; nil if nothing is known.
	Events []corev1.Event
	// Notes are added to the message about a container that keeps exiting, by the container's name.
	Notes map[string]string
	// Now is when this was observed. If it is zero, pods that have not been ready yet are starting.
	Now time.Time
	// Changed is when we changed the workload last; zero if that is not known.
	Changed time.Time
}

// settling is how long after a change of a workload the problems of older pods do not count: they
// may be of the template before, and about to be deleted. The controllers of Kubernetes take a
// second or two for that. A pod does not say which template it is of: its image and its labels may
// have been changed by an admission webhook.
const settling = 10 * time.Second

// isSettling reports whether a pod is older than a change of its workload that has just been made.
// A clock that differs from the API server's by more does not hide problems.
func (e Evidence) isSettling(pod *corev1.Pod) bool {
	return e.Now.Sub(e.Changed).Abs() < settling && pod.CreationTimestamp.Time.Before(e.Changed)
}

// FindProblem returns the most important problem among pods, or nil. It ignores pods that are
// terminating or have terminated, pods that are just starting, and pods that may be about to be
// replaced.
func FindProblem(evidence Evidence) *Problem {
	counts := map[Problem]int{}
	living := 0
	explained := evidence.Unexplained()
	for i := range evidence.Pods {
		pod := &evidence.Pods[i]
		if !isLiving(pod) {
			continue
		}
		living++
		if problem := evidence.problemOf(pod, explained); problem != nil && !evidence.isSettling(pod) {
			problem.Message = WithoutIdentity(pod, problem.Message)
			counts[*problem]++
		}
	}
	return mostImportant(counts, living)
}

// mostImportant returns the most important of some problems, with the number of pods that have it;
// nil if there are none.
func mostImportant(counts map[Problem]int, living int) *Problem {
	var worst *Problem
	for problem := range counts {
		if worst == nil || compare(problem, *worst) < 0 {
			worst = &problem
		}
	}
	if worst == nil {
		return nil
	}
	return &Problem{worst.Reason, fmt.Sprintf("%d of %d pods: %s", counts[*worst], living, worst.Message)}
}

// IsCreating reports whether a pod has a node, but none of its containers has been created yet:
// volumes are being mounted or images pulled, and the pod's status does not say what it waits for.
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

// HaveExits reports whether a container of the pods has exited, for whatever reason.
func HaveExits(pods []corev1.Pod) bool {
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool {
		return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses),
			func(status corev1.ContainerStatus) bool {
				return status.RestartCount > 0 || status.State.Terminated != nil
			})
	})
}

// Unfinished returns the number of pods that have not terminated yet; terminating ones count.
func Unfinished(pods []corev1.Pod) int32 {
	count := int32(0)
	for i := range pods {
		if phase := pods[i].Status.Phase; phase != corev1.PodFailed && phase != corev1.PodSucceeded {
			count++
		}
	}
	return count
}

func isLiving(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// problemOf returns the first problem of one pod, in the order of a pod's startup. explained is the
// pod that the events are about; nil if that is not known. What its events say is said of the
// others that are in the same state, too, in the same words, so that they count as one problem.
func (e Evidence) problemOf(pod, explained *corev1.Pod) *Problem {
	explained = cmp.Or(explained, pod)
	if scheduled := Condition(pod, corev1.PodScheduled); scheduled != nil && scheduled.Status == corev1.ConditionFalse {
		return schedulingProblem(scheduled.Message)
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if wasReady(pod, &status) {
			continue // it became ready this time: earlier exits are not the problem now
		}
		if problem := containerProblem(&status, e.Notes[status.Name]); problem != nil {
			return problem
		}
	}
	if IsCreating(pod) {
		return e.creationProblem(pod, explained)
	}
	if unready := e.unready(pod); unready != nil {
		return &Problem{api.ReasonPodsNotReady, unready.message(explained, e.Events)}
	}
	return lostReadiness(pod)
}

// IsPullFailure reports whether a container with this waiting reason lacks its image. The waiting
// reasons are the kubelet's (pkg/kubelet/images, kuberuntime, and k8s.io/cri-api/pkg/errors).
func IsPullFailure(reason string) bool {
	return slices.Contains([]string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		"SignatureValidationFailed", "ImageVolumeMountFailed",
	}, reason)
}

// postStartFailed is the waiting reason of a container whose postStart hook failed.
const postStartFailed = "PostStartHookError"

// IsStartFailure reports whether a container with this waiting reason can't be created or started.
func IsStartFailure(reason string) bool {
	return slices.Contains([]string{
		"CreateContainerConfigError", "PreCreateHookError", "CreateContainerError", "PreStartHookError", "RunContainerError", postStartFailed,
	}, reason)
}

// containerProblem returns the problem of one container. A single exit is no crash loop yet. From
// the first back-off on, a container that runs again but is not ready counts as crashing, so that
// the result does not change during a crash loop. note is added to the message about one.
func containerProblem(status *corev1.ContainerStatus, note string) *Problem {
	if detail := neverStarted(status); detail != "" {
		return &Problem{api.ReasonContainerConfigError, fmt.Sprintf("container %s can't be started: %s", status.Name, detail)}
	}
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
	return crashLoop(status, ended, note)
}

func crashLoop(status *corev1.ContainerStatus, ended *corev1.ContainerStateTerminated, note string) *Problem {
	return &Problem{api.ReasonCrashLoop, fmt.Sprintf("container %s keeps exiting: %s, exit code %d", status.Name, ended.Reason,
		ended.ExitCode) + SeeLogs + note}
}

// wasReady reports whether the pod was ready since the last start of a running container: its Ready
// condition became False after that.
func wasReady(pod *corev1.Pod, status *corev1.ContainerStatus) bool {
	ready := Condition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionFalse && status.State.Running != nil &&
		ready.LastTransitionTime.After(status.State.Running.StartedAt.Time)
}

// readinessDelay is how long after a pod's start its Ready condition may first be set. The kubelet
// does both within a second or two; times have whole seconds.
const readinessDelay = 5 * time.Second

// lostReadiness returns the problem of a pod that was ready and no longer is: its Ready condition
// changed later than the pod was started.
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

// Condition returns the pod's condition of a type, or nil.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// PullDetail returns the cause in the kubelet's message. The kubelet frames the same cause
// differently while it tries and while it waits.
func PullDetail(message string) string {
	for _, frame := range []string{"ErrImagePull: ", "Back-off pulling image"} {
		if _, after, found := strings.Cut(message, frame); found && frame == "ErrImagePull: " {
			return after
		} else if found {
			return "the registry does not provide it"
		}
	}
	return message
}

// containerID matches the ID of a container or sandbox. After a colon, the same digits are the
// digest of an image.
var containerID = regexp.MustCompile(`(^|[^:0-9a-f])[0-9a-f]{64}\b`)

// localEndpoint matches the local end of a failed connection ("read udp
// 10.0.0.7:50812->10.0.0.10:53"). Its port differs each time.
var localEndpoint = regexp.MustCompile(`\S+:[0-9]+->`)

// WithoutIdentity removes from a message what differs for each pod and attempt: the pod's name,
// UID and address, the IDs of containers, and local ports. It keeps a name that is a single word:
// such a name is not generated, and the word may be part of the message ("failed to pull", for a
// pod named pull).
func WithoutIdentity(pod *corev1.Pod, message string) string {
	for _, identity := range []string{string(pod.UID), pod.Name, pod.Status.PodIP} {
		if strings.ContainsAny(identity, "-.:") {
			message = strings.ReplaceAll(message, identity, "(pod)")
		}
	}
	message = localEndpoint.ReplaceAllString(message, "")
	return containerID.ReplaceAllString(message, "$1(id)")
}

// generatedSuffix matches what Kubernetes adds to the name of a Deployment for the names of its
// pods. Its letters and digits are those of k8s.io/apimachinery/pkg/util/rand, without vowels, so
// that other names with the same beginning, such as NAME-quota, are none.
const generatedSuffix = `-[bcdfghjklmnpqrstvwxz2456789]{5,10}(-[bcdfghjklmnpqrstvwxz2456789]{5})?\b`

// WithoutPodNames removes the generated names of a workload's pods from a message.
func WithoutPodNames(workload, message string) string {
	generated := regexp.MustCompile(`\b` + regexp.QuoteMeta(workload) + generatedSuffix)
	return generated.ReplaceAllString(message, workload+"-*")
}

// StartDetail returns why a container can't be created or started, without what the kubelet adds to
// identify the pod. It omits the output of a postStart hook, which the kubelet's message includes,
// because it may contain secrets.
func StartDetail(waiting *corev1.ContainerStateWaiting) string {
	if waiting.Reason == postStartFailed {
		return "its postStart hook fails"
	}
	before, _, _ := strings.Cut(waiting.Message, " (pod: ")
	return before
}
