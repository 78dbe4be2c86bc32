package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Llama is an animal of the farm. It is an example of a resource that Mainstay's own API server
// stores: see docs/add-a-served-resource.md.
//
// +kubebuilder:object:root=true
type Llama struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object's metadata.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec describes the Llama.
	Spec LlamaSpec `json:"spec"`
	// Status is the observed state.
	// +optional
	Status LlamaStatus `json:"status,omitempty"`
}

// LlamaList is a list of Llamas.
//
// +kubebuilder:object:root=true
type LlamaList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are the Llamas in the list.
	Items []Llama `json:"items"`
}

// LlamaSpec describes a Llama.
type LlamaSpec struct {
	// Weight in kilograms, greater than 0: a number such as 120 or 120.5.
	Weight float64 `json:"weight"`
	// Height in metres, greater than 0: a number such as 1.7.
	Height float64 `json:"height"`
}

// LlamaStatus is the observed state of a Llama.
type LlamaStatus struct {
	// Conditions are Ready, which the server sets, and those that other clients add.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

const (
	// ConditionReady is True when the Llama of this generation is stored. It is False if the stored
	// Llama can't be read.
	ConditionReady = "Ready"
	// ReasonKept (Ready True): the Llama is stored.
	ReasonKept = "Kept"
	// ReasonUnreadable (Ready False): the LlamaRecord that stores the Llama was edited and can't be
	// decoded. Only name and labels are known, until the whole Llama is replaced or deleted.
	ReasonUnreadable = "Unreadable"
)
