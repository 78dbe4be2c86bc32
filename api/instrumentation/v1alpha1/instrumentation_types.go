package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// Instrumentation injects an agent into workloads of its namespace, without changes to their images
// or manifests. Deleting it removes the agent: each pod template is again as its owner wrote it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=instrumentations,shortName=instr,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all matched workloads run with the agent"
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.agent.language`,priority=1
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Number of matched workloads"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Number of matched workloads whose pods run with the agent"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Number of matched workloads that can't be injected, or do not run with the agent"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Instrumentation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to inject, and where.
	// +required
	Spec InstrumentationSpec `json:"spec"`
	// Status is the observed state.
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

// ClusterInstrumentation injects an agent into workloads of all namespaces that it selects.
// Deleting it removes the agent: each pod template is again as its owner wrote it. Kubernetes' own
// namespaces and Mainstay's are excluded.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=clusterinstrumentations,scope=Cluster,shortName=cinstr,categories={mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all matched workloads run with the agent"
// +kubebuilder:printcolumn:name="Language",type=string,JSONPath=`.spec.agent.language`,priority=1
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Number of matched workloads"
// +kubebuilder:printcolumn:name="Injected",type=integer,JSONPath=`.status.injected`,description="Number of matched workloads whose pods run with the agent"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failed`,description="Number of matched workloads that can't be injected, or do not run with the agent"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ClusterInstrumentation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to inject, and where.
	// +required
	Spec ClusterInstrumentationSpec `json:"spec"`
	// Status is the observed state.
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

// ClusterInstrumentationSpec is what to inject, and where.
type ClusterInstrumentationSpec struct {
	InstrumentationSpec `json:",inline"`

	// NamespaceSelector selects namespaces by labels. Default: all.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// AllowAll permits matchers that match every workload in the selected namespaces. Without it they
	// are refused, because a small mistake could replace every pod of the cluster.
	// +optional
	AllowAll bool `json:"allowAll,omitempty"`
}

// InstrumentationSpec is what to inject, and where.
type InstrumentationSpec struct {
	// Matchers select the containers. A container that several match gets the env of all; of variables
	// with the same name it gets the first.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	Matchers []Matcher `json:"matchers"`

	// Agent is what to inject.
	// +required
	Agent Agent `json:"agent"`

	// Rollout is how a change reaches existing workloads; new ones too, if strategy is Canary, or
	// order, maxParallel or window is set. Default: all at once.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`
}

// WorkloadKind is a kind of workload.
type WorkloadKind string

// The kinds of workloads that can be injected into.
const (
	KindDeployment  WorkloadKind = "Deployment"
	KindStatefulSet WorkloadKind = "StatefulSet"
	KindDaemonSet   WorkloadKind = "DaemonSet"
)

// Matcher selects containers. A field that is left out matches all.
type Matcher struct {
	// Deployment is the name of the workload, of any of the kinds; * matches any characters, ? matches
	// one, [a-c] matches one of several.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Deployment string `json:"deployment,omitempty"`

	// Container is the name of the container, with the same patterns. Default: all but well-known
	// side-cars (docs/spec/instrumentation.md lists them). Init containers are never matched.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container,omitempty"`

	// Labels select workloads by their own labels, not by those of their pods.
	// +optional
	Labels *metav1.LabelSelector `json:"labels,omitempty"`

	// Kinds of workloads. Default: Deployment.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=Deployment;StatefulSet;DaemonSet
	Kinds []WorkloadKind `json:"kinds,omitempty"`

	// Env has variables for the matched containers, which take precedence over agent.env. A variable
	// that a container already has keeps its value.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// Language is the runtime of the application, which determines the variable that loads the agent.
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
	// VolumeInitContainer copies them to a volume of the pod, in an init container.
	VolumeInitContainer VolumeMode = "InitContainer"
	// VolumeImage mounts the image itself, if the cluster supports it: from Kubernetes 1.35.
	VolumeImage VolumeMode = "ImageVolume"
)

// Agent is what to inject.
//
// +kubebuilder:validation:XValidation:rule="self.language != 'dotnet' || (has(self.profiler) && has(self.path))",message="language dotnet requires spec.agent.profiler, the GUID of the profiler, and spec.agent.path, its library"
// +kubebuilder:validation:XValidation:rule="self.language == 'dotnet' || !has(self.profiler)",message="spec.agent.profiler requires language dotnet"
// +kubebuilder:validation:XValidation:rule="self.language == 'java' || !has(self.options)",message="spec.agent.options requires language java"
// +kubebuilder:validation:XValidation:rule="self.volumeMode != 'ImageVolume' || !has(self.command)",message="spec.agent.command requires an init container: it must be empty with volumeMode ImageVolume"
type Agent struct {
	// Image has the agent's files. It must not need root if the pods may not run as root.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1000
	Image string `json:"image"`

	// ImagePullPolicy is when a node pulls it.
	// +optional
	// +default="IfNotPresent"
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// Language is java, nodejs, python, dotnet, ruby or custom, and determines the variable that loads
	// the agent.
	// +required
	// +kubebuilder:validation:Enum=java;nodejs;python;dotnet;ruby;custom
	Language Language `json:"language"`

	// Path of the file that the runtime loads, relative to mountPath. Default: agent.jar (java),
	// agent.js (nodejs), mountPath itself (python), agent.rb (ruby).
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._+-]+(/[A-Za-z0-9._+-]+)*$')",message="must be a relative path of letters, digits and ._+-, for example lib/agent.so"
	Path string `json:"path,omitempty"`

	// Options of a Java agent: -javaagent:PATH=OPTIONS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=500
	// +kubebuilder:validation:Pattern=`^[^\s"'$]+$`
	Options string `json:"options,omitempty"`

	// Profiler is the GUID of a .NET profiler: {918728DD-259F-4A6A-AC2B-B85E1B658318}.
	// +optional
	// +kubebuilder:validation:MaxLength=38
	// +kubebuilder:validation:XValidation:rule="self.matches('^[{][0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}[}]$')",message="must be a GUID in braces, for example {918728DD-259F-4A6A-AC2B-B85E1B658318}"
	Profiler string `json:"profiler,omitempty"`

	// VolumeMode is InitContainer, or ImageVolume, which copies nothing.
	// +optional
	// +default="InitContainer"
	// +kubebuilder:validation:Enum=InitContainer;ImageVolume
	VolumeMode VolumeMode `json:"volumeMode,omitempty"`

	// Directory in the image that has the agent's files.
	// +optional
	// +default="/agent"
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9._+-]+)+$')",message="must be an absolute path of letters, digits and ._+-, for example /agent"
	Directory string `json:"directory,omitempty"`

	// Command copies the files to mountPath, where the volume is mounted in the init container, too.
	// Default: cp -R DIRECTORY/. MOUNTPATH.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Command []string `json:"command,omitempty"`

	// MountPath is the path of the files in the containers.
	// +optional
	// +default="/mainstay/agent"
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[A-Za-z0-9._+-]+)+$')",message="must be an absolute path of letters, digits and ._+-, for example /agent"
	MountPath string `json:"mountPath,omitempty"`

	// SizeLimit is the size limit of the volume that the files are copied to.
	// +optional
	// +default="256Mi"
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`

	// Resources of the init container. Default: requests and limits of 100m CPU and 128Mi memory, with
	// which a pod of the QoS class Guaranteed keeps its class. Without a CPU and a memory limit, the
	// agent is not injected where a PlatformPolicy requires limits.
	// +optional
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`

	// Env has variables for all matched containers. A variable that a container already has keeps its
	// value.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Env []corev1.EnvVar `json:"env,omitempty"`
}

// RolloutStrategy is whether canaries run the agent first.
type RolloutStrategy string

const (
	// RolloutAutomatic uses no canaries; the rest of the policy applies.
	RolloutAutomatic RolloutStrategy = "Automatic"
	// RolloutCanary injects into some workloads first. If they fail, they return to their previous
	// state, and no other workload gets the agent.
	RolloutCanary RolloutStrategy = "Canary"
)

// Rollout is how a new or changed agent reaches existing workloads. In the order of a
// ClusterInstrumentation, workloads are named "NAMESPACE/NAME".
//
// +kubebuilder:validation:XValidation:rule="self.strategy == 'Canary' || !has(self.canary)",message="spec.rollout.canary requires spec.rollout.strategy Canary"
type Rollout struct {
	// Policy controls the order and the timing of the workloads.
	rolloutv1.Policy `json:",inline"`

	// Strategy is Automatic, or Canary: then canary.percent of the workloads (default without count:
	// 10) run the agent first, for canary.soak (default: 5m).
	// +optional
	// +default="Automatic"
	// +kubebuilder:validation:Enum=Automatic;Canary
	Strategy RolloutStrategy `json:"strategy,omitempty"`
}

// InstrumentationStatus is the observed state of an Instrumentation.
type InstrumentationStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Progressing, Active, Failed or Deleting. Programs should
	// read the conditions.
	// +optional
	Phase api.Phase `json:"phase,omitempty"`
	// Revision is a hash of what spec injects: it changes with agent and matchers.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Matched is the number of matched workloads that have not opted out.
	// +optional
	Matched int32 `json:"matched"`
	// Injected is how many of them run with the agent of the spec.
	// +optional
	Injected int32 `json:"injected"`
	// Pending is how many wait for the agent, or are being replaced.
	// +optional
	Pending int32 `json:"pending"`
	// Failed is how many can't be injected, or do not run with the agent.
	// +optional
	Failed int32 `json:"failed"`
	// Workloads that are pending or have failed, with the reason: the first 50, failed ones first.
	// +optional
	// +listType=atomic
	Workloads []WorkloadStatus `json:"workloads,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing and Degraded, and Overruled and Stalled while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadState is the progress of a workload.
type WorkloadState string

// States of a workload in status.workloads.
const (
	StatePending WorkloadState = "Pending"
	StateFailed  WorkloadState = "Failed"
)

// WorkloadStatus is a workload that does not run with the agent, or not yet.
type WorkloadStatus struct {
	// Namespace of the workload; absent if it is the Instrumentation's own.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name is "Deployment/web".
	Name string `json:"name"`
	// State is Pending or Failed.
	State WorkloadState `json:"state"`
	// Reason is one word.
	Reason string `json:"reason"`
	// Message has the details.
	// +optional
	Message string `json:"message,omitempty"`
}
