package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// AppConfig is the configuration of one application in one namespace. It is rendered into the ConfigMap
// APPLICATION-config, in one write; workloads of the namespace that use that ConfigMap are rolled when its content
// changes, once for each content. Earlier contents are kept as revisions, to go back to.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=appconfigs,shortName=ac,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether every pod runs the configuration as it is written"
// +kubebuilder:printcolumn:name="Revision",type=integer,JSONPath=`.status.revision`,description="Revision that the ConfigMap has"
// +kubebuilder:printcolumn:name="Pods",type=string,JSONPath=`.status.podSummary`,description="Pods that run it, of all that use the ConfigMap"
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.status.configMap`,priority=1
// +kubebuilder:printcolumn:name="Environment",type=string,JSONPath=`.status.environment`,priority=1
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AppConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the configuration as it should be.
	// +required
	Spec AppConfigSpec `json:"spec"`
	// Status is what of it runs where.
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

// AppConfigSpec is what an AppConfig should be. Only application is required.
type AppConfigSpec struct {
	// Application names the application. The ConfigMap is called APPLICATION-config. Of several AppConfigs of a namespace for
	// one application the oldest counts; the others have the reason Conflict. It can't be changed: make another AppConfig.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=56
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.application can't be changed, for running pods use its ConfigMap: make another AppConfig"
	Application string `json:"application"`

	// Environment is development (dev), staging or production (prod): which of environments counts. Left out: the
	// namespace's own, by its label mainstay.dev/environment or its name. One that contradicts the namespace's is refused.
	// +optional
	// +kubebuilder:validation:Enum=development;dev;staging;production;prod
	Environment string `json:"environment,omitempty"`

	// Config are the keys of the ConfigMap. A value may be a Go template over .Application, .Environment,
	// .Namespace and .Values, which has the other keys: "http://{{ .Values.HOST }}:8080". docs/spec/appconfig.md lists the functions.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="keys are made of letters, digits, -, _ and ., at most 253 of them"
	Config map[string]string `json:"config,omitempty"`

	// Files are whole files, by name: keys of the same ConfigMap, rendered in the same way after config. Mount the ConfigMap to read them.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="names of files are made of letters, digits, -, _ and ., at most 253 of them"
	Files map[string]string `json:"files,omitempty"`

	// Environments are what differs in an environment, by its name or alias: what is given there replaces, key by key, what
	// is given above.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['development','dev','staging','production','prod'])",message="environments are development (dev), staging and production (prod)"
	// +kubebuilder:validation:MaxProperties=5
	Environments map[string]ConfigOverride `json:"environments,omitempty"`

	// Schema is a JSON Schema (draft 2020-12, no references to elsewhere) that the rendered config must satisfy, as an
	// object of strings: {"properties": {"PORT": {"pattern": "^[0-9]+$"}}, "required": ["PORT"]}. Left out: none.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Schema *runtime.RawExtension `json:"schema,omitempty"`

	// SecretRefs name what the application takes from Secrets. The values stay there: pods get them by reference
	// (env.valueFrom.secretKeyRef, or a volume), never through the ConfigMap. Where Mainstay may read the namespace's Secrets, a
	// change of one of these keys rolls the workloads that use it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	SecretRefs []SecretRef `json:"secretRefs,omitempty"`

	// Rollout is how a new content reaches the workloads.
	// +optional
	Rollout Rollout `json:"rollout,omitzero"`

	// Revision goes back to an earlier content, by the number of its revision, and stays there until it is taken out
	// again. Left out: what this spec renders.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Revision *int64 `json:"revision,omitempty"`

	// RevisionHistoryLimit is how many earlier contents are kept. Those that pods still run, and the last one that
	// all pods have run, are kept beyond it.
	// +optional
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}

// ConfigOverride is what differs in one environment.
type ConfigOverride struct {
	// Config replaces values of spec.config, or adds to them.
	// +optional
	// +kubebuilder:validation:MaxProperties=1000
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="keys are made of letters, digits, -, _ and ., at most 253 of them"
	Config map[string]string `json:"config,omitempty"`
	// Files replaces files of spec.files, or adds to them.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.matches('^[-._a-zA-Z0-9]{1,253}$'))",message="names of files are made of letters, digits, -, _ and ., at most 253 of them"
	Files map[string]string `json:"files,omitempty"`
}

// SecretRef is one thing that the application takes from a Secret.
type SecretRef struct {
	// Name by which the application knows it: DATABASE_PASSWORD. No key of config has the same.
	// +required
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]{1,253}$`
	Name string `json:"name"`
	// Secret of the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret"`
	// Key within it.
	// +required
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]{1,253}$`
	Key string `json:"key"`
}

// RolloutMode says who starts a rollout.
type RolloutMode string

// Modes.
const (
	// RolloutAutomatic starts it when the content changes and the window is open.
	RolloutAutomatic RolloutMode = "Automatic"
	// RolloutManual waits until somebody approves the content.
	RolloutManual RolloutMode = "Manual"
)

// FailureAction says what becomes of a rollout that fails.
type FailureAction string

// Actions.
const (
	// FailureStop leaves everything as it is then: no further workload begins.
	FailureStop FailureAction = "Stop"
	// FailureRollback puts the last revision back that all pods have run.
	FailureRollback FailureAction = "Rollback"
)

// Rollout is how a new content reaches the workloads. The ConfigMap is written when the rollout starts; until then it
// keeps what it has.
type Rollout struct {
	// Policy says which workloads go when.
	rolloutv1.Policy `json:",inline"`

	// Mode is Automatic, or Manual: then a content waits until approved names it.
	// +optional
	// +default="Automatic"
	// +kubebuilder:validation:Enum=Automatic;Manual
	Mode RolloutMode `json:"mode,omitempty"`

	// Approved is, with Manual, the hash of the content that may be rolled out: status.pending.hash.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Approved string `json:"approved,omitempty"`

	// OnFailure is Stop or Rollback.
	// +optional
	// +default="Stop"
	// +kubebuilder:validation:Enum=Stop;Rollback
	OnFailure FailureAction `json:"onFailure,omitempty"`
}

// AppConfigStatus is what of an AppConfig runs where.
type AppConfigStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Environment that the content was rendered for: development, staging, production, or empty.
	// +optional
	Environment string `json:"environment,omitempty"`
	// ConfigMap is the name of the ConfigMap that pods use.
	// +optional
	ConfigMap string `json:"configMap,omitempty"`
	// Revision is the number of the content that the ConfigMap has.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// Hash is the hash of that content.
	// +optional
	Hash string `json:"hash,omitempty"`
	// LastGood is the last revision that all pods have run; absent until there is one.
	// +optional
	LastGood int64 `json:"lastGood,omitempty"`
	// Pending is a content that this spec renders and the ConfigMap does not have yet.
	// +optional
	Pending *PendingContent `json:"pending,omitempty"`
	// UpdatedPods is the number of pods that run the content of the ConfigMap.
	// +optional
	UpdatedPods int32 `json:"updatedPods"`
	// Pods is the number of pods that use the ConfigMap.
	// +optional
	Pods int32 `json:"pods"`
	// PodSummary is updatedPods/pods, for people.
	// +optional
	PodSummary string `json:"podSummary,omitempty"`
	// Workloads that use the ConfigMap, by kind and name: the first 100.
	// +optional
	// +listType=atomic
	Workloads []WorkloadStatus `json:"workloads,omitempty"`
	// Revisions that are kept, the newest first.
	// +optional
	// +listType=map
	// +listMapKey=revision
	Revisions []RevisionStatus `json:"revisions,omitempty"`
	// FirstReadyTime is when Ready was True for the first time. It stays, whatever becomes of Ready later;
	// it is absent until then.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing, Degraded, SecretAccessNotGranted (where it is True) and, when it is True, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PendingContent is a content that waits.
type PendingContent struct {
	// Hash names it: rollout.approved takes it.
	Hash string `json:"hash"`
	// Reason is why it waits: AwaitingApproval, OutsideWindow, RolledBack or Pinned.
	Reason string `json:"reason"`
}

// WorkloadStatus is how far one workload is.
type WorkloadStatus struct {
	// Kind is Deployment, StatefulSet or DaemonSet.
	Kind string `json:"kind"`
	// Name of the workload.
	Name string `json:"name"`
	// State is UpToDate, Rolling, Waiting or Failed.
	State string `json:"state"`
	// Revision that its newest pods run; 0 if it is not known.
	// +optional
	Revision int64 `json:"revision,omitempty"`
	// UpdatedPods is the number of its pods that run the content of the ConfigMap.
	UpdatedPods int32 `json:"updatedPods"`
	// Pods is the number of its pods.
	Pods int32 `json:"pods"`
	// Message says what it waits for or what is wrong; empty if nothing is.
	// +optional
	Message string `json:"message,omitempty"`
}

// RevisionStatus is one content that is kept.
type RevisionStatus struct {
	// Revision is its number: spec.revision takes it.
	Revision int64 `json:"revision"`
	// Hash of the content.
	Hash string `json:"hash"`
	// ConfigMap that keeps it.
	ConfigMap string `json:"configMap"`
	// State is Current, Good (all pods have run it), Failed (its rollout failed), or Old.
	State string `json:"state"`
	// Pods is the number of pods that run it.
	Pods int32 `json:"pods"`
}
