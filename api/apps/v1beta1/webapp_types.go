package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	msappsv1 "github.com/mainstay-platform/mainstay/api/apps/v1"
)

// WebApp is a web application: one container image that answers HTTP on a port. Fields that this
// version lacks are in the annotation mainstay.dev/v1-spec: do not change it, or use
// apps.mainstay.dev/v1.
//
// +kubebuilder:object:root=true
// +kubebuilder:deprecatedversion:warning="apps.mainstay.dev/v1beta1 WebApp is deprecated: use apps.mainstay.dev/v1"
// +kubebuilder:unservedversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webapps,shortName=wa,categories={all,mainstay}
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the application is available as its spec says"
// +kubebuilder:printcolumn:name="Replicas",type=string,JSONPath=`.status.replicaSummary`,description="Ready replicas, out of the desired ones"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",fieldPath=".metadata",messageExpression="'metadata.name ' + self.metadata.name + ' must be a DNS label: at most 63 characters, lower-case letters, digits and -, starting with a letter (its Service bears the same name)'"
type WebApp struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the desired application.
	// +required
	Spec WebAppSpec `json:"spec"`
	// Status is the observed state; the same as in v1.
	// +optional
	Status msappsv1.WebAppStatus `json:"status,omitzero"`
}

// WebAppList is a list of WebApps.
//
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}

// WebAppSpec is the desired application. Only image is required.
type WebAppSpec struct {
	// Replicas is the number of pods, at least 1. If it is left out, the application starts with 1,
	// and Mainstay does not change the number afterwards.
	// +optional
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:validation:XValidation:rule="self >= 1",message="must be at least 1: to stop the application, set spec.suspend of apps.mainstay.dev/v1 to true"
	Replicas *int32 `json:"replicas,omitempty"`

	// Image is the container image to run, for example registry.example.com/team/shop:1.4.2.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Image string `json:"image"`

	// Port is the TCP port on which the application listens.
	// +optional
	// +default=8080
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// Host publishes the application through an Ingress under this DNS name, for example
	// shop.example.com; a leading "*." matches any one label. Default: no Ingress. Removing it removes
	// all Ingress settings of v1, too.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="must be a DNS name in lower case without scheme, port or path, for example shop.example.com"
	Host string `json:"host,omitempty"`
}
