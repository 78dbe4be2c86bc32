// Package farmpod computes FarmPods from Pods: what an engineer on call wants to know of a Pod, in
// few bytes. It is pure: a FarmPod depends only on the Pod and the name of its owner, so that it
// never changes without the Pod's resourceVersion.
package farmpod

import (
	"slices"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	farmv1alpha1 "github.com/mainstay-platform/mainstay/api/farm/v1alpha1"
)

// PhaseTerminating is the phase of a Pod that is being deleted.
const PhaseTerminating = "Terminating"

// space is the namespace of FarmPods' UIDs. They must differ from those of Pods, because the
// garbage collector identifies objects by UID.
var space = uuid.NewSHA1(uuid.NameSpaceDNS, []byte(farmv1alpha1.GroupVersion.Group))

// UID returns the UID of a Pod's FarmPod: always the same for the same Pod (RFC 9562, version 5).
func UID(pod types.UID) types.UID { return types.UID(uuid.NewSHA1(space, []byte(pod)).String()) }

// Name returns the name of a Pod's FarmPod.
func Name(pod string) string { return farmv1alpha1.FarmPodPrefix + pod }

// PodName returns the name of a FarmPod's Pod, or false if no FarmPod can have this name.
func PodName(name string) (string, bool) {
	pod, ok := strings.CutPrefix(name, farmv1alpha1.FarmPodPrefix)
	return pod, ok && pod != ""
}

// Of returns the FarmPod of a Pod. Owner is the top of the Pod's owner chain as Kind/name, or empty
// if it has no controller.
//
// The FarmPod shares labels with the Pod, and labels, requests and limits with other FarmPods that
// have the same. None of them may be modified.
func Of(pod *corev1.Pod, owner string) *farmv1alpha1.FarmPod {
	running := containersOf(pod)
	made := &farmv1alpha1.FarmPod{
		ObjectMeta: metav1.ObjectMeta{
			Name: Name(pod.Name), Namespace: text(pod.Namespace), UID: UID(pod.UID), ResourceVersion: pod.ResourceVersion,
			Labels: labels(pod.Labels), CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec: farmv1alpha1.FarmPodSpec{
			Containers: int32(len(running)), NodeName: text(pod.Spec.NodeName), Owner: text(owner), Images: images(running),
			Requests: resources(requests(pod, running)), Limits: resources(limits(pod, running)),
		},
		Status: farmv1alpha1.FarmPodStatus{
			Phase: phase(pod), Reason: text(reason(pod)), Restarts: restarts(pod), LastTermination: lastTermination(pod),
		},
	}
	for _, one := range running {
		if one.status != nil && one.status.Ready {
			made.Status.ReadyContainers++
		}
	}
	for i := range facts {
		facts[i].fill(&made.Spec, pod.Annotations)
	}
	return made
}

func phase(pod *corev1.Pod) string {
	if pod.DeletionTimestamp != nil {
		return PhaseTerminating
	}
	return text(string(pod.Status.Phase))
}

// container is a container of a Pod with its status, which is nil until the kubelet has reported
// it.
type container struct {
	*corev1.Container
	status *corev1.ContainerStatus
}

// containersOf returns the containers that run as long as the Pod does: the containers in their
// order, then the side-cars.
func containersOf(pod *corev1.Pod) []container {
	all := make([]container, 0, len(pod.Spec.Containers))
	for i := range pod.Spec.Containers {
		one := &pod.Spec.Containers[i]
		all = append(all, container{one, statusOf(pod.Status.ContainerStatuses, one.Name)})
	}
	for _, one := range initContainersOf(pod) {
		if isSideCar(one.Container) {
			all = append(all, one)
		}
	}
	return all
}

// initContainersOf returns the containers that start one after the other at the Pod's start,
// side-cars included.
func initContainersOf(pod *corev1.Pod) []container {
	all := make([]container, 0, len(pod.Spec.InitContainers))
	for i := range pod.Spec.InitContainers {
		one := &pod.Spec.InitContainers[i]
		all = append(all, container{one, statusOf(pod.Status.InitContainerStatuses, one.Name)})
	}
	return all
}

// isSideCar reports whether an init container keeps running beside the containers. Source:
// https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
func isSideCar(one *corev1.Container) bool {
	return one.RestartPolicy != nil && *one.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func statusOf(statuses []corev1.ContainerStatus, name string) *corev1.ContainerStatus {
	at := slices.IndexFunc(statuses, func(status corev1.ContainerStatus) bool { return status.Name == name })
	if at < 0 {
		return nil
	}
	return &statuses[at]
}

func images(running []container) []farmv1alpha1.FarmPodImage {
	all := make([]farmv1alpha1.FarmPodImage, len(running))
	for i, one := range running {
		all[i] = farmv1alpha1.FarmPodImage{Container: text(one.Name), Image: text(one.Image)}
		if one.status != nil {
			all[i].Digest = text(digest(one.status.ImageID))
		}
	}
	return all
}

// digest returns the digest in a container's imageID, or "". Runtimes write name@sha256:...,
// sha256:..., or either behind a scheme.
func digest(imageID string) string {
	if _, after, found := strings.Cut(imageID, "://"); found {
		imageID = after
	}
	imageID = imageID[strings.LastIndex(imageID, "@")+1:]
	if algorithm, digits, found := strings.Cut(imageID, ":"); !found || digits == "" || !strings.HasPrefix(algorithm, "sha") ||
		strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return imageID
}

// restarts returns the number of restarts of all containers, including those that only run at the
// start.
func restarts(pod *corev1.Pod) int32 {
	var sum int32
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			sum += statuses[i].RestartCount
		}
	}
	return sum
}

// lastTermination returns how the container that terminated last did so. Init containers that have
// completed do not count, because they are meant to.
func lastTermination(pod *corev1.Pod) *farmv1alpha1.FarmPodTermination {
	var last *corev1.ContainerStateTerminated
	var name string
	consider := func(one *corev1.ContainerStatus, ended *corev1.ContainerStateTerminated) {
		if ended != nil && (last == nil || last.FinishedAt.Before(&ended.FinishedAt)) {
			last, name = ended, one.Name
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		one := &pod.Status.InitContainerStatuses[i]
		consider(one, one.LastTerminationState.Terminated)
		if now := one.State.Terminated; now != nil && now.ExitCode != 0 {
			consider(one, now)
		}
	}
	for i := range pod.Status.ContainerStatuses {
		one := &pod.Status.ContainerStatuses[i]
		consider(one, one.LastTerminationState.Terminated)
		consider(one, one.State.Terminated)
	}
	if last == nil {
		return nil
	}
	return &farmv1alpha1.FarmPodTermination{Container: text(name), Reason: text(last.Reason), ExitCode: last.ExitCode,
		FinishedAt: last.FinishedAt}
}
