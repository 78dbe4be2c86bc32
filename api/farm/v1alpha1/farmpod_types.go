package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FarmPodPrefix stands before the name of a Pod in that of its FarmPod.
const FarmPodPrefix = "farm-"

// FarmPod is a Pod as somebody on call wants to see it. It can be read and watched, and is computed from the Pod of the same namespace whose
// name is its own without "farm-": it changes when that Pod does, and has its resourceVersion and labels. Who may not list Pods in a namespace
// sees no FarmPods of it.
//
// +kubebuilder:object:root=true
type FarmPod struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata are as those of any resource. Annotations, finalizers, owners and managed fields of the Pod are not shown.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the Pod is.
	Spec FarmPodSpec `json:"spec"`
	// Status is how it does.
	Status FarmPodStatus `json:"status"`
}

// FarmPodList is a list of FarmPods.
//
// +kubebuilder:object:root=true
type FarmPodList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata are as those of any list.
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are those that were asked for.
	Items []FarmPod `json:"items"`
}

// FarmPodSpec is what a Pod is.
type FarmPodSpec struct {
	// Containers is how many containers the Pod has, side-cars included; those that only run at its start do not count.
	Containers int32 `json:"containers"`
	// NodeName is the node that it is on; empty while it is on none. A field selector may name it.
	NodeName string `json:"nodeName,omitempty"`
	// Owner is what the Pod belongs to in the end, as Kind/name: a resource of Mainstay's if there is one, else the workload. Empty for a Pod
	// that stands alone. A field selector may name it.
	Owner string `json:"owner,omitempty"`
	// Images are those of its containers, in their order, and behind them those of side-cars.
	Images []FarmPodImage `json:"images,omitempty"`
	// Requests are what its containers together ask for, of cpu, memory and the like, or what the Pod asks for as a whole. Those that only run at
	// its start do not count; for a scheduler they do.
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits are what its containers together may use, or the Pod as a whole; a resource that one of them has no limit of is left out.
	Limits corev1.ResourceList `json:"limits,omitempty"`
	// ConfigurationRevision tells which configuration it was started with: a short hash, the same for Pods with the same. Empty until Mainstay has
	// restarted its workload for a change of configuration.
	ConfigurationRevision string `json:"configurationRevision,omitempty"`
	// Agents are those that an Instrumentation or ClusterInstrumentation injected, each as the name of that and its revision.
	Agents []string `json:"agents,omitempty"`
}

// FarmPodImage is the image of a container.
type FarmPodImage struct {
	// Container is its name.
	Container string `json:"container"`
	// Image is what was asked for.
	Image string `json:"image"`
	// Digest is what runs, as sha256:...; empty until the image is there.
	Digest string `json:"digest,omitempty"`
}

// FarmPodStatus is how a Pod does.
type FarmPodStatus struct {
	// Phase is the Pod's: Pending, Running, Succeeded, Failed or Unknown; and Terminating once it is being deleted. A field selector may name it.
	Phase string `json:"phase"`
	// Reason is what somebody would say is wrong, or is being waited for, as "CrashLoopBackOff: exit 1, 5 restarts in 10 min"; it begins with one
	// word. Completed for a Pod that has done its work, empty for one that does what it should. It never has the text of a log or of a termination message, for secrets may stand there.
	Reason string `json:"reason,omitempty"`
	// ReadyContainers is how many of its containers are ready.
	ReadyContainers int32 `json:"readyContainers"`
	// Restarts is how often its containers were started anew, all together.
	Restarts int32 `json:"restarts"`
	// LastTermination is how a container last ended, if one has. Those that only run at its start count if they failed.
	LastTermination *FarmPodTermination `json:"lastTermination,omitempty"`
}

// FarmPodTermination is how a container ended.
type FarmPodTermination struct {
	// Container is its name.
	Container string `json:"container"`
	// Reason is that of the container runtime, as Error, OOMKilled or Completed.
	Reason string `json:"reason,omitempty"`
	// ExitCode is that of the process: 0 is success, above 128 is 128 and a signal.
	ExitCode int32 `json:"exitCode"`
	// FinishedAt is when.
	FinishedAt metav1.Time `json:"finishedAt,omitempty"`
}
