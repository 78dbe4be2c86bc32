package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// Instrumentation injects an agent into workloads of its namespace, without a change to their images or manifests. Deleting it
// restores each workload's pod template to what its owner wrote.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=instrumentations,shortName=instr,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all matched workloads run with the agent"
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.agent.language`,priority=1
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Workloads that it matches"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Those of them whose pods run with the agent"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Those of them that can't be injected, or do not run with the agent"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Instrumentation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is injected, and where.
	// +required
	Spec InstrumentationSpec `json:"spec"`
	// Status is what came of it.
	// +optional
	Status InstrumentationStatus `json:"status,omitzero"`
}

// InstrumentationList is a list of Instrumentations.
//
// +kubebuilder:object:root=true
type InstrumentationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Instrumentation `json:"items"`
}

// ClusterInstrumentation injects an agent into workloads of all namespaces that it selects. Deleting it restores each workload's pod
// template to what its owner wrote. Kubernetes' own namespaces and Mainstay's are left alone.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterinstrumentations,scope=Cluster,shortName=cinstr,categories={mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all matched workloads run with the agent"
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.agent.language`,priority=1
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Workloads that it matches"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Those of them whose pods run with the agent"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Those of them that can't be injected, or do not run with the agent"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterInstrumentation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what is injected, and where.
	// +required
	Spec ClusterInstrumentationSpec `json:"spec"`
	// Status is what came of it.
	// +optional
	Status InstrumentationStatus `json:"status,omitzero"`
}

// ClusterInstrumentationList is a list of ClusterInstrumentations.
//
// +kubebuilder:object:root=true
type ClusterInstrumentationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ClusterInstrumentation `json:"items"`
}

// ClusterInstrumentationSpec is what is injected, and where.
type ClusterInstrumentationSpec struct {
	InstrumentationSpec `json:",inline"`

	// NamespaceSelector selects namespaces by their labels. Left out or empty: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// AllowAll permits matchers that match every workload of the namespaces that are selected. Without it they are refused, for one
	// character too few would have every pod of the cluster replaced.
	// +optional
	AllowAll bool `json:"allowAll,omitempty"`
}

// InstrumentationSpec is what is injected, and where.
type InstrumentationSpec struct {
	// Matchers say into which containers of which workloads. A container that several match takes the env of all; of variables
	// of one name that of the first counts.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	Matchers []Matcher `json:"matchers"`

	// Agent is what is injected.
	// +required
	Agent Agent `json:"agent"`

	// Rollout is how it reaches workloads that exist; new ones too, where strategy is Canary, or order, maxParallel or window is given.
	// Left out: all at once.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`
}

// WorkloadKind is a kind of workload.
type WorkloadKind string

// Kinds of workloads.
const (
	KindDeployment  WorkloadKind = "Deployment"
	KindStatefulSet WorkloadKind = "StatefulSet"
	KindDaemonSet   WorkloadKind = "DaemonSet"
)

// Matcher matches containers. What is left out matches all.
type Matcher struct {
	// Deployment is the name of the workload, of whichever of the kinds; * stands for any characters, ? for one, [a-c] for one of some.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Deployment string `json:"deployment,omitempty"`

	// Container is the name of the container, written in the same way. Left out: all but well-known side-cars (docs/spec/instrumentation.md
	// lists them). Init containers are never matched.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// Labels select workloads by their labels (not by those of their pods).
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// Kinds are the kinds of workloads. Left out: Deployment.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Deployment;StatefulSet;DaemonSet
	Kinds []WorkloadKind `json:"kinds,omitempty"`

	// Env are variables for the containers that this matches, before those of agent.env. A container that has a variable of such a name
	// keeps its own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// Language says by which variable a runtime is made to load the agent.
type Language string

// Languages. Each extends a variable of the container.
const (
	// LanguageJava extends JAVA_TOOL_OPTIONS by -javaagent:PATH.
	LanguageJava Language = "java"
	// LanguageNodeJS extends NODE_OPTIONS by --require PATH.
	LanguageNodeJS Language = "nodejs"
	// LanguagePython extends PYTHONPATH by PATH.
	LanguagePython Language = "python"
	// LanguageDotNet sets CORECLR_ENABLE_PROFILING, CORECLR_PROFILER and CORECLR_PROFILER_PATH.
	LanguageDotNet Language = "dotnet"
	// LanguageRuby extends RUBYOPT by -rPATH.
	LanguageRuby Language = "ruby"
	// LanguageCustom sets nothing but env.
	LanguageCustom Language = "custom"
)

// VolumeMode is how the agent's files get into the pod.
type VolumeMode string

// Volume modes.
const (
	// VolumeInitContainer has an init container copy them to a volume of the pod.
	VolumeInitContainer VolumeMode = "InitContainer"
	// VolumeImage mounts the image itself, where the cluster can: from Kubernetes 1.35.
	VolumeImage VolumeMode = "ImageVolume"
)

// Agent is what is injected.
//
// +kubebuilder:validation:XValidation:rule="self.language != 'dotnet' || (has(self.profiler) && has(self.path))",message="dotnet needs spec.agent.profiler, the GUID of its profiler, and spec.agent.path, its library"
// +kubebuilder:validation:XValidation:rule="self.language == 'dotnet' || !has(self.profiler)",message="spec.agent.profiler is for the language dotnet"
// +kubebuilder:validation:XValidation:rule="self.language == 'java' || !has(self.options)",message="spec.agent.options is for the language java"
// +kubebuilder:validation:XValidation:rule="self.volumeMode != 'ImageVolume' || !has(self.command)",message="spec.agent.command copies files in an init container, which ImageVolume does without"
type Agent struct {
	// Image has the agent's files. It must not need root where the pods that it is injected into may not run as root.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Image string `json:"image"`

	// ImagePullPolicy is when a node pulls it.
	// +optional
	// +default="IfNotPresent"
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// Language says how the runtime is made to load the agent: java, nodejs, python, dotnet, ruby or custom.
	// +required
	// +kubebuilder:validation:Enum=java;nodejs;python;dotnet;ruby;custom
	Language Language `json:"language"`

	// Path of what the runtime loads, within mountPath. Left out: agent.jar (java), agent.js (nodejs), mountPath itself (python),
	// agent.rb (ruby).
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*$`
	Path string `json:"path,omitempty"`

	// Options are handed to a Java agent: -javaagent:PATH=OPTIONS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:Pattern=`^[^\s"'$]+$`
	Options string `json:"options,omitempty"`

	// Profiler is the GUID of a .NET profiler: {918728DD-259F-4A6A-AC2B-B85E1B658318}.
	// +optional
	// +kubebuilder:validation:MaxLength=38
	// +kubebuilder:validation:Pattern=`^\{[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\}$`
	Profiler string `json:"profiler,omitempty"`

	// VolumeMode is InitContainer, or ImageVolume, which copies nothing.
	// +optional
	// +default="InitContainer"
	// +kubebuilder:validation:Enum=InitContainer;ImageVolume
	VolumeMode VolumeMode `json:"volumeMode,omitempty"`

	// Directory of the image in which the agent's files are.
	// +optional
	// +default="/agent"
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._+-]+)+$`
	Directory string `json:"directory,omitempty"`

	// Command copies the files to mountPath, where the volume is mounted in the init container, too. Left out:
	// cp -R DIRECTORY/. MOUNTPATH.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Command []string `json:"command,omitempty"`

	// MountPath is where the containers find the files.
	// +optional
	// +default="/mainstay/agent"
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9._+-]+)+$`
	MountPath string `json:"mountPath,omitempty"`

	// SizeLimit is how large the volume may become that the files are copied to.
	// +optional
	// +default="256Mi"
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`

	// Resources of the init container. Left out: requests and limits of 100m CPU and 128Mi memory, with which a pod of the class Guaranteed
	// stays so.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Env are variables for all containers that are matched. A container that has a variable of such a name keeps its own.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// RolloutStrategy says whether some try the agent first.
type RolloutStrategy string

// Strategies.
const (
	// RolloutAutomatic lets all go, as the rest of the policy says.
	RolloutAutomatic RolloutStrategy = "Automatic"
	// RolloutCanary lets some try it first; where they fail they go back to what they had, and no other gets it.
	RolloutCanary RolloutStrategy = "Canary"
)

// Rollout is how a new or changed agent reaches the workloads that exist. Workloads of several namespaces are named "NAMESPACE/NAME" in
// its order.
//
// +kubebuilder:validation:XValidation:rule="self.strategy == 'Canary' || !has(self.canary)",message="spec.rollout.canary needs spec.rollout.strategy: Canary"
type Rollout struct {
	// Policy says which workloads go when.
	rolloutv1.Policy `json:",inline"`

	// Strategy is Automatic, or Canary: then canary.percent of the workloads (left out, with count: 10) try the agent for canary.soak
	// (left out: 5m).
	// +optional
	// +default="Automatic"
	// +kubebuilder:validation:Enum=Automatic;Canary
	Strategy RolloutStrategy `json:"strategy,omitempty"`
}

// InstrumentationStatus is what came of an Instrumentation.
type InstrumentationStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Revision names what spec injects: it changes with agent and matchers.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Matched is the number of workloads that are matched and have not opted out.
	// +optional
	Matched int32 `json:"matched"`
	// Injected is how many of them run with the agent as spec has it.
	// +optional
	Injected int32 `json:"injected"`
	// Pending is how many will, or are just being replaced.
	// +optional
	Pending int32 `json:"pending"`
	// Failed is how many can't be injected, or do not run with the agent.
	// +optional
	Failed int32 `json:"failed"`
	// Workloads are those that are pending or have failed, and why: the first 50, failed ones first.
	// +optional
	// +listType=atomic
	Workloads []WorkloadStatus `json:"workloads,omitempty"`
	// FirstReadyTime is when Ready was True for the first time. It stays, whatever becomes of Ready later;
	// it is absent until then.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded and, where they are True, Overruled and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadState is how far a workload is.
type WorkloadState string

// States of a workload in status.workloads.
const (
	StatePending WorkloadState = "Pending"
	StateFailed  WorkloadState = "Failed"
)

// WorkloadStatus is one workload that does not run with the agent, or not yet.
type WorkloadStatus struct {
	// Namespace of the workload; absent where it is that of the Instrumentation.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is "Deployment/web".
	Name string `json:"name"`
	// State is Pending or Failed.
	State WorkloadState `json:"state"`
	// Reason in one word.
	Reason string `json:"reason"`
	// Message says more.
	// +optional
	Message string `json:"message,omitempty"`
}
