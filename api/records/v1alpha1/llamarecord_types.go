package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LlamaRecord is the storage of a Llama (llamas.farm.mainstay.dev) of the same namespace and name.
// Use the Llama instead: nothing validates a LlamaRecord.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:resource:path=llamarecords
type LlamaRecord struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Kept is the whole Llama without its resourceVersion, which is the record's.
	// +required
	// +kubebuilder:pruning:PreserveUnknownFields
	// +structType=atomic
	Kept runtime.RawExtension `json:"kept"`
}

// LlamaRecordList is a list of LlamaRecords.
//
// +kubebuilder:object:root=true
type LlamaRecordList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LlamaRecord `json:"items"`
}

// Content returns the field with the stored object.
func (r *LlamaRecord) Content() *runtime.RawExtension { return &r.Kept }
