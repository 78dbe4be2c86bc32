package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
	rolloutv1 "github.com/mainstay-platform/mainstay/api/rollout/v1"
)

// ConfigMonitor restarts pods when the data of a ConfigMap or Secret change, whether or not they
// mount it. A change restarts a workload once, however many ConfigMonitors select it.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=configmonitors,shortName=cmon,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether all selected pods run the current content"
// +kubebuilder:printcolumn:name="Source",type=string,JSONPath=`.status.source`,description="The watched ConfigMap or Secret"
// +kubebuilder:printcolumn:name="Matched",type=integer,JSONPath=`.status.matched`,description="Number of selected workloads, or of pods with the strategy Evict"
// +kubebuilder:printcolumn:name="Last-Restart",type=date,JSONPath=`.status.lastRestart`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ConfigMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what to watch, and what to restart.
	// +required
	Spec ConfigMonitorSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status ConfigMonitorStatus `json:"status,omitzero"`
}

// ConfigMonitorList is a list of ConfigMonitors.
//
// +kubebuilder:object:root=true
type ConfigMonitorList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ConfigMonitor `json:"items"`
}

// Strategy is how pods are restarted.
type Strategy string

const (
	// StrategyRollout restarts the owning Deployment, StatefulSet or DaemonSet with its own update
	// strategy.
	StrategyRollout Strategy = "Rollout"
	// StrategyEvict evicts the pods, respecting PodDisruptionBudgets: for pods whose owner has no
	// rolling update.
	StrategyEvict Strategy = "Evict"
)

// ConfigMonitorSpec is what to watch, and what to restart. Exactly one of configMap and secret is
// required, and podSelector.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.configMap) && has(self.configmap))",message="must not set both spec.configMap and spec.configmap: they are two spellings of one field"
// +kubebuilder:validation:XValidation:rule="(has(self.configMap) || has(self.configmap)) != has(self.secret)",message="must set exactly one of spec.configMap or spec.secret"
type ConfigMonitorSpec struct {
	// ConfigMap is the name of the ConfigMap to watch, in the same namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ConfigMap string `json:"configMap,omitempty"`

	// LowerConfigMap (configmap) is an alternative spelling of configMap.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	LowerConfigMap string `json:"configmap,omitempty"`

	// Secret is the name of the Secret to watch, in the same namespace. Mainstay may read Secrets only
	// in the namespaces that its installation lists (secrets.namespaces); elsewhere the condition
	// SecretAccessNotGranted is True.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Secret string `json:"secret,omitempty"`

	// Keys are the keys to watch. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	Keys []string `json:"keys,omitempty"`

	// PodSelector are the labels that a pod must have, all of them.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=32
	PodSelector map[string]string `json:"podSelector"`

	// Strategy is Rollout or Evict.
	// +optional
	// +default="Rollout"
	// +kubebuilder:validation:Enum=Rollout;Evict
	Strategy Strategy `json:"strategy,omitempty"`

	// AllowUnowned lets the strategy Evict delete pods that no controller would recreate.
	// +optional
	AllowUnowned bool `json:"allowUnowned,omitempty"`

	// Debounce is how long further changes are collected after a change that was applied at once. They
	// are then applied together. Default: 0s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$')",message="must be a duration, for example 30s, 5m or 1h30m"
	Debounce *metav1.Duration `json:"debounce,omitempty"`

	// Cooldown is the shortest time between two restarts of one workload. Changes in between are
	// applied at its end. Default: 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-+]?(0|([0-9.]+(ns|us|µs|ms|s|m|h))+)$')",message="must be a duration, for example 30s, 5m or 1h30m"
	Cooldown *metav1.Duration `json:"cooldown,omitempty"`

	// Window is when restarts may begin. Default: at any time.
	// +optional
	Window *rolloutv1.Window `json:"window,omitempty"`

	// MaxParallel is how many workloads (or, with Evict, pods) may be restarting at the same time.
	// Default: all.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`
}

// ConfigMonitorStatus is the observed state of a ConfigMonitor.
type ConfigMonitorStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Pending, Progressing, Active, Failed or Deleting. Programs should
	// read the conditions.
	// +optional
	Phase api.Phase `json:"phase,omitempty"`
	// Source is what is watched, such as "ConfigMap/flags".
	// +optional
	Source string `json:"source,omitempty"`
	// LastChange is when the source's data last changed, as far as its metadata tell.
	// +optional
	LastChange *metav1.Time `json:"lastChange,omitempty"`
	// LastRestart is when a selected workload was last restarted for the source.
	// +optional
	LastRestart *metav1.Time `json:"lastRestart,omitempty"`
	// Restarts is the number of restarts for the source, of the currently selected workloads.
	// +optional
	Restarts int64 `json:"restarts"`
	// Matched is the number of selected workloads (or, with Evict, pods).
	// +optional
	Matched int32 `json:"matched"`
	// UpToDate is how many of them run the current content.
	// +optional
	UpToDate int32 `json:"upToDate"`
	// Skipped are those that are not restarted, or not yet, with the reason: the first 20.
	// +optional
	// +listType=atomic
	Skipped []Skipped `json:"skipped,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, Progressing and Degraded, and SecretAccessNotGranted, Flapping and Stalled
	// while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Skipped is a workload or pod that is not restarted, or not yet.
type Skipped struct {
	// Name is "Deployment/web", or "Pod/job-x2f".
	Name string `json:"name"`
	// Reason is one word.
	Reason string `json:"reason"`
	// Message has the details.
	// +optional
	Message string `json:"message,omitempty"`
}
