package farmpod

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/mainstay-platform/mainstay/internal/workload"
)

// A reason begins with a word as kubectl get pods shows it, followed by what an engineer on call
// would ask next.
const (
	wordCompleted   = "Completed"
	wordContainers  = "ContainerCreating"
	wordCrashLoop   = "CrashLoopBackOff"
	wordFailed      = "Failed"
	wordGated       = "SchedulingGated"
	wordNodeLost    = "NodeLost"
	wordNotReady    = "NotReady"
	wordPending     = "Pending"
	wordUnscheduled = "Unschedulable"
	wordInit        = "Init:"
	// runtimeError is the container runtime's reason if it knows only the exit code.
	runtimeError = "Error"
)

// rules are the possible reasons, in order: the first that is not empty is the Pod's. The order is
// that of severity, from what ends the Pod to what merely delays it.
var rules = []func(*subject) string{
	terminating, ended, lost, unscheduled, initializing, failing, creating, notReady, gated,
}

// reason returns what is wrong with a Pod or what it waits for, or "" if it does what it should.
func reason(pod *corev1.Pod) string {
	about := &subject{Pod: pod, running: containersOf(pod)}
	for _, rule := range rules {
		if said := rule(about); said != "" {
			return said
		}
	}
	return ""
}

// subject is the Pod to explain.
type subject struct {
	*corev1.Pod
	running []container
}

// disruptions are texts for the reasons of the condition DisruptionTarget: why the cluster removed
// a Pod. Source:
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
var disruptions = map[string]string{
	"PreemptionByScheduler":  "preempted for a pod of higher priority",
	"DeletionByTaintManager": "its node has a taint that it does not tolerate",
	"EvictionByEvictionAPI":  "evicted through the Eviction API",
	"DeletionByPodGC":        "its node is gone",
	"TerminationByKubelet":   "terminated by its node",
}

func (s *subject) disruption() string {
	if target := workload.Condition(s.Pod, corev1.DisruptionTarget); target != nil && target.Status == corev1.ConditionTrue {
		return disruptions[target.Reason]
	}
	return ""
}

// terminating: the Pod is being deleted. The reason does not say since when, because it would
// change every second.
func terminating(s *subject) string {
	if s.DeletionTimestamp == nil {
		return ""
	}
	var why []string
	if disruption := s.disruption(); disruption != "" {
		why = append(why, disruption)
	}
	if isLost(s) {
		why = append(why, s.nodeIsSilent())
	}
	if len(s.Finalizers) > 0 {
		why = append(why, "held by finalizer "+strings.Join(s.Finalizers, ", "))
	}
	return sentence(PhaseTerminating, limited(strings.Join(why, "; ")))
}

// ended: all containers have terminated, or the Pod was terminated from outside.
func ended(s *subject) string {
	switch s.Status.Phase {
	case corev1.PodSucceeded:
		return wordCompleted
	case corev1.PodFailed:
	default:
		return ""
	}
	if s.Status.Reason != "" {
		return sentence(s.Status.Reason, s.quote(s.Status.Message))
	}
	for _, one := range slices.Concat(initContainersOf(s.Pod), s.running) {
		if one.status != nil && one.status.State.Terminated != nil && one.status.State.Terminated.ExitCode != 0 {
			return sentence(wordOf(one.status.State.Terminated), s.in(one)+s.history(one.status))
		}
	}
	return sentence(wordFailed, s.disruption())
}

// lost: the control plane has given up the Pod's node.
func lost(s *subject) string {
	if !isLost(s) {
		return ""
	}
	return sentence(wordNodeLost, s.nodeIsSilent())
}

func isLost(s *subject) bool {
	return s.Status.Phase == corev1.PodUnknown || s.Status.Reason == wordNodeLost || isSilent(s)
}

func (s *subject) nodeIsSilent() string { return "node " + s.Spec.NodeName + " does not answer" }

// unscheduled: the Pod has no node yet.
func unscheduled(s *subject) string {
	if s.Spec.NodeName != "" {
		return ""
	}
	scheduled := workload.Condition(s.Pod, corev1.PodScheduled)
	switch {
	case len(s.Spec.SchedulingGates) > 0:
		names := make([]string, 0, len(s.Spec.SchedulingGates))
		for _, gate := range s.Spec.SchedulingGates {
			names = append(names, gate.Name)
		}
		return sentence(wordGated, limited("waits for "+strings.Join(names, ", ")))
	case scheduled != nil && scheduled.Status == corev1.ConditionFalse:
		return sentence(wordUnscheduled, s.quote(workload.SchedulingDetail(scheduled.Message)))
	case s.Spec.SchedulerName != "" && s.Spec.SchedulerName != corev1.DefaultSchedulerName:
		return sentence(wordPending, "waits for the scheduler "+s.Spec.SchedulerName)
	}
	return sentence(wordPending, "waits for the scheduler")
}

// initializing: the init containers have not completed.
func initializing(s *subject) string {
	starting := initContainersOf(s.Pod)
	if initialized := workload.Condition(s.Pod, corev1.PodInitialized); initialized != nil && initialized.Status == corev1.ConditionTrue {
		return ""
	}
	for done, one := range starting {
		status := one.status
		if status == nil {
			return "" // the kubelet has reported nothing yet
		}
		isThrough := status.State.Terminated != nil && status.State.Terminated.ExitCode == 0
		if isSideCar(one.Container) {
			isThrough = status.Started != nil && *status.Started
		}
		if isThrough {
			continue
		}
		if trouble := s.problem(one, !isSideCar(one.Container)); trouble != "" {
			return wordInit + trouble
		}
		doing := "runs"
		switch {
		case status.State.Waiting != nil:
			doing = "is about to start"
		case isSideCar(one.Container):
			doing = "has not started yet"
		}
		after := ""
		if status.RestartCount > 0 {
			after = ", after " + s.history(status)
		}
		return sentence(fmt.Sprintf("%s%d/%d", wordInit, done, len(starting)), "container "+one.Name+" "+doing+after)
	}
	return ""
}

// failing: a container can't start, or keeps terminating.
func failing(s *subject) string {
	for _, one := range s.running {
		if one.status == nil {
			continue
		}
		policy := s.Spec.RestartPolicy
		if one.RestartPolicy != nil {
			policy = corev1.RestartPolicy(*one.RestartPolicy)
		}
		mayEnd := policy == corev1.RestartPolicyOnFailure || policy == corev1.RestartPolicyNever
		if trouble := s.problem(one, mayEnd); trouble != "" {
			return trouble
		}
	}
	return ""
}

// creating: the Pod has a node, but not all containers exist.
func creating(s *subject) string {
	for _, one := range s.running {
		if one.status == nil {
			return sentence(wordPending, "waits for node "+s.Spec.NodeName)
		}
		if one.status.State.Waiting == nil {
			continue
		}
		if sandbox := workload.Condition(s.Pod, corev1.PodReadyToStartContainers); sandbox != nil && sandbox.Status == corev1.ConditionTrue {
			return sentence(wordContainers, "image "+one.Image+" of container "+one.Name+" is being pulled, or the container created")
		}
		return sentence(wordContainers, "its volumes or its network are being set up")
	}
	return ""
}

// notReady: containers run, but not all are ready.
func notReady(s *subject) string {
	var parts []string
	for _, one := range s.running {
		if one.status == nil || one.status.State.Running == nil || one.status.Ready {
			continue
		}
		why := workload.NotReady(one.Container, one.status)
		if one.status.RestartCount > 0 {
			why += ", after " + s.history(one.status)
		}
		parts = append(parts, "container "+one.Name+" "+why)
	}
	if len(parts) == 0 {
		return ""
	}
	return sentence(wordNotReady, limited(strings.Join(parts, "; ")))
}

// gated: all containers are ready, but a readiness gate is not.
func gated(s *subject) string {
	var missing []string
	for _, gate := range s.Spec.ReadinessGates {
		if condition := workload.Condition(s.Pod, gate.ConditionType); condition == nil || condition.Status != corev1.ConditionTrue {
			missing = append(missing, string(gate.ConditionType))
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return sentence(wordNotReady, limited("readiness gate "+strings.Join(missing, ", ")+" is not passed"))
}

// gatesNotReady is the kubelet's reason while a readiness gate is closed (pkg/kubelet/status).
const gatesNotReady = "ReadinessGatesNotReady"

// isSilent reports whether the Pod's node has stopped answering: the containers were ready in its
// last report and no gate is closed, but the Pod is not ready. The kubelet writes that only for the
// moment until it notices that a gate has opened. The control plane does when a node has not
// answered for a while, and leaves the reason as it was (pkg/controller/util/node,
// MarkPodsNotReady).
func isSilent(s *subject) bool {
	ready, containers := workload.Condition(s.Pod, corev1.PodReady), workload.Condition(s.Pod, corev1.ContainersReady)
	return ready != nil && containers != nil && ready.Status != corev1.ConditionTrue && containers.Status == corev1.ConditionTrue &&
		ready.Reason != gatesNotReady && gated(s) == ""
}

// problem returns what is wrong with a container that waits or has terminated. It is "" if the
// container runs, is about to, or has terminated as it may.
func (s *subject) problem(one container, mayEnd bool) string {
	waiting, terminated := one.status.State.Waiting, one.status.State.Terminated
	switch {
	case terminated != nil && terminated.ExitCode == 0 && mayEnd:
	case terminated != nil:
		return sentence(wordOf(terminated), s.in(one)+s.history(one.status))
	case waiting == nil || waiting.Reason == "" || waiting.Reason == wordContainers || waiting.Reason == "PodInitializing":
	case workload.IsPullFailure(waiting.Reason):
		return sentence(waiting.Reason, s.in(one)+sentence("image "+one.Image, s.quote(workload.PullDetail(waiting.Message))))
	case workload.IsStartFailure(waiting.Reason):
		return sentence(waiting.Reason, s.in(one)+s.quote(workload.StartDetail(waiting)))
	case waiting.Reason == wordCrashLoop:
		return sentence(wordCrashLoop, s.in(one)+s.history(one.status))
	default:
		return sentence(waiting.Reason, "container "+one.Name)
	}
	return ""
}

// in returns a prefix with the container's name if the Pod has several containers.
func (s *subject) in(one container) string {
	if len(s.Spec.Containers)+len(s.Spec.InitContainers) == 1 {
		return ""
	}
	return "container " + one.Name + ": "
}

// history returns how a container last terminated, how often it was restarted, and in how long:
// from the Pod's start to that termination. If the container is still terminated, the reason is
// left out, because the first word is the reason.
func (s *subject) history(status *corev1.ContainerStatus) string {
	var parts []string
	last := status.State.Terminated
	if last != nil {
		parts = append(parts, exit(last))
	} else if last = status.LastTerminationState.Terminated; last != nil {
		parts = append(parts, ending(last))
	}
	if status.RestartCount > 0 {
		text := plural(int(status.RestartCount), "restart")
		if start := s.Status.StartTime; start != nil && last != nil && last.FinishedAt.After(start.Time) {
			text += " in " + span(last.FinishedAt.Sub(start.Time))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// wordOf returns kubectl's word for a container that terminated so.
func wordOf(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "" {
		return runtimeError
	}
	return ended.Reason
}

// ending returns how a container terminated: "exit 1", or with the runtime's reason if that says
// more: "OOMKilled, exit 137".
func ending(ended *corev1.ContainerStateTerminated) string {
	if slices.Contains([]string{"", runtimeError, wordCompleted}, ended.Reason) {
		return exit(ended)
	}
	return ended.Reason + ", " + exit(ended)
}

// shellBase plus the number of a signal is the exit code of a process that the signal ended;
// realTime is the highest signal.
const (
	shellBase = 128
	realTime  = 64
)

// exit returns a container's exit code, with the signal that ended it unless the runtime's own
// reason says so.
func exit(ended *corev1.ContainerStateTerminated) string {
	text, signal := "exit "+strconv.Itoa(int(ended.ExitCode)), int(ended.Signal)
	if signal == 0 && (ended.Reason == "" || ended.Reason == runtimeError) && ended.ExitCode > shellBase &&
		ended.ExitCode <= shellBase+realTime {
		signal = int(ended.ExitCode) - shellBase
	}
	if signal > 0 {
		text += ", signal " + strconv.Itoa(signal)
	}
	return text
}

// span returns a duration in its largest unit.
func span(length time.Duration) string {
	switch {
	case length < time.Minute:
		return strconv.Itoa(int(length/time.Second)) + " s"
	case length < 2*time.Hour:
		return strconv.Itoa(int(length/time.Minute)) + " min"
	case length < 48*time.Hour:
		return strconv.Itoa(int(length/time.Hour)) + " h"
	}
	return strconv.Itoa(int(length/(24*time.Hour))) + " d"
}

func plural(count int, noun string) string {
	if count != 1 {
		noun += "s"
	}
	return strconv.Itoa(count) + " " + noun
}

// sentence returns a word and the detail after it.
func sentence(word, detail string) string {
	if detail == "" {
		return word
	}
	return word + ": " + detail
}

// maxDetail is the longest text from others, in bytes. A scheduler's message about a few kinds of
// nodes fits.
const maxDetail = 300

// limited cuts a long text.
func limited(detail string) string { return cut(detail, maxDetail) }

// cut cuts a text to a number of bytes between two characters, and marks the cut.
func cut(text string, most int) string {
	const mark = "..."
	if len(text) <= most {
		return text
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// seeDescribe replaces a message that must not be repeated.
const seeDescribe = "see kubectl describe pod"

// quote returns a message of the cluster on one line, without the Pod's own name, and not too long.
// It returns seeDescribe for a message that repeats a termination message.
func (s *subject) quote(message string) string {
	plain := oneLine(message)
	if s.repeatsTermination(plain) {
		return seeDescribe
	}
	return limited(oneLine(workload.WithoutIdentity(s.Pod, plain)))
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// minSecret is the shortest line of a termination message to look for: shorter ones are in every
// other sentence.
const minSecret = 4

// repeatsTermination reports whether a one-line message contains a line of a container's
// termination message, as it is or quoted.
func (s *subject) repeatsTermination(message string) bool {
	if message == "" {
		return false
	}
	for _, statuses := range [][]corev1.ContainerStatus{s.Status.InitContainerStatuses, s.Status.ContainerStatuses,
		s.Status.EphemeralContainerStatuses} {
		for i := range statuses {
			for _, ended := range []*corev1.ContainerStateTerminated{statuses[i].State.Terminated, statuses[i].LastTerminationState.Terminated} {
				if ended != nil && repeats(message, ended.Message) {
					return true
				}
			}
		}
	}
	return false
}

// repeats reports whether a message contains a line of said, as it is or quoted. Lines shorter than
// minSecret do not count.
func repeats(message, said string) bool {
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if len(line) < minSecret {
			continue
		}
		escaped := strconv.Quote(line)
		for _, form := range []string{line, escaped[1 : len(escaped)-1]} {
			if strings.Contains(message, oneLine(form)) {
				return true
			}
		}
	}
	return false
}
