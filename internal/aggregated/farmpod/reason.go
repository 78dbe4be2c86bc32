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

// A reason begins with a word, as kubectl get pods shows it, and goes on with what somebody on call would ask next.
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
	// runtimeError is the container runtime's reason where it knows no more than the exit code.
	runtimeError = "Error"
)

// rules are all that can be said of a Pod, in order: the first that has something to say is the reason. It is that of a Pod's life, from what ends it
// to what merely delays it.
var rules = []func(*subject) string{
	terminating, ended, lost, unscheduled, initializing, failing, creating, notReady, gated,
}

// reason is what somebody on call would say of a Pod; empty if it does what it should.
func reason(pod *corev1.Pod) string {
	about := &subject{Pod: pod, running: containersOf(pod)}
	for _, rule := range rules {
		if said := rule(about); said != "" {
			return said
		}
	}
	return ""
}

// subject is the Pod that is talked about.
type subject struct {
	*corev1.Pod
	running []container
}

// disruptions say in words why the cluster took a Pod away: the reasons of the condition DisruptionTarget.
// Source: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
var disruptions = map[string]string{
	"PreemptionByScheduler":  "preempted for a pod of higher priority",
	"DeletionByTaintManager": "its node has a taint that it does not tolerate",
	"EvictionByEvictionAPI":  "evicted by request",
	"DeletionByPodGC":        "its node is gone",
	"TerminationByKubelet":   "its node ended it",
}

func (s *subject) disruption() string {
	if target := workload.Condition(s.Pod, corev1.DisruptionTarget); target != nil && target.Status == corev1.ConditionTrue {
		return disruptions[target.Reason]
	}
	return ""
}

// terminating: being deleted. Since when is a matter of its age, which a reason does not tell: it would be another every second.
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

// ended: all containers have, or it was ended from outside.
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

// lost: the control plane has given its node up.
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

// unscheduled: no node yet.
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
		// What follows is whether other pods could make room, node by node.
		detail, _, _ := strings.Cut(scheduled.Message, " preemption: ")
		return sentence(wordUnscheduled, s.quote(detail))
	case s.Spec.SchedulerName != "" && s.Spec.SchedulerName != corev1.DefaultSchedulerName:
		return sentence(wordPending, "waits for the scheduler "+s.Spec.SchedulerName)
	}
	return sentence(wordPending, "waits for the scheduler")
}

// initializing: the containers that run at the start are not through.
func initializing(s *subject) string {
	starting := initContainersOf(s.Pod)
	if initialized := workload.Condition(s.Pod, corev1.PodInitialized); initialized != nil && initialized.Status == corev1.ConditionTrue {
		return ""
	}
	for done, one := range starting {
		status := one.status
		if status == nil {
			return "" // the kubelet has told nothing yet
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
			doing = "has not come up"
		}
		after := ""
		if status.RestartCount > 0 {
			after = ", after " + s.history(status)
		}
		return sentence(fmt.Sprintf("%s%d/%d", wordInit, done, len(starting)), "container "+one.Name+" "+doing+after)
	}
	return ""
}

// failing: a container can't start, or keeps ending.
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

// creating: on a node, and not all containers are there.
func creating(s *subject) string {
	for _, one := range s.running {
		if one.status == nil {
			return sentence(wordPending, "waits for node "+s.Spec.NodeName)
		}
		if one.status.State.Waiting == nil {
			continue
		}
		if sandbox := workload.Condition(s.Pod, corev1.PodReadyToStartContainers); sandbox != nil && sandbox.Status == corev1.ConditionTrue {
			return sentence(wordContainers, "image "+one.Image+" of container "+one.Name+" is being pulled, or the container made")
		}
		return sentence(wordContainers, "its volumes or its network are being made")
	}
	return ""
}

// notReady: containers run, and not all are ready.
func notReady(s *subject) string {
	var told []string
	for _, one := range s.running {
		if one.status == nil || one.status.State.Running == nil || one.status.Ready {
			continue
		}
		why := "has just started"
		switch {
		case one.StartupProbe != nil && one.status.Started != nil && !*one.status.Started:
			why = "does not pass its startup probe"
		case one.ReadinessProbe != nil:
			why = "does not pass its readiness probe"
		}
		if one.status.RestartCount > 0 {
			why += ", after " + s.history(one.status)
		}
		told = append(told, "container "+one.Name+" "+why)
	}
	if len(told) == 0 {
		return ""
	}
	return sentence(wordNotReady, limited(strings.Join(told, "; ")))
}

// gated: all containers are ready, and something outside has to agree.
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

// isSilent: its containers were ready when its node last told, and no gate is closed, and yet it is not ready. The kubelet never writes that: the control
// plane does once a node has not answered for a while (pkg/controller/util/node, MarkPodsNotReady).
func isSilent(s *subject) bool {
	ready, containers := workload.Condition(s.Pod, corev1.PodReady), workload.Condition(s.Pod, corev1.ContainersReady)
	return ready != nil && containers != nil && ready.Status != corev1.ConditionTrue && containers.Status == corev1.ConditionTrue &&
		gated(s) == ""
}

// trouble is what is wrong with a container that waits or has ended; empty if it runs, is about to, or has ended as it may.
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

// in names a container where there are others.
func (s *subject) in(one container) string {
	if len(s.Spec.Containers)+len(s.Spec.InitContainers) == 1 {
		return ""
	}
	return "container " + one.Name + ": "
}

// history is how a container last ended, how often it was started anew, and in how long: from the Pod's start to that end. The reason of an end that
// is the container's state now is the word before it.
func (s *subject) history(status *corev1.ContainerStatus) string {
	var told []string
	last := status.State.Terminated
	if last != nil {
		told = append(told, exit(last))
	} else if last = status.LastTerminationState.Terminated; last != nil {
		told = append(told, ending(last))
	}
	if status.RestartCount > 0 {
		text := plural(int(status.RestartCount), "restart")
		if start := s.Status.StartTime; start != nil && last != nil && last.FinishedAt.After(start.Time) {
			text += " in " + span(last.FinishedAt.Sub(start.Time))
		}
		told = append(told, text)
	}
	return strings.Join(told, ", ")
}

// wordOf is what kubectl calls a container that ended so.
func wordOf(ended *corev1.ContainerStateTerminated) string {
	if ended.Reason == "" {
		return runtimeError
	}
	return ended.Reason
}

// ending is how a container ended, as "exit 1", or with what the runtime calls it where that tells more: "OOMKilled, exit 137".
func ending(ended *corev1.ContainerStateTerminated) string {
	if slices.Contains([]string{"", runtimeError, wordCompleted}, ended.Reason) {
		return exit(ended)
	}
	return ended.Reason + ", " + exit(ended)
}

// shellBase is what a process that a signal ended has as exit code, less the signal; realTime is the highest signal.
const (
	shellBase = 128
	realTime  = 64
)

// exit is a container's exit code, with the signal that ended it if one did and the runtime does not say itself what happened.
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

// span is a duration as people say it, in its largest unit.
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

// sentence puts a word before what there is to say.
func sentence(word, detail string) string {
	if detail == "" {
		return word
	}
	return word + ": " + detail
}

// maxDetail is how long what others say may be, in bytes: what a scheduler says of a few kinds of nodes is there whole.
const maxDetail = 300

// limited cuts what is too long.
func limited(detail string) string { return cut(detail, maxDetail) }

// cut cuts a text to so many bytes and marks it, between characters.
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

// seeDescribe stands for a message that can't be repeated.
const seeDescribe = "kubectl describe pod tells more"

// quote is a message of the cluster's on one line, without what names this Pod, and not too long; nothing of one that repeats a termination message.
func (s *subject) quote(message string) string {
	plain := oneLine(message)
	if s.repeatsTermination(plain) {
		return seeDescribe
	}
	return limited(oneLine(workload.WithoutIdentity(s.Pod, plain)))
}

func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

// minSecret is how short a line of a termination message may be to be looked for: what is shorter stands in every other sentence.
const minSecret = 4

// repeatsTermination tells whether one line of what a container said when it ended is in a message of one line, as it was or quoted.
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
