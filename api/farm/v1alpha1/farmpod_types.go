package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FarmPodPrefix is the prefix of a FarmPod's name, before the name of its Pod.
const FarmPodPrefix = "farm-"

// FarmPod is a Pod as an engineer on call wants to see it. It can be read and watched, and is
// computed from the Pod of the same namespace whose name is its own without "farm-". It changes
// when that Pod does, and has its resourceVersion and labels. Users who may not list Pods in a
// namespace see no FarmPods of it.
//
// +kubebuilder:object:root=true
type FarmPod struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata. Annotations, finalizers, owners and managed fields of the Pod are
	// not shown.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the Pod.
	Spec FarmPodSpec `json:"spec"`
	// Status is the observed state of the Pod.
	Status FarmPodStatus `json:"status"`
}

// FarmPodList is a list of FarmPods.
//
// +kubebuilder:object:root=true
type FarmPodList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the FarmPods in the list.
	Items []FarmPod `json:"items"`
}

// FarmPodSpec describes a Pod.
type FarmPodSpec struct {
	// Containers is the number of the Pod's containers, including side-cars but not containers that
	// only run at its start.
	Containers int32 `json:"containers"`
	// NodeName is the node of the Pod, or empty while it has none. Field selectors support it.
	NodeName string `json:"nodeName,omitempty"`
	// Owner is the top of the Pod's owner chain, as Kind/name: a resource of Mainstay's if there is
	// one, otherwise the workload. It is empty for a Pod without a controller. Field selectors support
	// it.
	Owner string `json:"owner,omitempty"`
	// Images of the containers, in their order, followed by those of side-cars.
	Images []FarmPodImage `json:"images,omitempty"`
	// Requests are those of the Pod as a whole, or the sum over its containers, of cpu, memory and so
	// on. Containers that only run at its start do not count here, although they do for a scheduler.
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits are those of the Pod as a whole, or the sum over its containers. A resource for which one
	// container has no limit is left out.
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// ConfigurationRevision is a short hash of the configuration that the Pod was started with. It is
	// empty until Mainstay has restarted the workload for a change of configuration.
	ConfigurationRevision string `json:"configurationRevision,omitempty"`
	// Agents that an Instrumentation or ClusterInstrumentation injected, each as its name and
	// revision.
	Agents []string `json:"agents,omitempty"`
}

// FarmPodImage is the image of a container.
type FarmPodImage struct {
	// Container is the name of the container.
	Container string `json:"container"`
	// Image in the container's spec.
	Image string `json:"image"`
	// Digest of the running image, as sha256:...; empty until the image is pulled.
	Digest string `json:"digest,omitempty"`
}

// FarmPodStatus is the observed state of a Pod.
type FarmPodStatus struct {
	// Phase of the Pod: Pending, Running, Succeeded, Failed or Unknown; Terminating while it is being
	// deleted. Field selectors support it.
	Phase string `json:"phase"`
	// Reason is the problem, or what the Pod waits for, such as "CrashLoopBackOff: exit 1, 5 restarts
	// in 10 min". It begins with one word. It is Completed for a Pod that has completed, and empty for
	// one that works. It never has the text of a log or of a termination message, because they may
	// contain secrets.
	Reason string `json:"reason,omitempty"`
	// ReadyContainers is the number of ready containers.
	ReadyContainers int32 `json:"readyContainers"`
	// Restarts is the number of restarts of all containers.
	Restarts int32 `json:"restarts"`
	// LastTermination is how a container last terminated, if one has. Containers that only run at the
	// start count if they failed.
	LastTermination *FarmPodTermination `json:"lastTermination,omitempty"`
}

// FarmPodTermination is how a container terminated.
type FarmPodTermination struct {
	// Container is the name of the container.
	Container string `json:"container"`
	// Reason of the container runtime, such as Error, OOMKilled or Completed.
	Reason string `json:"reason,omitempty"`
	// ExitCode of the process: 0 is success; above 128 it is 128 plus a signal.
	ExitCode int32 `json:"exitCode"`
	// FinishedAt is when the container terminated.
	FinishedAt metav1.Time `json:"finishedAt,omitempty"`
}
