package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mainstay-platform/mainstay/api"
)

// PlatformPolicy has rules for applications in all namespaces, or in those of an environment. If
// several policies, or several rules of one, apply to a namespace, an object must satisfy all of
// them.
//
// A policy is checked when an object is written, and again whenever Mainstay reconciles it. When a
// policy becomes stricter, what already runs keeps running, with the condition PolicyViolation. A
// change of such an object must not break more of the policy. Policies do not apply to the
// namespaces kube-system, kube-public, kube-node-lease and Mainstay's own.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=platformpolicies,scope=Cluster,shortName=pp,categories={mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the current spec is in force"
// +kubebuilder:printcolumn:name="Environments",type=string,JSONPath=`.status.environments`,description="Environments for which the policy has rules; * means all namespaces"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces`,description="Number of governed namespaces"
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`,description="Number of governed objects"
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`,description="Number of objects that violate the policy"
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlatformPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has the rules.
	// +required
	Spec PlatformPolicySpec `json:"spec"`
	// Status is the observed state: the objects that the policy applies to, and those that break it.
	// +optional
	Status PlatformPolicyStatus `json:"status,omitzero"`
}

// PlatformPolicyList is a list of PlatformPolicies.
//
// +kubebuilder:object:root=true
type PlatformPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PlatformPolicy `json:"items"`
}

// PlatformPolicySpec has the rules of a policy.
type PlatformPolicySpec struct {
	// Rules, at most one per environment. An environment and its alias are the same.
	// +required
	// +listType=map
	// +listMapKey=environment
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=17
	Rules []Rule `json:"rules"`

	// Exemptions are objects to which rules of this policy do not apply until a time: they are not
	// refused, not counted as violations, and the rule's enforced values are not written.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Exemptions []Exemption `json:"exemptions,omitempty"`

	// Workloads is what happens to workloads without an object of Mainstay's that break a rule:
	// Deployments, StatefulSets, DaemonSets, ReplicaSets, ReplicationControllers, Jobs, CronJobs and
	// Pods. Off: nothing. Audit: an annotation in the API server's audit log. Warn: a warning for the
	// client. Enforce: the request is refused. A rule with the enforcement Warn or Audit does no more
	// than that, and none does more than the mode. Nothing is filled in or replaced: defaults are
	// ignored, and what is enforced is required. An update is checked for what it makes worse.
	// Default: Off.
	// +optional
	// +kubebuilder:validation:Enum=Off;Audit;Warn;Enforce
	Workloads WorkloadsMode `json:"workloads,omitempty"`
}

// Exemption is an object to which rules do not apply for a time.
type Exemption struct {
	// Kind of the object. An exemption of a WebApp from maxReplicas also counts when its Deployment is
	// scaled, as its autoscaler does.
	// +required
	// +kubebuilder:validation:Enum=WebApp;PostgreSQL;Cache;Deployment;StatefulSet;DaemonSet;ReplicaSet;ReplicationController;Job;CronJob;Pod
	Kind string `json:"kind"`
	// Namespace of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	// Name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Rules that do not apply, by their fields, in the rules for all environments. Default: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Rules []RuleName `json:"rules,omitempty"`
	// Reason is why, for people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason"`
	// Until is when the exemption ends: 2026-01-31T12:00:00Z. What runs then keeps running, and a
	// change of it must not break more of the rules.
	// +required
	Until metav1.Time `json:"until"`
}

// RuleName is a field of a rule that requires something.
// +kubebuilder:validation:Enum=maxReplicas;allowedRegistries;requireResourceLimits;requiredLabels;enforced.labels;enforced.securityProfile;enforced.securityContext
type RuleName string

// The names of rules.
const (
	RuleMaxReplicas           RuleName = "maxReplicas"
	RuleAllowedRegistries     RuleName = "allowedRegistries"
	RuleRequireResourceLimits RuleName = "requireResourceLimits"
	RuleRequiredLabels        RuleName = "requiredLabels"
	RuleEnforcedLabels        RuleName = "enforced.labels"
	RuleSecurityProfile       RuleName = "enforced.securityProfile"
	RuleSecurityContext       RuleName = "enforced.securityContext"
)

// WorkloadsMode is what happens to a workload that breaks a rule.
type WorkloadsMode string

// The modes.
const (
	WorkloadsOff     WorkloadsMode = "Off"
	WorkloadsAudit   WorkloadsMode = "Audit"
	WorkloadsWarn    WorkloadsMode = "Warn"
	WorkloadsEnforce WorkloadsMode = "Enforce"
)

// Enforcement is what happens to an object that breaks a rule.
type Enforcement string

// The enforcements.
const (
	EnforcementDeny  Enforcement = "Deny"
	EnforcementWarn  Enforcement = "Warn"
	EnforcementAudit Enforcement = "Audit"
)

// Rule has the requirements in the namespaces of one environment.
type Rule struct {
	// Environment of the namespaces that the rule applies to: development (dev), staging, production
	// (prod), or "*" for all namespaces. The chart's value environments replaces this list. A
	// namespace's environment is its label mainstay.dev/environment, or else its name, if that is one
	// of these words or ends in -dev, -staging or -prod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Environment string `json:"environment"`

	// NamespaceSelector restricts the rule to namespaces with these labels, of those with its
	// environment. It may have 16 labels, and 16 expressions with 32 values each. Default: all.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(!has(self.matchLabels) || size(self.matchLabels) <= 16) && (!has(self.matchExpressions) || size(self.matchExpressions) <= 16)",message="must have at most 16 matchLabels and 16 matchExpressions"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// Enforcement is what happens to an object that breaks the rule. Deny: it is refused, and the
	// controllers do not carry it out. Warn: it is accepted with a warning for the client. Audit: it
	// is accepted. Violations are counted in the status in each case, and the object has the condition
	// PolicyViolation. Defaults and enforced values are only written by rules with Deny. For workloads
	// without an object of Mainstay's, spec.workloads limits it. Default: Deny.
	// +optional
	// +kubebuilder:validation:Enum=Deny;Warn;Audit
	Enforcement Enforcement `json:"enforcement,omitempty"`

	// MaxReplicas is the highest number of replicas of one application, also of its autoscaler's
	// maximum. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// AllowedRegistries are the registries that images may come from: a host, with its port if it has
	// one, and optionally a path: registry.example.com, localhost:5000, docker.io/library. Host and
	// port must match exactly; a path matches whole segments: registry.example.com/team allows
	// .../team/shop but not .../teams. An image without a host (nginx) is in docker.io/library.
	// Default: any registry.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	AllowedRegistries []string `json:"allowedRegistries,omitempty"`

	// RequireResourceLimits requires a CPU and a memory limit on every container. An agent whose init
	// container lacks one is not injected.
	// +optional
	RequireResourceLimits bool `json:"requireResourceLimits,omitempty"`

	// RequiredLabels are label keys that every object must have (metadata.labels).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	RequiredLabels []string `json:"requiredLabels,omitempty"`

	// Defaults are set when an object is written, for fields that the user left out. If several rules
	// have a default for the same field, the rule of the environment takes precedence over "*", and
	// then the policy whose name is first in alphabetical order.
	// +optional
	Defaults Defaults `json:"defaults,omitzero"`

	// Enforced replaces the user's values when an object is written. Numbers and images are never
	// replaced: an object that breaks their rule is refused.
	// +optional
	Enforced Enforced `json:"enforced,omitzero"`
}

// Defaults are set for fields that the user left out.
type Defaults struct {
	// Labels of the object (metadata.labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// Resources of every container, for each request and limit separately. A default limit is never
	// below the user's request, nor a default request above the user's limit.
	// +optional
	Resources Resources `json:"resources,omitzero"`
}

// Resources are requests and limits.
type Resources struct {
	// Requests by resource: cpu, memory, ephemeral-storage.
	// +optional
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// Limits by resource: cpu, memory, ephemeral-storage.
	// +optional
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// Enforced replaces the user's values.
type Enforced struct {
	// Labels of the object (metadata.labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// SecurityProfile Restricted is the Pod Security Standard of that name, with a read-only root file
	// system. Contradicting fields of an object's security contexts are removed.
	// +optional
	// +kubebuilder:validation:Enum=Restricted
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`
	// SecurityContext is set on every container. It can only make a container more restricted.
	// +optional
	SecurityContext *SecurityContext `json:"securityContext,omitempty"`
}

// SecurityProfile is a set of limits for the pods' security.
type SecurityProfile string

// SecurityRestricted is the Pod Security Standard "restricted", and a read-only root file system.
const SecurityRestricted SecurityProfile = "Restricted"

// SecurityContext has the fields of a container's security context that a policy can enforce, each
// with the restricting values only.
type SecurityContext struct {
	// RunAsNonRoot: containers do not run as root; uid 0 is removed.
	// +optional
	// +kubebuilder:validation:Enum=true
	RunAsNonRoot *bool `json:"runAsNonRoot,omitempty"`
	// RunAsUser is the uid of every container, not 0. Of several rules, that of the environment takes
	// precedence over "*", and then that of the policy whose name is first in alphabetical order.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// AllowPrivilegeEscalation false: no process gains more rights than its parent. Privileged
	// containers become unprivileged, and the capability SYS_ADMIN, which implies it, is removed, as
	// is ALL, which includes it.
	// +optional
	// +kubebuilder:validation:Enum=false
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`
	// ReadOnlyRootFilesystem: the image's files are read-only; /tmp is an empty directory.
	// +optional
	// +kubebuilder:validation:Enum=true
	ReadOnlyRootFilesystem *bool `json:"readOnlyRootFilesystem,omitempty"`
	// DropCapabilities are dropped and can't be added: ALL, or names without CAP_.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	DropCapabilities []string `json:"dropCapabilities,omitempty"`
}

// PlatformPolicyStatus is the observed state of a policy. It follows changes within some seconds.
type PlatformPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is a one-word summary: Active, Failed or Deleting. Programs should read the
	// conditions.
	// +optional
	Phase api.Phase `json:"phase,omitempty"`
	// Environments that the policy has rules for, for display: "*,production".
	// +optional
	Environments string `json:"environments,omitempty"`
	// Namespaces is the number of namespaces that the policy applies to.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// Objects is the number of objects that the policy applies to: those of Mainstay's kinds and,
	// unless spec.workloads is Off, workloads of other owners. The latter are counted every
	// 10 minutes, and within half a minute of a change of policies or of labels of namespaces. A
	// workload counts once, not with the pods, ReplicaSets and Jobs that Kubernetes makes of it.
	// +optional
	Objects int32 `json:"objects"`
	// Violations is the number of objects that break the policy. Objects of Mainstay's kinds count by
	// their spec: a WebApp that sets neither replicas nor autoscaling does not count for the number of
	// its pods, although it has the condition PolicyViolation.
	// +optional
	Violations int32 `json:"violations"`
	// Violating are the first 20 objects that break the policy, with the details.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Violating []Violator `json:"violating,omitempty"`
	// Exemptions are those of the spec, in their order, with their state.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Exemptions []ExemptionStatus `json:"exemptions,omitempty"`
	// FirstReadyTime is when Ready became True for the first time; absent until then. It never changes
	// afterwards.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready, and Stalled, AuditIncomplete and ExemptionsExpiring while they are True.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExemptionState says whether an exemption counts.
type ExemptionState string

// The states.
const (
	// ExemptionActive: it counts.
	ExemptionActive ExemptionState = "Active"
	// ExemptionExpiring: it counts, and ends within 7 days.
	ExemptionExpiring ExemptionState = "Expiring"
	// ExemptionExpired: it does not count any more. Remove it.
	ExemptionExpired ExemptionState = "Expired"
)

// ExemptionStatus is the state of an exemption.
type ExemptionStatus struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object.
	Namespace string `json:"namespace"`
	// Name of the object.
	Name string `json:"name"`
	// State is Active, Expiring (within 7 days) or Expired.
	State ExemptionState `json:"state"`
	// Until is when the exemption ends.
	Until metav1.Time `json:"until"`
}

// Violator is an object that breaks a policy.
type Violator struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object.
	Namespace string `json:"namespace"`
	// Name of the object.
	Name string `json:"name"`
	// Message has the rules that it breaks, the fields and the accepted values.
	Message string `json:"message"`
}
