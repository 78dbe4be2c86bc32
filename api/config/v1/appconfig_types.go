package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mainstay-platform/mainstay/api"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// AppConfig is the configuration of one application in one namespace. Mainstay renders it into the
// ConfigMap APPLICATION-config with one write. When its content changes, the workloads in the
// namespace that use the ConfigMap are restarted, once per content. Earlier contents are kept as
// revisions for rollbacks.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=appconfigs,shortName=ac,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all pods run the current configuration"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Revision in the ConfigMap"
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.podSummary`,description="Pods that run the revision, out of all that use the ConfigMap"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.status.configMap`,priority=1
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.status.environment`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired configuration.
	// +required
	Spec AppConfigSpec `json:"spec"`
	// Status is the observed state: which content runs where.
	// +optional
	Status AppConfigStatus `json:"status,omitzero"`
}

// AppConfigList is a list of AppConfigs.
//
// +kubebuilder:object:root=true
type AppConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AppConfig `json:"items"`
}

// AppConfigSpec is the desired configuration. Only application is required.
type AppConfigSpec struct {
	// Application is the name of the application. The ConfigMap is called APPLICATION-config. If
	// several AppConfigs of a namespace have the same application, the oldest is used; the others have
	// the reason Conflict. The field is immutable: to rename, create another AppConfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=56
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-', with a letter or digit at both ends"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.application is immutable, because running pods use its ConfigMap: create another AppConfig"
	Application string `json:"application"`

	// Environment is development (dev), staging or production (prod), and selects an entry of
	// environments. The chart's value environments replaces this list. Default: the namespace's
	// environment, from its label mainstay.dev/environment or its name. A value that contradicts the
	// namespace's is refused.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Environment string `json:"environment,omitempty"`

	// Config are the keys of the ConfigMap. A value may be a Go template over .Application,
	// .Environment, .Namespace and .Values, which has the other keys: "http://{{ .Values.HOST
	// }}:8080". docs/spec/appconfig.md lists the functions.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="keys must consist of at most 253 letters, digits, '-', '_' and '.'"
	Config map[string]string `json:"config,omitempty"`

	// Files are whole files, by name: keys of the same ConfigMap, rendered in the same way after
	// config. Mount the ConfigMap to read them.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="file names must consist of at most 253 letters, digits, '-', '_' and '.'"
	Files map[string]string `json:"files,omitempty"`

	// Environments are the differences per environment, by its name or alias. Their config and files
	// replace those above, key by key.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Environments map[string]ConfigOverride `json:"environments,omitempty"`

	// Schema is a JSON Schema (draft 2020-12, without external references) that the rendered config
	// must satisfy, as an object of strings: {"properties": {"PORT": {"pattern": "^[0-9]+$"}},
	// "required": ["PORT"]}. Default: none.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Schema *runtime.RawExtension `json:"schema,omitempty"`

	// SecretRefs are the Secret keys that the application uses. The values stay in the Secrets: pods
	// get them by reference (env.valueFrom.secretKeyRef, or a volume), never through the ConfigMap. If
	// Mainstay may read the namespace's Secrets, a change of one of these keys restarts the workloads
	// that use it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	SecretRefs []SecretRef `json:"secretRefs,omitempty"`

	// Rollout is how a new content reaches the workloads.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// Revision selects an earlier content by its revision number, until the field is removed. Default:
	// the content that this spec renders.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision *int64 `json:"revision,omitempty"`

	// RevisionHistoryLimit is how many earlier contents are kept. Contents that pods still run, and
	// the last one that all pods have run, are always kept.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// ConfigOverride are the differences of one environment.
type ConfigOverride struct {
	// Config replaces values of spec.config, or adds to them.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="keys must consist of at most 253 letters, digits, '-', '_' and '.'"
	Config map[string]string `json:"config,omitempty"`
	// Files replaces files of spec.files, or adds to them.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="file names must consist of at most 253 letters, digits, '-', '_' and '.'"
	Files map[string]string `json:"files,omitempty"`
}

// SecretRef is one Secret key that the application uses.
type SecretRef struct {
	// Name by which the application knows it, such as DATABASE_PASSWORD. It must not be a key of
	// config.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be letters, digits, '-', '_' and '.', for example DATABASE_PASSWORD"
	Name string `json:"name"`
	// Secret is the name of a Secret in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
	// Key in the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z0-9]+$')",message="must be a key of a Secret: letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}

// RolloutMode is what starts a rollout.
type RolloutMode string

const (
	// RolloutAutomatic starts a rollout when the content changes and the window is open.
	RolloutAutomatic RolloutMode = "Automatic"
	// RolloutManual waits until a user approves the content.
	RolloutManual RolloutMode = "Manual"
)

// FailureAction is what happens after a failed rollout.
type FailureAction string

const (
	// FailureStop changes nothing more: no further workload is restarted.
	FailureStop FailureAction = "Stop"
	// FailureRollback restores the last revision that all pods have run.
	FailureRollback FailureAction = "Rollback"
)

// Rollout is how a new content reaches the workloads. The ConfigMap is written when the rollout
// starts; until then it keeps its content.
type Rollout struct {
	// Policy controls the order and the timing of the workloads.
	rolloutv1.Policy `json:",inline"`

	// Mode is Automatic, or Manual: a new content then waits until approved has its hash.
	// +optional
	// +default="Automatic"
	// +kubebuilder:validation:Enum=Automatic;Manual
	Mode RolloutMode `json:"mode,omitempty"`

	// Approved is, with mode Manual, the hash of the content to roll out, from status.pending.hash.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Approved string `json:"approved,omitempty"`

	// OnFailure is Stop or Rollback.
	// +optional
	// +default="Stop"
	// +kubebuilder:validation:Enum=Stop;Rollback
	OnFailure FailureAction `json:"onFailure,omitempty"`
}

// AppConfigStatus is the observed state of an AppConfig.
type AppConfigStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Progressing, Active, Failed or Deleting. Programs should
	// read the conditions.
	// +optional
	Phase api.Phase `json:"phase,omitempty"`
	// Environment for which the content was rendered, such as production, or empty.
	// +optional
	Environment string `json:"environment,omitempty"`
	// ConfigMap is the name of the ConfigMap that pods use.
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// Revision is the number of the ConfigMap's content.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Hash is the hash of that content.
	// +optional
	Hash string `json:"hash,omitempty"`
	// LastGood is the last revision that all pods, at least one, have run; absent until there is one.
	// +optional
	LastGood int64 `json:"lastGood,omitempty"`
	// Pending is a content that this spec renders but that is not in the ConfigMap yet.
	// +optional
	Pending *PendingContent `json:"pending,omitempty"`
	// UpdatedPods is the number of pods that run the content of the ConfigMap.
	// +optional
	UpdatedPods int32 `json:"updatedPods"`
	// Pods is the number of pods that use the ConfigMap.
	// +optional
	Pods int32 `json:"pods"`
	// PodSummary is updatedPods/pods, for display.
	// +optional
	PodSummary string `json:"podSummary,omitempty"`
	// Workloads that use the ConfigMap, by kind and name: the first 100.
	// +optional
	// +listType=atomic
	Workloads []WorkloadStatus `json:"workloads,omitempty"`
	// Revisions that are kept, newest first.
	// +optional
	// +listType=map
	// +listMapKey=revision
	Revisions []RevisionStatus `json:"revisions,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing and Degraded, and SecretAccessNotGranted and Stalled while
	// they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PendingContent is a content that is waiting to be rolled out.
type PendingContent struct {
	// Hash of the content, for rollout.approved.
	Hash string `json:"hash"`
	// Reason why it waits: AwaitingApproval, OutsideWindow, RolledBack or Pinned.
	Reason string `json:"reason"`
}

// WorkloadStatus is the progress of one workload.
type WorkloadStatus struct {
	// Kind is Deployment, StatefulSet or DaemonSet.
	Kind string `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
	// State is UpToDate, Rolling, Waiting or Failed.
	State string `json:"state"`
	// Revision that its newest pods run; 0 if unknown.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// UpdatedPods is the number of its pods that run the content of the ConfigMap.
	UpdatedPods int32 `json:"updatedPods"`
	// Pods is the number of its pods.
	Pods int32 `json:"pods"`
	// Message says what it waits for or what is wrong; otherwise empty.
	// +optional
	Message string `json:"message,omitempty"`
}

// RevisionStatus is one content that is kept.
type RevisionStatus struct {
	// Revision is its number, for spec.revision.
	Revision int64 `json:"revision"`
	// Hash of the content.
	Hash string `json:"hash"`
	// ConfigMap that has the content.
	ConfigMap string `json:"configMap"`
	// State is Current, Good (all pods have run it), Failed (its rollout failed), or Old.
	State string `json:"state"`
	// Pods is the number of pods that run it.
	Pods int32 `json:"pods"`
}
