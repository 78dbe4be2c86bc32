package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PlatformPolicy says what the platform asks of applications: in all namespaces, and in those
// of an environment. Where several policies, or several rules of one, govern a namespace, all
// of them count: the strictest decides.
//
// A policy is checked when an object is written, and again whenever Mainstay acts on it. What
// already runs when a policy is made stricter goes on running, with the condition
// PolicyViolation, and can't be changed in a way that breaks more of the policy. The namespaces
// kube-system, kube-public, kube-node-lease and Mainstay's own are not governed.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=platformpolicies,scope=Cluster,shortName=pp,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the policy is in force as it is written"
// +kubebuilder:printcolumn:name="Environments",type=string,JSONPath=`.status.environments`,description="Environments that it has rules for; * is all namespaces"
// +kubebuilder:printcolumn:name="Namespaces",type=integer,JSONPath=`.status.namespaces`,description="Namespaces that it governs"
// +kubebuilder:printcolumn:name="Objects",type=integer,JSONPath=`.status.objects`,description="Objects that it governs"
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violations`,description="Objects that break it"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type PlatformPolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the policy asks.
	// +required
	Spec PlatformPolicySpec `json:"spec"`
	// Status is what it governs, and what breaks it.
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

// PlatformPolicySpec is what a policy asks.
type PlatformPolicySpec struct {
	// Rules, at most one for each environment, by whichever of its names.
	// +required
	// +listType=map
	// +listMapKey=environment
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=6
	Rules []Rule `json:"rules"`
}

// Rule is what is asked in the namespaces of one environment.
type Rule struct {
	// Environment whose namespaces the rule governs: development (dev), staging, production (prod),
	// or "*" for all namespaces. A namespace's environment is its label mainstay.dev/environment,
	// else its name, if that is one of these words or ends in -dev, -staging or -prod.
	// +required
	// +kubebuilder:validation:Enum="*";development;dev;staging;production;prod
	Environment string `json:"environment"`

	// MaxReplicas is the greatest number of replicas of one application, and of its
	// autoscaler's maximum. No limit where it is left out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// AllowedRegistries are where images may come from: a registry host, with its port if it
	// has one, and a path within it if only that is meant: registry.example.com,
	// localhost:5000, docker.io/library. Host and port must be the same; a path ends at "/":
	// registry.example.com/team allows .../team/shop and not .../teams. An image without a host
	// (nginx) is of docker.io/library. Any registry is allowed where this is left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=255
	AllowedRegistries []string `json:"allowedRegistries,omitempty"`

	// RequireResourceLimits asks for a CPU and a memory limit on every container.
	// +optional
	RequireResourceLimits bool `json:"requireResourceLimits,omitempty"`

	// RequiredLabels are keys of labels that every object must have (metadata.labels).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	RequiredLabels []string `json:"requiredLabels,omitempty"`

	// Defaults are filled in where the user is silent, when an object is written. Where several
	// rules have one for the same thing, that of the environment counts before that of "*",
	// and then the policy whose name comes first.
	// +optional
	Defaults Defaults `json:"defaults,omitzero"`

	// Enforced replaces what the user wrote, when an object is written. Numbers and images are
	// never replaced: what breaks their rule is refused.
	// +optional
	Enforced Enforced `json:"enforced,omitzero"`
}

// Defaults are filled in where the user is silent.
type Defaults struct {
	// Labels of the object (metadata.labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// Resources of every container, each request and limit for itself. A limit is never filled
	// in below the user's request, nor a request above the user's limit.
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

// Enforced replaces what the user wrote.
type Enforced struct {
	// Labels of the object (metadata.labels).
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	Labels map[string]string `json:"labels,omitempty"`
	// SecurityProfile Restricted is the Pod Security Standard of that name, and a read-only root file
	// system. What contradicts it in an object's security contexts is taken out.
	// +optional
	// +kubebuilder:validation:Enum=Restricted
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`
	// SecurityContext is set on every container. It can only tighten.
	// +optional
	SecurityContext *SecurityContext `json:"securityContext,omitempty"`
}

// SecurityProfile is a set of limits for the pods' security.
type SecurityProfile string

// SecurityRestricted is the Pod Security Standard "restricted", and a read-only root file system.
const SecurityRestricted SecurityProfile = "Restricted"

// SecurityContext is that part of a container's security context that a policy can enforce:
// each field with the values that tighten.
type SecurityContext struct {
	// RunAsNonRoot: the container does not start as root; uid 0 is taken out.
	// +optional
	// +kubebuilder:validation:Enum=true
	RunAsNonRoot *bool `json:"runAsNonRoot,omitempty"`
	// RunAsUser is the uid of every container, not 0. Of several rules' that of the environment
	// counts before that of "*", and then that of the policy whose name comes first.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	RunAsUser *int64 `json:"runAsUser,omitempty"`
	// AllowPrivilegeEscalation false: no process gains more rights than its parent. Privileged
	// containers are made unprivileged, and the capability SYS_ADMIN, which implies it, is taken out.
	// +optional
	// +kubebuilder:validation:Enum=false
	AllowPrivilegeEscalation *bool `json:"allowPrivilegeEscalation,omitempty"`
	// ReadOnlyRootFilesystem: the image's files can't be changed; /tmp is an empty directory.
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

// PlatformPolicyStatus is what a policy governs, and what breaks it. It follows changes within
// some seconds.
type PlatformPolicyStatus struct {
	// ObservedGeneration is the generation of the spec that the rest describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Environments that the policy has rules for, for people: "*,production".
	// +optional
	Environments string `json:"environments,omitempty"`
	// Namespaces is the number of namespaces that it governs.
	// +optional
	Namespaces int32 `json:"namespaces"`
	// Objects is the number of objects that it governs.
	// +optional
	Objects int32 `json:"objects"`
	// Violations is the number of objects that break it.
	// +optional
	Violations int32 `json:"violations"`
	// Violating names the first 20 objects that break it, and how.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Violating []Violator `json:"violating,omitempty"`
	// FirstReadyTime is when Ready was True for the first time. It stays, whatever becomes of Ready later;
	// it is absent until then.
	// +optional
	FirstReadyTime *metav1.Time `json:"firstReadyTime,omitempty"`
	// Conditions are Ready and, when it is True, Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Violator is an object that breaks a policy.
type Violator struct {
	// Kind of the object.
	Kind string `json:"kind"`
	// Namespace of the object.
	Namespace string `json:"namespace"`
	// Name of the object.
	Name string `json:"name"`
	// Message says which rules it breaks, in which field, and what is accepted.
	Message string `json:"message"`
}
