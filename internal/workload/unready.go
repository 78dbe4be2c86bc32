package workload

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/mainstay-platform/mainstay/api"
	"github.com/mainstay-platform/mainstay/internal/kit/requeue"
)

const (
	// creationPatience is how long a pod may stay without containers before its events are read.
	// Mounting and pulling normally take seconds.
	creationPatience = 10 * time.Second
	// readyPatience is how long containers may run without being ready, beside the time that their
	// probes allow. The default readiness probe fails for the third time after 15 s.
	readyPatience = 30 * time.Second
	// slowestPoll is the longest time between two checks of a problem that has lasted for long. The
	// end of a problem is watched; only the text of its event may be older.
	slowestPoll = 10 * time.Minute
)

// Unexplained returns the oldest pod that has not become ready in the time that a start takes, and
// whose status does not say why, so that its events are needed; nil if there is none. It is always
// the oldest, so that the message does not alternate between pods.
func (e Evidence) Unexplained() *corev1.Pod {
	var oldest *corev1.Pod
	for i := range e.Pods {
		pod := &e.Pods[i]
		if !e.isStuck(pod) && (!isLiving(pod) || e.unready(pod) == nil) {
			continue
		}
		if oldest == nil || pod.CreationTimestamp.Before(&oldest.CreationTimestamp) ||
			pod.CreationTimestamp.Equal(&oldest.CreationTimestamp) && pod.Name < oldest.Name {
			oldest = pod
		}
	}
	return oldest
}

// isStuck reports whether a pod has been without containers for longer than that normally takes.
func (e Evidence) isStuck(pod *corev1.Pod) bool {
	return IsCreating(pod) && e.Now.Sub(pod.CreationTimestamp.Time) >= creationPatience
}

// RequeueAfter returns after which time the pods must be checked again although no watch reports a
// change; 0 means never. Three things happen without a change of a watched object: older pods count
// again some time after a change (see isSettling), a container exceeds its patience, and events
// about a pod appear. Each check reads events from the API server, so a problem that has lasted for
// some time is checked again after the same time, and the pauses double.
func (e Evidence) RequeueAfter() time.Duration {
	var wait time.Duration
	explained := e.Unexplained()
	for i := range e.Pods {
		pod := &e.Pods[i]
		if e.isSettling(pod) && isLiving(pod) && e.problemOf(pod, explained) != nil {
			wait = requeue.Sooner(wait, settling-e.Now.Sub(e.Changed))
		}
		if IsCreating(pod) {
			wait = requeue.Sooner(wait, pause(e.Now.Sub(pod.CreationTimestamp.Time), creationPatience))
		}
		for _, one := range e.runningUnready(pod) {
			left := one.due.Sub(e.Now)
			if left <= 0 {
				left = pause(-left, readyPatience)
			}
			wait = requeue.Sooner(wait, left)
		}
	}
	return wait
}

// pause returns the time until the next check of a problem that has lasted for age.
func pause(age, least time.Duration) time.Duration { return min(max(age, least), slowestPoll) }

// unreadyContainer is a container that runs and is not ready.
type unreadyContainer struct {
	corev1.Container
	status *corev1.ContainerStatus
	// due is when it should have been ready.
	due time.Time
}

// unready returns the first container of a pod that should be ready by now and is not; nil if there
// is none.
func (e Evidence) unready(pod *corev1.Pod) *unreadyContainer {
	for _, one := range e.runningUnready(pod) {
		if !e.Now.Before(one.due) {
			return &one
		}
	}
	return nil
}

// runningUnready returns the containers of a pod that run and are not ready. Init containers are
// never ready, unless they are side-cars.
func (e Evidence) runningUnready(pod *corev1.Pod) []unreadyContainer {
	if e.Now.IsZero() || !isLiving(pod) {
		return nil
	}
	var found []unreadyContainer
	for i, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		at := slices.IndexFunc(e.Containers, func(one corev1.Container) bool { return one.Name == status.Name })
		if status.State.Running == nil || status.Ready || at < 0 {
			continue
		}
		one := e.Containers[at]
		isSidecar := ptr.Deref(one.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		if i < len(pod.Status.ContainerStatuses) || isSidecar {
			found = append(found, unreadyContainer{one, &status, status.State.Running.StartedAt.Add(patience(one, &status))})
		}
	}
	return found
}

// patience returns how long after its start a container may be unready. A startup probe gets all
// the time that it allows, unless the container was restarted: then it has had it. Nothing limits
// what it allows: 68 years, which do not overflow a Duration either, are as good as for ever.
func patience(container corev1.Container, status *corev1.ContainerStatus) time.Duration {
	wait := readyPatience
	if probe := container.ReadinessProbe; probe != nil {
		wait += time.Duration(probe.InitialDelaySeconds) * time.Second
	}
	if probe := container.StartupProbe; probe != nil && status.RestartCount == 0 {
		attempts := int64(cmp.Or(probe.FailureThreshold, 3)) * int64(cmp.Or(probe.PeriodSeconds, 10))
		wait += time.Duration(probe.InitialDelaySeconds)*time.Second + time.Duration(min(attempts, math.MaxInt32))*time.Second
	}
	return wait
}

// NotReady returns why a container that runs is not ready, as far as its status says.
func NotReady(container *corev1.Container, status *corev1.ContainerStatus) string {
	switch {
	case container.StartupProbe != nil && status.Started != nil && !*status.Started:
		return "does not pass its startup probe"
	case container.ReadinessProbe != nil:
		return "does not pass its readiness probe"
	default:
		return "has just started"
	}
}

// message returns why the container is not ready, with the kubelet's last words about its probe.
// The events are those of the pod explained.
func (u unreadyContainer) message(explained *corev1.Pod, events []corev1.Event) string {
	text := "container " + u.Name + " " + NotReady(&u.Container, u.status)
	kind, probe := "Readiness", u.ReadinessProbe
	if u.StartupProbe != nil && !ptr.Deref(u.status.Started, true) {
		kind, probe = "Startup", u.StartupProbe
	}
	last := latest(events, func(event *corev1.Event) bool {
		return event.Reason == "Unhealthy" && strings.HasPrefix(plainMessage(event), kind+" probe ") &&
			strings.HasSuffix(event.InvolvedObject.FieldPath, "{"+u.Name+"}")
	})
	_, detail, found := strings.Cut(last, ": ")
	switch {
	case !found || probe == nil:
		return text
	case probe.Exec != nil: // the rest is what the command prints, which may contain secrets
		return text + ": its command fails"
	default:
		return text + ": " + short(WithoutIdentity(explained, detail))
	}
}

// creationProblem returns what events say about a pod that stays without containers; nil if nothing
// is known: if the pod may still get them in time, or if the pod explained, which the events are
// about, has them already.
func (e Evidence) creationProblem(pod, explained *corev1.Pod) *Problem {
	if !e.Now.IsZero() && !e.isStuck(pod) || !IsCreating(explained) {
		return nil
	}
	reason := api.ReasonVolumeError
	is := func(reasons ...string) func(event *corev1.Event) bool {
		return func(event *corev1.Event) bool { return slices.Contains(reasons, event.Reason) }
	}
	// The rest lists volumes with generated names.
	message, _, _ := strings.Cut(latest(e.Events, is("FailedMount", "FailedAttachVolume")), ", unattached volumes=")
	if message == "" {
		reason, message = api.ReasonSandboxError, sandboxDetail(latest(e.Events, is("FailedCreatePodSandBox")))
	}
	if message == "" {
		return nil
	}
	return &Problem{reason, short(WithoutIdentity(explained, message))}
}

// rpcFrame is what gRPC adds to the errors of a container runtime.
var rpcFrame = regexp.MustCompile(`rpc error: code = \w+ desc = `)

// sandboxDetail returns why a sandbox can't be created, with the remedy where the runtime names
// the memory limit: containerd "container init was OOM-killed (memory limit too low?)", CRI-O "set
// memory limit 1048576 too low; should be at least 12582912 bytes".
func sandboxDetail(message string) string {
	if message == "" {
		return ""
	}
	message = rpcFrame.ReplaceAllString(message, "")
	if strings.Contains(message, "OOM-killed") || strings.Contains(message, "too low") {
		return "the memory limit is too low to start the pod: raise resources.limits.memory (" + message + ")"
	}
	return message
}

// latest returns the message of the latest event that matches; empty if none does.
func latest(events []corev1.Event, matches func(event *corev1.Event) bool) string {
	var found *corev1.Event
	for i := range events {
		event := &events[i]
		if matches(event) && (found == nil || timeOf(found).Before(timeOf(event))) {
			found = event
		}
	}
	if found == nil {
		return ""
	}
	return plainMessage(found)
}

func timeOf(event *corev1.Event) time.Time {
	if event.Series != nil {
		return event.Series.LastObservedTime.Time
	}
	if event.LastTimestamp.IsZero() {
		return event.EventTime.Time
	}
	return event.LastTimestamp.Time
}

// plainMessage returns the message of an event without what the recorder adds to similar ones.
func plainMessage(event *corev1.Event) string {
	return strings.TrimPrefix(event.Message, "(combined from similar events): ")
}

// missingClaim is how the scheduler refuses a pod whose claim does not exist.
var missingClaim = regexp.MustCompile(`persistentvolumeclaim "([^"]+)" not found`)

// schedulingProblem returns the problem of a pod that the scheduler refuses with this message.
func schedulingProblem(message string) *Problem {
	if claim := missingClaim.FindStringSubmatch(message); claim != nil {
		return &Problem{api.ReasonVolumeError, fmt.Sprintf("there is no PersistentVolumeClaim %s in this namespace", claim[1])}
	}
	return &Problem{api.ReasonUnschedulable, SchedulingDetail(message)}
}

// SchedulingDetail returns why no node accepts a pod. The rest of the scheduler's message says,
// node by node, whether evicting other pods would help.
func SchedulingDetail(message string) string {
	detail, _, _ := strings.Cut(message, " preemption: ")
	return detail
}

// runtimeReasons are the reasons with which container runtimes report that a container's process
// was never started (containerd, dockershim). The message is then the runtime's, not the process's.
var runtimeReasons = []string{"StartError", "ContainerCannotRun"}

// neverStarted returns why a container's process can't be started; empty if it was, or if nothing
// is known. It says the same while the kubelet tries and while it waits.
func neverStarted(status *corev1.ContainerStatus) string {
	if status.State.Running != nil {
		return ""
	}
	for _, ended := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if ended != nil && slices.Contains(runtimeReasons, ended.Reason) {
			return execDetail(ended.Message)
		}
	}
	if waiting := status.State.Waiting; waiting != nil && waiting.Reason == "RunContainerError" {
		return execDetail(StartDetail(waiting))
	}
	return ""
}

// execDetail returns the end of a runtime's error, from the program that it could not execute.
func execDetail(message string) string {
	message = strings.TrimSuffix(rpcFrame.ReplaceAllString(message, ""), ": unknown")
	if at := strings.LastIndex(message, `exec: "`); at >= 0 {
		message = message[at:]
	}
	return short(strings.Join(strings.Fields(message), " "))
}

// maxDetail is the longest text of others that a problem repeats, in bytes.
const maxDetail = 400

// short cuts a long text.
func short(text string) string {
	if len(text) <= maxDetail {
		return text
	}
	return strings.ToValidUTF8(text[:maxDetail], "") + "..."
}
