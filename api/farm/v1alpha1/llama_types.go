package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Llama is an animal of the farm. It is the worked example of a resource that Mainstay's own API server keeps: see docs/add-a-served-resource.md.
//
// +kubebuilder:object:root=true
type Llama struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata are as those of any resource.
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what it is like.
	Spec LlamaSpec `json:"spec"`
	// Status is how it does.
	// +optional
	Status LlamaStatus `json:"status,omitempty"`
}

// LlamaList is a list of Llamas.
//
// +kubebuilder:object:root=true
type LlamaList struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata are as those of any list.
	metav1.ListMeta `json:"metadata,omitempty"`
	// Items are those that were asked for.
	Items []Llama `json:"items"`
}

// LlamaSpec is what a Llama is like.
type LlamaSpec struct {
	// Weight is in kilograms, and above 0: a number, as 120 or 120.5.
	Weight float64 `json:"weight"`
	// Height is in metres, and above 0: a number, as 1.7.
	Height float64 `json:"height"`
}

// LlamaStatus is how a Llama does.
type LlamaStatus struct {
	// Conditions are Ready, which the server itself writes, and what others add.
	// +optional
	// +patchMergeKey=type
	// +patchStrategy=merge
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
}

const (
	// ConditionReady is True: the Llama of this generation is kept. It is False for one that can't be read any more.
	ConditionReady = "Ready"
	// ReasonKept (Ready True): it is kept.
	ReasonKept = "Kept"
	// ReasonUnreadable (Ready False): somebody wrote into the LlamaRecord that keeps it, and it can't be read any more. It says nothing of the
	// Llama but its name and labels, until it is written anew, whole, or deleted.
	ReasonUnreadable = "Unreadable"
)
